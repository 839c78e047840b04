"""The page of a run while it trains, served by a process of its own (`regard train --watch`)."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from regard.errors import CallError, pip_install


@contextmanager
def serve_progress(folder: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Serve the page; call `report` with its address when it is ready. It also shows the other runs of the folder."""
    if any(find_spec(name) is None for name in ("fastapi", "uvicorn")):
        raise CallError(f"--watch serves a page, which needs the web extra: {pip_install('regard[web]')}")
    process = subprocess.Popen(
        [sys.executable, "-m", "regard.serve.watching", str(folder.resolve().parent)],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    threading.Thread(target=_report_address, args=(process, folder.resolve().name, report), daemon=True).start()
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def _report_address(process: subprocess.Popen, name: str, report: Callable[[str], None]) -> None:
    for line in process.stderr or ():
        address = line.split()[1] if line.startswith("regard: http") else ""
        report(f"watch it train: {address}runs?run={quote(name)}" if address else line.rstrip())
