"""Threads that wait for each other, on a processor that other programs use, too.

OpenMP's threads, which torch has, wait for each other by looking again and again, for a millisecond and more, before
they sleep. Where another program has one of the cores, a thread looks for the whole time in which the one that it waits
for cannot run: small operations then take twenty times as long as on a free machine. Checking only ten thousand times
costs nothing on a free machine, and is several times faster on a busy one.
"""

import os

LOOKS = "10000"


def wait_briefly() -> None:
    """For a process of the command line, before it imports torch, unless the user has said how threads wait."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", LOOKS)
