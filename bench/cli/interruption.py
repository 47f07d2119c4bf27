"""Interruption by Ctrl-C or `kill`: one line, and the exit code that shells give the signal."""

import os
import signal
from types import FrameType

_signal = signal.SIGINT
_answered = False


def install() -> None:
    """Have SIGTERM interrupt this process as Ctrl-C does; its forks die of it, as any process."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)
        os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))


def note(number: int) -> None:
    """Note by which signal this process is interrupted."""
    global _signal
    _signal = signal.Signals(number)


def answer() -> int:
    """The exit code, for a command that has told what became of its work."""
    global _answered
    _answered = True
    return 128 + _signal


def is_unanswered(code: object) -> bool:
    """Whether a command came back with this code because typer has caught its interruption."""
    return code == 128 + signal.SIGINT and not _answered


def _interrupt(number: int, frame: FrameType | None) -> None:
    del frame
    note(number)
    raise KeyboardInterrupt
