"""Expected times of runs: by what earlier ones took, by an estimate, or by what the others take."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Literal

from lightning_bench.bench.plan.estimate import Estimate, Unknown
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.record import Record
from lightning_bench.bench.store.store import Attempt
from lightning_bench.bench.store.trial import Ledger
from lightning_bench.bench.study.study import Run, Study

#: What a run's expected time rests on.
Basis = Literal["earlier runs", "other runs", "counted", "unknown"]
#: Estimates runs that nothing like was ever run; `estimate.estimates` for a machine.
Estimates = Callable[[Sequence[RunSpec]], Sequence[Estimate | Unknown]]


@dataclass(frozen=True)
class Expected:
    """The seconds that a run is expected to take, why so many, and what else was estimated."""

    seconds: float = 0.0
    basis: Basis = "unknown"
    estimate: Estimate | Unknown | None = None


def _finished(attempt: Attempt | None) -> Record | None:
    """The record of an attempt that tells what it took."""
    return attempt.record if attempt and attempt.record and attempt.record.cost else None


def _devices(record: Record) -> tuple[str, int, str, int]:
    made = record.provenance
    return made.device, made.devices, made.device_kind, made.sharing


#: The time of a run like which there was none, and which nobody has estimated.
UNKNOWN_TIME = Expected()


def expected_times(
    runs: Sequence[Run],
    attempts: Mapping[str, Attempt],
    estimates: Estimates | None,
    wanted: tuple[str, int] | None = None,
) -> dict[tuple[str, str], Expected]:
    """Seconds a run by (entry, data set): the median of its finished runs, an estimate, or of all.

    Of those alone that had the devices of the last one, or of the last one on those `wanted`: a
    CPU's seconds tell nothing of a GPU's.
    """
    finished = {
        run.key: record
        for run in runs
        if (record := _finished(attempts.get(run.key)))
        and (wanted is None or _devices(record)[:2] == wanted)
    }
    last = max(finished.values(), key=lambda record: record.ended, default=None)
    devices = _devices(last) if last else None
    seen: dict[tuple[str, str], list[float]] = defaultdict(list)
    first: dict[tuple[str, str], RunSpec] = {}
    for run in runs:
        cell = run.entry, run.dataset
        seconds = seen[cell]
        first.setdefault(cell, run.spec)
        record = finished.get(run.key)
        if record and record.cost and _devices(record) == devices:
            seconds.append(record.cost.total_s)
    expected = {
        cell: Expected(median(values), "earlier runs") for cell, values in seen.items() if values
    }
    unseen = [cell for cell in seen if cell not in expected]
    counted = estimates([first[cell] for cell in unseen]) if estimates and unseen else ()
    for cell, estimate in zip(unseen, counted, strict=False):
        if isinstance(estimate, Estimate):
            expected[cell] = Expected(estimate.seconds, "counted", estimate)
        else:
            expected[cell] = Expected(estimate=estimate)
    typical = [time.seconds for time in expected.values() if time.seconds]
    for cell in unseen:
        time = expected.setdefault(cell, Expected())
        if typical and not time.seconds:
            expected[cell] = replace(time, seconds=median(typical), basis="other runs")
    return expected


def expected_trial_times(
    study: Study, unfinished: Sequence[Ledger], estimates: Estimates | None, *, elsewhere: bool
) -> dict[tuple[str, str], Expected]:
    """Seconds of a trial's run by (entry, data set): the mean of earlier trials, or an estimate."""
    expected = {}
    for ledger in unfinished:
        spent = [3600 * t.device_h / max(1, len(t.keys)) for t in ledger.trials if t.device_h]
        if spent and not elsewhere:
            expected[ledger.entry, ledger.dataset] = Expected(fmean(spent), "earlier runs")
    cells = [
        cell
        for cell in study.cells()
        if any((cell.entry, cell.dataset) == (each.entry, each.dataset) for each in unfinished)
        and (cell.entry, cell.dataset) not in expected
    ]
    counted = estimates([cell.base for cell in cells]) if estimates and cells else ()
    for cell, estimate in zip(cells, counted, strict=False):
        seconds = estimate.seconds if isinstance(estimate, Estimate) else 0.0
        basis: Basis = "counted" if seconds else "unknown"
        expected[cell.entry, cell.dataset] = Expected(seconds, basis, estimate)
    return expected
