"""A file of the network: it goes on where it stopped, and has its name only when its checksum is right.

What is there so far is FILE.part. The rest of it is asked for (HTTP `Range`); a server that cannot do that sends all of
it again.
"""

import hashlib
import shutil
import sys
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from regard.datasets.table import Remote
from regard.errors import RegardError

TIMEOUT = 30  # seconds without a byte
PIECE = 1 << 20
PARTIAL, TOO_FAR = 206, 416  # what a server answers: here is the rest; there is no more


def download(remote: Remote, folder: Path) -> Path:
    """Its file in a folder: as it is, if it is there."""
    file = folder / remote.name
    if file.exists():
        return file
    part = file.with_name(file.name + ".part")
    have = part.stat().st_size if part.exists() else 0
    more = f", from byte {have:,} on" if have else ""
    print(f"fetching {remote.url}{more}", file=sys.stderr, flush=True)
    try:
        headers = {"User-Agent": "regard", **({"Range": f"bytes={have}-"} if have else {})}
        with urlopen(Request(remote.url, headers=headers), timeout=TIMEOUT) as answer:
            folder.mkdir(parents=True, exist_ok=True)
            goes_on = have > 0 and answer.status == PARTIAL
            with part.open("ab" if goes_on else "wb") as out:
                before = out.tell()
                shutil.copyfileobj(answer, out, PIECE)
                missing = int(answer.headers.get("Content-Length") or 0) - (out.tell() - before)
    except HTTPError as problem:
        if not (problem.code == TOO_FAR and have):
            raise RegardError(f"{remote.url}: the server says {problem.code} {problem.reason}") from None
        missing = 0
    except (URLError, OSError) as problem:
        reason = getattr(problem, "reason", None) or problem
        raise RegardError(
            f"{remote.url} cannot be reached ({reason}). With a network, the same command goes on; docs/datasets.md "
            "says how to get the files by hand"
        ) from None
    if missing > 0:
        raise RegardError(f"{remote.url}: the connection ended {missing:,} bytes early; the same command goes on")
    if wrong := differs(part, remote.digest):
        part.unlink()
        raise RegardError(f"{remote.url}: {wrong}: it is another file than it was, and is not kept")
    part.rename(file)
    return file


def differs(file: Path, digest: str) -> str:
    """What is wrong with a file that should have this digest; nothing if it has, or if none is known."""
    if not digest:
        return ""
    kind, _, wanted = digest.partition(":")
    with file.open("rb") as opened:
        found = str(sum(1 for _ in opened)) if kind == "lines" else hashlib.file_digest(opened, kind).hexdigest()
    return "" if found == wanted else f"its {kind} are {found}, not {wanted}"
