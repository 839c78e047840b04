"""`regard train --watch`: serve the page of a run during training, in a separate process.

The process loads no model, runs at low priority, and ends with the training process, even if that is killed: it reads
from a pipe that closes then.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from regard.errors import CallError, pip_install
from regard.serve.limits import Limits

LATER = 10  # niceness


@contextmanager
def watched(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Serve the page; call `say` with its address when it is ready. It also shows the other runs of the folder."""
    if any(find_spec(name) is None for name in ("fastapi", "uvicorn")):
        raise CallError(f"--watch serves a page, which needs the web extra: {pip_install('regard[web]')}")
    process = subprocess.Popen(
        [sys.executable, "-m", "regard.serve.watching", str(folder.resolve().parent)],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    threading.Thread(target=_tell, args=(process, folder.resolve().name, say), daemon=True).start()
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def _tell(process: subprocess.Popen, name: str, say: Callable[[str], None]) -> None:
    for line in process.stderr or ():
        address = line.split()[1] if line.startswith("regard: http") else ""
        say(f"watch it train: {address}runs?run={quote(name)}" if address else line.rstrip())


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
