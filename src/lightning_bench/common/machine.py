"""What this machine has, where Linux alone would tell: guarded for macOS."""

import os
from contextlib import suppress


def usable_cores() -> int:
    """The cores that this process may use, which may be fewer than the machine has."""
    with suppress(AttributeError):  # macOS has no affinities
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
