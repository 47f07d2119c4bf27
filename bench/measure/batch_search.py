"""The largest batch that fits, searched for with every contender's processes beside it."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Protocol

from lightning_bench.bench.measure.contender_processes import ContenderProcesses
from lightning_bench.bench.measure.protocol import MeasureJob, Ready
from lightning_bench.bench.measure.warm_up import Pace

#: By contender and mode, the batch sizes tried, and whether each fit.
Searched = dict[str, list[tuple[int, bool]]]

#: One step and no more.
_HASTY = Pace(least_steps=1, least_s=0.0, most_s=0.0, block_s=0.0, rounds=1)


class SearchListener(Protocol):
    """Callbacks of a search, for a display."""

    def searching(self, job: MeasureJob, batch_size: int, fits: bool | None) -> None:
        """A batch size is tried (None), or was."""

    def tick(self) -> None:
        """Some time has passed."""


def with_largest_batches(
    jobs: Sequence[MeasureJob], context: ForkServerContext | SpawnContext, listener: SearchListener
) -> tuple[list[MeasureJob], Searched]:
    """The jobs, each with the largest power of two that fits.

    Each size is tried in a process of its own. What contenders on a GPU hold of it while they wait
    for their turn, its context and its libraries, is held meanwhile by processes like theirs.
    """
    searched: Searched = {}
    with ExitStack() as stack:
        for job in jobs:
            if job.shared and job.setting.device == "cuda":
                waiting = ContenderProcesses(_trial(job, 1), context, listener.tick)
                stack.enter_context(waiting).prepare()
        sized = [_with_largest_batch(job, context, listener, searched) for job in jobs]
    return sized, searched


def _with_largest_batch(
    job: MeasureJob,
    context: ForkServerContext | SpawnContext,
    listener: SearchListener,
    searched: Searched,
) -> MeasureJob:
    tried = searched.setdefault(f"{job.contender.label}, {job.setting.mode}", [])

    def fits(size: int) -> bool:
        listener.searching(job, size, None)
        with ContenderProcesses(_trial(job, size), context, listener.tick) as contender:
            answer = contender.prepare()
        listener.searching(job, size, isinstance(answer, Ready))
        tried.append((size, isinstance(answer, Ready)))
        return isinstance(answer, Ready)

    return _sized(job, max(1, largest_batch(fits)))


def largest_batch(fits: Callable[[int], bool], most: int = 2**20) -> int:
    """The largest power of two that fits, 0 where not even one example does."""
    size = 0
    trial = 1
    while trial <= most and fits(trial):
        size, trial = trial, 2 * trial
    return size


def _trial(job: MeasureJob, size: int) -> MeasureJob:
    return replace(_sized(job, size), pace=_HASTY, counted=False, latency=False)


def _sized(job: MeasureJob, size: int) -> MeasureJob:
    return replace(job, setting=job.setting.model_copy(update={"batch_size": size}))
