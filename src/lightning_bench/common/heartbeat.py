"""Heartbeat of a run's process: a file that shows that it gets on, and a watchdog where it doesn't.

    w 1234 node7 42 900.0 step 42

Whether the process waits for other ranks (`w`) or works (`c`), its id and host, a count of beats,
the seconds without a beat after which it is stalled, and what it does. Whoever looks sees by the
file's time that it gets on. The watchdog is faulthandler's, a thread of C: it ends the process,
with the stack of every thread in its log, even where Python itself stands still. A process that is
stopped by a signal has no watchdog either: its parent notices.
"""

import faulthandler
import os
import re
import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lightning_bench.common.processes import is_stopped

#: The seconds without a beat after which a run is stalled, unless its own pace is slower.
STALL_S = 900.0
#: A run is not stalled before so many times its longest time between two beats.
_PATIENCE = 20
#: Neither file nor watchdog is touched more often than this.
_PAUSE_S = 1.0
_WIDTH = 160
_LINE = re.compile(r"(?P<mark>[wc]) (?P<pid>\d+) (?P<host>\S+) (?P<beats>\d+) (?P<limit>\S+) ?")
#: How faulthandler begins what it writes when the watchdog ends a process.
_BITE = re.compile(rb"^Timeout \(\d+:\d\d:\d\d(\.\d+)?\)!$", re.MULTILINE)


class Heartbeat:
    """The heartbeat of this process, from its making on."""

    def __init__(self, path: Path, log: Path, stall_s: float | None = None) -> None:
        """Beat in a file; the watchdog writes to the log, whatever becomes of standard error."""
        self._descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
        self._log = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        self._given_s = stall_s
        self._beats, self._longest_s = 0, 0.0
        self._last = self._written = time.monotonic()
        self._name = f"{os.getpid()} {socket.gethostname()}"
        self._write("starting")

    def beat(self, what: str) -> None:
        """The process has got on; it does this next."""
        now = time.monotonic()
        self._beats += 1
        self._longest_s = max(self._longest_s, now - self._last)
        self._last = now
        if now - self._written >= _PAUSE_S:
            self._written = now
            self._write(what)

    def wait(self, waits: bool) -> None:
        """Mark that it waits for other ranks from now on, or that it does no more."""
        with suppress(OSError):
            os.pwrite(self._descriptor, b"w" if waits else b"c", 0)

    def end(self) -> None:
        """Watch no more."""
        faulthandler.cancel_dump_traceback_later()
        for descriptor in (self._descriptor, self._log):
            with suppress(OSError):  # a model may have closed what is not its own
                os.close(descriptor)

    @property
    def _limit_s(self) -> float:
        if self._given_s is not None:
            return self._given_s
        return max(STALL_S, _PATIENCE * self._longest_s)

    def _write(self, what: str) -> None:
        line = f"c {self._name} {self._beats} {self._limit_s:.1f} {what}"
        with suppress(OSError):  # a full disk is no reason to end
            os.pwrite(self._descriptor, line.encode()[: _WIDTH - 1].ljust(_WIDTH - 1) + b"\n", 0)
        faulthandler.dump_traceback_later(self._limit_s, exit=True, file=self._log)


_current: Heartbeat | None = None


def start(path: Path, log: Path, stall_s: float | None = None) -> None:
    """Have this process beat from now on."""
    global _current
    _current = Heartbeat(path, log, stall_s)


def beat(what: str) -> None:
    """The process has got on, if anybody watches it; it does this next."""
    if _current is not None:
        _current.beat(what)


def wait(waits: bool) -> None:
    """Mark that this process waits for other ranks, or that it does no more."""
    if _current is not None:
        _current.wait(waits)


def stop() -> None:
    """Watch this process no more."""
    global _current
    if _current is not None:
        _current.end()
        _current = None


@dataclass(frozen=True)
class Pulse:
    """A process's heartbeat as its file has it."""

    waits: bool  # for other ranks
    pid: int
    host: str
    beats: int
    limit_s: float
    what: str

    @property
    def suspended(self) -> bool:
        """Whether the process is one of this host that a signal has stopped."""
        return self.host == socket.gethostname() and is_stopped(self.pid)


def read(path: Path) -> tuple[Pulse, int] | None:
    """A process's heartbeat and the file's time; None where there is none yet."""
    try:
        content, changed_ns = path.read_text("utf-8", "replace"), path.stat().st_mtime_ns
    except OSError:
        return None
    match = _LINE.match(content)
    if match is None:
        return None
    pulse = Pulse(
        waits=match["mark"] == "w",
        pid=int(match["pid"]),
        host=match["host"],
        beats=int(match["beats"]),
        limit_s=float(match["limit"]),
        what=content[match.end() :].strip(),
    )
    return pulse, changed_ns


def bitten(log: Path) -> bool:
    """Whether the watchdog has ended the process with this log."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - 2**20))
            return bool(_BITE.search(stream.read()))
    except OSError:
        return False


def stalled_ranks(pulses: Iterable[Pulse]) -> list[int]:
    """Of the ranks of a run that stands still, those that the others wait for; all if unknown."""
    ranks = list(pulses)
    suspended = [index for index, pulse in enumerate(ranks) if pulse.suspended]
    working = [index for index, pulse in enumerate(ranks) if not pulse.waits]
    return suspended or working or list(range(len(ranks)))
