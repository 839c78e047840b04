"""Memory that stays with a process that works with large tensors for a while.

glibc gives freed blocks of more than some hundred kilobytes back to the system, which has to clear each page anew when
the next tensor asks for it: 5 to 8% of the time of decoding. What is freed is kept instead, up to the process's end.
"""

import ctypes

TRIM, MAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
LARGEST_MAP = 32 * 2**20  # the largest that glibc takes
NEVER = 2**31 - 1


def keep_memory() -> None:
    """For a process of the command line, which is ours; a library leaves its caller's memory alone."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return
    mallopt(MAP, LARGEST_MAP)
    mallopt(TRIM, NEVER)
