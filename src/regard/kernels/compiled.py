"""Compile the C kernels of this package on the machine that runs them.

gcc or clang compiles these few hundred lines of C in a second, for this processor; the result is in the user's cache.
Without a compiler, `library` is None and torch computes everything: the same numbers, more slowly. REGARD_NATIVE=off
does the same.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from regard.errors import CallError
from regard.files.hub import user_cache

SOURCES = sorted(Path(__file__).parent.glob("*.[ch]"))
FLAGS = ("-O3", "-std=gnu11", "-shared", "-fPIC", "-fno-math-errno", "-fno-trapping-math")
FOR_THIS_PROCESSOR = (
    "-march=native",
    "-mcpu=native",
)  # the first that the compiler supports; some versions of clang only support the second
SECONDS = 120  # time limit of the compiler
NO_MEMORY, NO_SUCH_TARGET = 1, 2  # codes of vectors.h
DAY = 24 * 3600  # seconds until a failed compilation is tried again: the disk may have been full


class NotCompiledError(Exception):
    """Kernels could not be compiled; the message is the reason."""


@cache
def library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(str(compile_kernels()))
    except (NotCompiledError, OSError):
        return None


class Kernels:
    """Functions of the library with their argument types; error codes of vectors.h become exceptions."""

    def __init__(self, signatures: Mapping[str, Sequence[Any]]) -> None:
        self.signatures = signatures

    @cached_property
    def there(self) -> ctypes.CDLL | None:
        """Return the library; None if compilation failed."""
        found = library()
        for name, types in self.signatures.items() if found is not None else ():
            getattr(found, name).argtypes = types
            getattr(found, name).errcheck = _check
        return found

    def load(self) -> ctypes.CDLL:
        assert self.there is not None, "no kernels: check `available` first"
        return self.there


def _check(code: int, _function: object, _arguments: object) -> None:
    if code == NO_MEMORY:
        raise MemoryError("a compiled kernel could not allocate memory: use a smaller batch or shorter inputs")
    if code == NO_SUCH_TARGET:
        raise IndexError("a target id is outside of the vocabulary")


def compile_kernels() -> Path:
    """Return the file with the kernels; compile it if it does not exist."""
    if os.environ.get("REGARD_NATIVE", "").lower() in ("off", "0", "false", "no"):
        raise NotCompiledError("disabled by REGARD_NATIVE")
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        raise NotCompiledError("no C compiler found (cc, gcc or clang)")
    try:
        place = user_cache() / "native" / f"{_key(compiler)}.so"
        failed = place.with_suffix(".failed")
        if failed.exists() and time.time() < failed.stat().st_mtime + DAY:
            raise NotCompiledError(failed.read_text(encoding="utf-8"))
        if not place.exists():
            _compile(compiler, place, failed)
    except (OSError, CallError) as error:
        raise NotCompiledError(f"the folder for caches cannot be used: {error}; REGARD_CACHE names another") from error
    return place


def _key(compiler: str) -> str:
    """Return a key of everything that the result depends on, such as the processor and the version of regard."""
    parts = [file.read_bytes() for file in SOURCES]
    parts += [
        part.encode()
        for part in (*FLAGS, *FOR_THIS_PROCESSOR, os.path.realpath(compiler), platform.machine(), _vector_units())
    ]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


def _vector_units() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())


def _compile(compiler: str, place: Path, failed: Path) -> None:
    """Compile into a temporary file, then rename: several processes may do this at once."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        made, problem = Path(folder) / "kernels.so", ""
        for tuned in FOR_THIS_PROCESSOR:
            problem = _problem(compiler, tuned, made)
            if not problem:
                os.replace(made, place)
                failed.unlink(missing_ok=True)
                return
        failed.write_text(problem, encoding="utf-8")
        raise NotCompiledError(problem)


def _problem(compiler: str, tuned: str, made: Path) -> str:
    """Compile, and return the error message; empty on success."""
    free = ("-Wl,-undefined,dynamic_lookup",) if sys.platform == "darwin" else ()
    files = [str(file) for file in SOURCES if file.suffix == ".c"]
    command = [compiler, *FLAGS, tuned, *free, *files, "-o", str(made), "-lm"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{compiler}: {error}"
    return "" if done.returncode == 0 else f"{compiler} ended with {done.returncode}: {done.stderr[-1000:]}"


# Keep freed memory in processes with large tensors.
#
# glibc returns freed blocks above some hundred kilobytes to the system, which clears each page again for the next
# tensor: 5 to 8% of the time of decoding. With these settings, freed memory is kept until the process ends.

TRIM, MAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
LARGEST_MAP = 32 * 2**20  # the largest that glibc takes
NEVER = 2**31 - 1


def keep_memory() -> None:
    """Keep freed memory. Only for processes of the command line: a library must not change its caller's allocator."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    mallopt(MAP, LARGEST_MAP)
    mallopt(TRIM, NEVER)


# Waiting threads on a processor with other load.
#
# torch's OpenMP threads wait for each other by spinning for a millisecond or more before they sleep. If another program
# occupies a core, a thread spins while the thread that it waits for cannot run: small operations then take twenty times
# as long as on a free machine. Spinning only ten thousand times costs nothing on a free machine, and is several times
# faster on a busy one.

LOOKS = "10000"


def wait_briefly() -> None:
    """Limit spinning of threads, unless the user configured it. Only for the command line, before torch is imported."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", LOOKS)
