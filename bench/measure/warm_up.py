"""When to sample: warm up until the pace is steady, then take turns, round by round."""

import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from lightning_bench.bench.measure.clock import Clock, Step
from lightning_bench.bench.store.measurements import WarmUp

#: Medians that differ by less are the same pace.
AGREE = 0.02
#: Fewer rounds can't carry the interval of a median.
LEAST_ROUNDS = 30

T = TypeVar("T")


@dataclass(frozen=True)
class Pace:
    """How much sampling it takes."""

    least_steps: int  # of the warm-up
    least_s: float
    most_s: float  # after so long the warm-up gives up, and the record says so
    block_s: float  # steps shorter than this share a block
    rounds: int = LEAST_ROUNDS


CAREFUL = Pace(least_steps=10, least_s=3.0, most_s=60.0, block_s=0.5)
QUICK = Pace(least_steps=4, least_s=0.5, most_s=5.0, block_s=0.1)


def warm_up(
    step: Step, clock: Clock, pace: Pace, all_agree: Callable[[bool], bool] = bool
) -> tuple[WarmUp, float]:
    """Step until the medians of the last two windows agree; also return the seconds a step.

    With several devices all have to agree to stop: none may take a step alone.
    """
    times: list[float] = []
    started = time.perf_counter()
    while True:
        times.append(clock.time(step, 1).own_s)
        seconds = time.perf_counter() - started
        settled = steady(times, pace.least_steps // 2)
        enough = len(times) >= pace.least_steps and seconds >= pace.least_s
        if all_agree(enough and (settled or seconds >= pace.most_s)):
            window = times[-max(pace.least_steps // 2, len(times) // 4) :]
            return WarmUp(steps=len(times), seconds=seconds, settled=settled), median(window)


def steady(times: Sequence[float], least: int) -> bool:
    """Whether the medians of the last two windows, a quarter of all steps each, agree."""
    window = max(1, least, len(times) // 4)
    if len(times) < 2 * window:
        return False
    before, after = median(times[-2 * window : -window]), median(times[-window:])
    return abs(after - before) <= AGREE * before


def steps_a_block(step_s: float, block_s: float) -> int:
    """As many steps as fill a block; the slowest model's block is one step."""
    return max(1, math.ceil(block_s / step_s)) if step_s > 0 else 1


def turns(contenders: Sequence[T], rounds: int) -> Iterator[tuple[int, T]]:
    """Each round in an order of its own: whatever the machine does meanwhile, it does to all alike.

    In one order for all rounds, who comes later would look slower on a machine that slows down.
    """
    for number in range(rounds):
        for contender in random.Random(number).sample(contenders, len(contenders)):
            yield number, contender
