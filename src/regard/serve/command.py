"""`regard serve RUN [RUN ...]`."""

import logging
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard import loading
from regard.errors import CallError, RegardError, pip_install
from regard.report.run_files import runs_in, unused_name
from regard.serve.errors import LOOPBACK, Limits

if TYPE_CHECKING:
    from regard.loading import AnyRun


def serve(
    folders: Sequence[Path],
    host: str,
    port: int,
    limits: Limits,
    quantize: Any = None,
    *,
    models: bool = True,
) -> None:
    """Serve until stopped. On an address that others can reach, any host name is accepted.

    `models=False` serves only the page of runs and loads nothing.
    """
    try:
        from regard.serve.app import create_app
        from regard.serve.server import Server
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "prometheus_client", "starlette", "uvicorn"):
            raise
        raise CallError(f"the service needs packages: {pip_install('regard[web]')}") from None
    logging.basicConfig(format="regard: %(message)s", level=logging.WARNING)
    limits = replace(limits, hosts=LOOPBACK if host in LOOPBACK else None)
    app = create_app(load_all(folders, quantize) if models else {}, limits, folders)
    server = Server(app, limits)
    with listen(host, port) as listening:
        name = f"[{host}]" if ":" in host else host
        print(f"regard: http://{name}:{listening.getsockname()[1]}/  (docs: /docs; Ctrl-C ends)", file=sys.stderr)
        server.run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise CallError(f"cannot listen on {host} port {port} ({error.strerror}): try another --port") from None
    # Connections inherit this. Without it each answer, sent as head and body, waits 40 ms for an acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def load_all(folders: Sequence[Path], quantize: Any = None) -> dict[str, "AnyRun"]:
    """Load each run under the name of its folder; folders with equal names are numbered.

    From a folder of runs, load all that can be loaded; the page of runs also shows the others.
    """
    runs: dict[str, AnyRun] = {}
    for given in folders:
        inside = runs_in(given)
        for folder in inside or [given]:
            try:
                runs[unused_name(folder, runs)] = loading.load(folder, quantize=quantize)
            except RegardError as problem:  # a run without weights, or of another version
                if not inside:
                    raise
                print(f"regard: {problem}", file=sys.stderr)
    return runs


def read_key(file: Path | None) -> str | None:
    """Read the key from a file: on the command line, every user of the machine could read it."""
    if file is None:
        return None
    try:
        key = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CallError(f"--api-key-file {file} cannot be read ({error})") from None
    if not key:
        raise CallError(f"--api-key-file {file} is empty")
    return key
