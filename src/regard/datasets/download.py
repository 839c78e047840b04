"""Download a file. An interrupted download is resumed, and the file gets its name only if its checksum is right.

The incomplete file is FILE.part. The rest of it is requested with HTTP `Range`; a server without support for that sends
the whole file again.
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
PARTIAL, TOO_FAR = 206, 416  # HTTP status: partial content; range not satisfiable


def download(remote: Remote, folder: Path) -> Path:
    """Return the file in a folder; download it if it is not there."""
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
            raise RegardError(f"{remote.url}: the server returned {problem.code} {problem.reason}") from None
        missing = 0
    except (URLError, OSError) as problem:
        reason = getattr(problem, "reason", None) or problem
        raise RegardError(
            f"{remote.url} cannot be reached ({reason}). With a network, the same command resumes; docs/datasets.md "
            "describes how to get the files manually"
        ) from None
    if missing > 0:
        raise RegardError(
            f"{remote.url}: the connection ended {missing:,} bytes early; run the same command again to resume"
        )
    if wrong := differs(part, remote.digest):
        part.unlink()
        raise RegardError(f"{remote.url}: {wrong}: the file has changed on the server; it was deleted")
    part.rename(file)
    return file


def differs(file: Path, digest: str) -> str:
    """Return how a file differs from this digest; empty if it matches, or if no digest is known."""
    if not digest:
        return ""
    kind, _, wanted = digest.partition(":")
    with file.open("rb") as opened:
        found = str(sum(1 for _ in opened)) if kind == "lines" else hashlib.file_digest(opened, kind).hexdigest()
    return "" if found == wanted else f"its {kind} are {found}, not {wanted}"
