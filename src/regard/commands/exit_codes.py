"""The end of a command: its exit code and, if it failed, one sentence."""

import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import click

from regard.errors import CallError, RegardError, missing_package

TOO_MUCH = "not enough memory; try a smaller model, training.max_tokens or decoding.batch_tokens"


def ended(command: Callable[[], Any], asked: Mapping[str, bool]) -> int:
    """Run a command and return its exit code, however it ends."""
    try:
        code = command()
    except BrokenPipeError:  # the reader of the output has closed it, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except click.ClickException as error:
        print(f"regard: {_sentence(error)}", file=sys.stderr, flush=True)
        return error.exit_code
    except (Exception, KeyboardInterrupt) as error:
        said, code = explained(error)
        if said is None:  # a bug in regard: print the whole traceback for the report
            raise
        if asked.get("debug"):
            traceback.print_exc()
        print(f"regard: {said}", file=sys.stderr, flush=True)
    return code if isinstance(code, int) else 0


def _sentence(error: click.ClickException) -> str:
    """Format an error of click like regard's errors, with the command that lists the choices."""
    message = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    help = (
        f" ({context.command_path} --help lists all)" if context is not None and "did you mean" not in message else ""
    )
    return f"{message[:1].lower()}{message[1:]}{help}"


def explained(error: BaseException) -> tuple[str | None, int]:
    """Return a sentence for the user, if there is one, and the exit code."""
    match error:
        case KeyboardInterrupt() | click.Abort():
            return "stopped", 130
        case CallError():
            return str(error), 2
        case RegardError():
            return str(error), 1
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return f"the disk is full{_of(error)}; free some space, and run the same command again", 1
        case OSError(strerror=str(reason)):
            return f"{reason}{_of(error)}", 1
        case MemoryError():
            return TOO_MUCH, 1
        case ModuleNotFoundError():
            return missing_package(error.name), 2
        case RuntimeError() if re.search("out of memory|can't allocate memory", str(error)):  # torch's
            return TOO_MUCH, 1
    return None, 1


def _of(error: OSError) -> str:
    return f": {error.filename}" if error.filename else ""
