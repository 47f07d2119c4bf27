"""Scheduler waits: how long this process's threads were ready to run while others held the core.

Linux keeps it for each thread (`schedstat`: running, waiting, turns). A model that is timed on a
machine of many users waits for its turn now and then; that time belongs to the others.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

#: A reading that took longer was interrupted in its midst, and is taken again.
_QUICK_S = 0.001
_CHANCES = 20


class Waits:
    """Reads the queues of all threads of this process; None where the system doesn't tell."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}

    def now(self) -> tuple[float, float, dict[str, int] | None]:
        """When the reading began and ended, and what each thread has waited so far, in ns."""
        self._open()
        for _ in range(_CHANCES):
            began = time.perf_counter()
            waits = {name: self._read(file) for name, file in self._files.items()}
            ended = time.perf_counter()
            if ended - began < _QUICK_S:
                break
        return began, ended, waits or None

    def _open(self) -> None:
        """Threads come, as a pool is made, and go."""
        try:
            running = {path.name for path in Path("/proc/self/task").iterdir()}
        except OSError:
            return
        for name in self._files.keys() - running:
            os.close(self._files.pop(name))
        for name in running - self._files.keys():
            with suppress(OSError):
                self._files[name] = os.open(f"/proc/self/task/{name}/schedstat", os.O_RDONLY)

    def _read(self, file: int) -> int:
        try:
            return int(os.pread(file, 128, 0).split()[1])
        except (OSError, IndexError):  # it has ended meanwhile, or the kernel keeps no account
            return 0


def between(before: dict[str, int] | None, after: dict[str, int] | None) -> float | None:
    """Seconds that the thread which waited longest has waited.

    Where several work together each wait may hold up all, so the true loss is this or more.
    """
    if before is None or after is None:
        return None
    return max(after[name] - before.get(name, after[name]) for name in after) / 1e9
