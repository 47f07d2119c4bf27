"""How true the measuring is on this machine, now: against torch's own timer, and against itself.

    python -m benchmarks.measure              # about two minutes on two cores

Prints each figure with its target. All of it is ratios of things that were done in turns, so that
a busy machine widens them and shifts none.
"""

import tempfile
import time
from pathlib import Path
from statistics import median

import torch
from torch.utils.benchmark import Timer

from lightning_bench.bench.measure.clock import WallClock
from lightning_bench.bench.measure.protocol import Failed, MeasureJob, Ready
from lightning_bench.bench.measure.session import SessionPlan
from lightning_bench.bench.measure.warm_up import CAREFUL, QUICK, Pace
from lightning_bench.bench.store.measurements import Contender, Setting
from lightning_bench.bench.store.store import Store
from lightning_bench.models.registry.registry import create
from lightning_bench.reports.statistics import timing

REPEATS = 3


class Silent:
    """A listener that says nothing."""

    def searching(self, job: MeasureJob, batch_size: int, fits: bool | None) -> None:
        """Nothing."""

    def preparing(self, job: MeasureJob) -> None:
        """Nothing."""

    def prepared(self, job: MeasureJob, answer: Ready | Failed) -> None:
        """Nothing."""

    def turn(self, job: MeasureJob, number: int) -> None:
        """Nothing."""

    def tick(self) -> None:
        """Nothing."""


def against_torch() -> timing.TimingSpread:
    """Our clock over torch.utils.benchmark's, on the same steps, side by side."""
    torch.set_num_threads(1)
    model, x = create("lenet").eval(), torch.randn(4, 1, 32, 32)

    def step() -> None:
        with torch.inference_mode():
            model(x)

    timer, ours, theirs = Timer("step()", globals={"step": step}, num_threads=1), {}, {}
    for turn in range(60):
        for mine in (True, False) if turn % 2 else (False, True):
            if mine:
                ours[turn] = WallClock().time(step, 100).wall_s / 100
            else:
                theirs[turn] = timer.timeit(100).mean
    found = timing.ratio(theirs, ours)
    assert found is not None
    return found


def overhead() -> float:
    """What timing costs of the shortest block, at a thousand steps a block."""
    spent = min(WallClock().time(lambda: None, 1000).wall_s for _ in range(50))
    return spent / QUICK.block_s


def null() -> timing.TimingSpread:
    """The same model twice, each in its process."""
    twins = [Contender(label=label, model="lenet") for label in "ab"]
    asked = [(twin, Setting(mode="train", batch_size=4)) for twin in twins]
    pace = Pace(CAREFUL.least_steps, 1.0, 5.0, block_s=0.1)
    with tempfile.TemporaryDirectory() as folder:
        session = SessionPlan(asked, pace, quick=True, sources={}).run(
            Store(Path(folder)), Silent()
        )
    found = timing.ratio(*map(timing.seconds, session.measurements))
    assert found is not None
    return found


def main() -> None:
    """Print every figure and its target."""
    started = time.perf_counter()
    found = against_torch()
    print(
        f"ours over torch.utils.benchmark: {found.median:.4f}"
        f" ({found.low:.4f} to {found.high:.4f}); within 0.97 and 1.03"
    )
    print(f"timing itself, of a block: {overhead():.3%}; under 0.1 %")
    repeats = [null() for _ in range(REPEATS)]
    for each in repeats:
        print(f"null test: {each.median:.4f} ({each.low:.4f} to {each.high:.4f}); holds 1")
    error = median(abs(each.median - 1) for each in repeats)
    print(f"null test, median error: {error:.2%}; under 2 %")
    print(f"took {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
