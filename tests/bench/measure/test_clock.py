"""Clocks on work of known cost, and what timing itself costs."""

import os
import subprocess
import sys
import time
from statistics import median

import pytest
import torch
from torch.utils.benchmark import Timer

from lightning_bench.bench.measure.clock import CudaClock, WallClock
from lightning_bench.bench.measure.warm_up import QUICK


def test_a_sleep_takes_what_it_takes():
    times = [WallClock().time(lambda: time.sleep(0.05), 2).wall_s / 2 for _ in range(9)]
    assert median(times) == pytest.approx(0.05, rel=0.02)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="pins processes, as Linux can")
def test_what_others_held_the_core_is_told_apart():
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    core = {min(os.sched_getaffinity(0))}
    usual = os.sched_getaffinity(0)
    clock = WallClock()
    try:
        os.sched_setaffinity(0, core)
        for process in busy:
            os.sched_setaffinity(process.pid, core)
        timed, used = [], []
        for _ in range(15):
            began = time.thread_time()
            timed.append(clock.time(lambda: sum(range(10_000)), 300))
            used.append(time.thread_time() - began)
    finally:
        os.sched_setaffinity(0, usual)
        for process in busy:
            process.kill()
            process.wait()
    # A third of the core was ours.
    assert median(each.waited_s / each.wall_s for each in timed) == pytest.approx(2 / 3, abs=0.1)
    assert median(each.own_s / mine for each, mine in zip(timed, used, strict=True)) == (
        pytest.approx(1, rel=0.02)
    )


def test_timing_costs_less_than_a_thousandth_of_a_block():
    clock, steps = WallClock(), 1000
    # A block of a thousand steps of 0.1 ms: the fastest model of the registry takes 0.06.
    spent = min(clock.time(lambda: None, steps).wall_s for _ in range(20))
    assert spent < 0.001 * QUICK.block_s


class FakeCuda:
    """CUDA's calls, with a device that is slower than its queue."""

    def __init__(self) -> None:
        self.now_ms, self.synchronised, self.waited = 100.0, 0, 0
        fake = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at_ms = fake.now_ms

            def synchronize(self) -> None:
                fake.waited += 1

            def elapsed_time(self, other: "Event") -> float:
                return other.at_ms - self.at_ms

        self.Event = Event

    def synchronize(self) -> None:
        self.synchronised += 1

    def step(self) -> None:
        self.now_ms += 12.5


def test_cuda_events_stand_around_all_steps_with_one_synchronisation_at_the_end():
    cuda = FakeCuda()
    wall_s, device_s, waited_s = CudaClock(cuda).time(cuda.step, 8)
    assert device_s == pytest.approx(0.1)
    assert wall_s < 0.1
    assert waited_s is None
    # The queue is empty before the first event; then nothing waits but for the last.
    assert (cuda.synchronised, cuda.waited) == (1, 1)


@pytest.mark.slow
def test_agrees_with_torchs_own_benchmark_side_by_side():
    weight = torch.randn(192, 192)

    def step() -> None:
        torch.mm(weight, weight)

    clock, timer = WallClock(), Timer("step()", globals={"step": step}, num_threads=1)
    steps = 200
    ratios = []
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for turn in range(61):
            ours = theirs = 0.0
            for which in (0, 1) if turn % 2 else (1, 0):
                if which:
                    ours = clock.time(step, steps).wall_s / steps
                else:
                    theirs = timer.timeit(steps).mean
            ratios.append(ours / theirs)
    finally:
        torch.set_num_threads(before)
    assert median(ratios) == pytest.approx(1, abs=0.03)


def test_a_wall_clock_has_no_device_time():
    assert WallClock().time(lambda: None, 1).device_s is None
