"""A bound on the size of a process's log: of what a model prints without end, the middle is cut."""

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

#: A log that has grown beyond the first is cut down to the second, its beginning.
MOST_BYTES, KEPT_BYTES = 64 * 2**20, 16 * 2**20
_PAUSE_S = 0.5


def bound(log: Path) -> None:
    """Keep a log, to which everybody appends, from growing beyond `MOST_BYTES` by much.

    A thread looks at it twice a second. Its beginning stays, and what was written last.
    """
    threading.Thread(target=_watch, args=(log,), name="bounded log", daemon=True).start()


def _watch(log: Path) -> None:
    while True:
        time.sleep(_PAUSE_S)
        with suppress(OSError):  # a model may have put anything in its place
            shorten(log)


def shorten(log: Path) -> None:
    """Cut the middle of a log that has grown too long, and say so in it."""
    size = log.lstat().st_size
    if size <= MOST_BYTES:
        return
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
    try:
        os.ftruncate(descriptor, KEPT_BYTES)
        cut = (size - KEPT_BYTES) / 2**20
        os.write(descriptor, f"\n… about {cut:.0f} MiB of this log are cut …\n".encode())
    finally:
        os.close(descriptor)
