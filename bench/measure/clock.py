"""Clocks: time some steps with one synchronisation at their end."""

import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

from lightning_bench.bench.measure.scheduler_waits import Waits, between

Step = Callable[[], object]


class Timing(NamedTuple):
    """Wall time, of it what a CPU's thread waited for a core, and on CUDA that between events."""

    wall_s: float
    device_s: float | None = None
    waited_s: float | None = None

    @property
    def own_s(self) -> float:
        """Wall time without the waiting."""
        return self.wall_s - (self.waited_s or 0.0)


class Clock(Protocol):
    """Times steps, and waits for what a device still does."""

    def time(self, step: Step, steps: int) -> Timing:
        """Take so many steps, then synchronise once."""

    def wait(self) -> None:
        """Wait until the device is idle."""


class WallClock:
    """For a CPU, where a step that has returned is done."""

    def __init__(self) -> None:
        self._waits = Waits()

    def time(self, step: Step, steps: int) -> Timing:
        """Take so many steps."""
        _, started, before = self._waits.now()
        for _ in range(steps):
            step()
        ended, _, after = self._waits.now()
        return Timing(ended - started, waited_s=between(before, after))

    def wait(self) -> None:
        """Nothing runs behind our back."""


class CudaClock:
    """For a GPU, where a step that has returned is only queued."""

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda

    def time(self, step: Step, steps: int) -> Timing:
        """Take so many steps between two events, and wait for the second."""
        first, last = (self.cuda.Event(enable_timing=True) for _ in range(2))
        self.wait()
        started = time.perf_counter()
        first.record()
        for _ in range(steps):
            step()
        last.record()
        last.synchronize()
        return Timing(time.perf_counter() - started, first.elapsed_time(last) / 1000)

    def wait(self) -> None:
        """Wait until the device is idle."""
        self.cuda.synchronize()


def clock_of(device: Literal["cpu", "cuda"]) -> Clock:
    """The clock for a device."""
    if device == "cpu":
        return WallClock()
    import torch

    return CudaClock(torch.cuda)
