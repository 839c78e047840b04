"""Ctrl-C and SIGTERM: finish the step, save, exit. A second Ctrl-C exits at once and loses only the last steps."""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class Stopped(KeyboardInterrupt):
    """Training was stopped by a signal and has saved its state; the same call resumes it. Exit code 130."""


class Interrupt:
    """Signal handler while open; `asked` is whether a stop was requested."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.asked = False
        self._say = say
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():  # Python allows handlers in the main thread only
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
        self._say("stopping after this step; Ctrl-C again stops at once, without saving")
