"""`regard train --watch`: serve the page of a run during training, in a separate process.

The process loads no model, runs at low priority, and ends with the training process, even if that is killed: it reads
from a pipe that closes then.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from regard.serve.errors import Limits

LATER = 10  # niceness


def _until_the_end_of_input() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def main(folder: Path) -> None:
    from regard.serve.command import serve

    os.nice(LATER)
    folder.mkdir(parents=True, exist_ok=True)
    threading.Thread(target=_until_the_end_of_input, daemon=True).start()
    serve([folder], "127.0.0.1", 0, Limits(), models=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
