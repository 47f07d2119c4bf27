"""What this machine has, where Linux alone would tell: guarded for macOS."""

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext


def usable_cores() -> int:
    """The cores that this process may use, which may be fewer than the machine has."""
    with suppress(AttributeError):  # macOS has no affinities
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def fork_is_safe() -> bool:
    """Whether a process that has torch imported may be forked: macOS's frameworks forbid it."""
    return sys.platform != "darwin"


def worker_context() -> "ForkServerContext | SpawnContext":
    """How workers are started: forks of a server that has torch imported, where that is safe."""
    from multiprocessing import get_context  # quick commands start none

    return get_context("forkserver") if fork_is_safe() else get_context("spawn")
