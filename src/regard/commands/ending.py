"""How a command ends that could not do its work: in one sentence, with an exit code."""

import errno
import re

import click

from regard.errors import CallError, RegardError

TOO_MUCH = "there is not enough memory; try a smaller model, training.max_tokens or decoding.batch_tokens"


def explained(error: BaseException) -> tuple[str | None, int]:
    """A sentence for the user, if there is one, and the exit code."""
    match error:
        case KeyboardInterrupt() | click.Abort():
            return "stopped", 130
        case CallError():
            return str(error), 2
        case RegardError():
            return str(error), 1
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return f"the disk is full{_of(error)}; make room, and give the same command again", 1
        case OSError(strerror=str(reason)):
            return f"{reason}{_of(error)}", 1
        case MemoryError():
            return TOO_MUCH, 1
        case RuntimeError() if re.search("out of memory|can't allocate memory", str(error)):  # torch's
            return TOO_MUCH, 1
    return None, 1


def _of(error: OSError) -> str:
    return f": {error.filename}" if error.filename else ""
