"""The second table: what it cost. Wall times vary between repeats, so they stand apart."""

import math
from collections.abc import Callable, Sequence

from lightning_bench.bench.store.record import Cost, Record
from lightning_bench.reports.report import Cell, Column, Kind, Note, Row, Table
from lightning_bench.reports.request import ReportedRun, Request
from lightning_bench.reports.statistics import inference, samples
from lightning_bench.reports.tables import failed_attempts, training_devices
from lightning_bench.reports.tables.footnotes import Notes
from lightning_bench.reports.text.numbers import joined

NOISY = 0.1  # coefficient of variation from which a speed is called noisy


def table(request: Request, collected: samples.Samples) -> Table:
    """Training time, device-hours, speed and memory of each entry on each data set."""
    notes = Notes()
    places = [
        (label, dataset)
        for dataset in request.metrics
        for label in request.grouped_entries()
        if collected[label, dataset].runs
    ]
    trials_h: dict[tuple[str, str], float] = {}
    for ledger in request.searches:
        place = ledger.entry, ledger.dataset
        trials_h[place] = trials_h.get(place, 0.0) + ledger.device_h
    grid = [
        _cells(collected[place], request.before.get(place[0], []), notes, trials_h.get(place, 0.0))
        for place in places
    ]
    several = len(request.metrics) > 1
    records = [record for place in places for record in _all(collected[place])]
    columns = _columns(grid, records)
    if not any(request.before.values()):
        columns, grid = _without_pre_training(columns, grid)
    return Table(
        id="cost",
        title="What it cost",
        caption=(
            "Training: wall time of one run, mean ± SD over seeds; speed: training examples a"
            " second, mean ± SD; memory: the highest peak of any run, of the process on a CPU, of"
            " tensors alone on a GPU; all runs: device time of every attempt, failed and replaced"
            " ones too; all of it: with the search's trials"
            + (" and with pre-training" if any(request.before.values()) else "")
            + ", times a run's threads on a CPU."
        ),
        columns=columns,
        rows=[
            Row(
                label=label, group=dataset if several else request.entries[label].group, cells=cells
            )
            for (label, dataset), cells in zip(places, grid, strict=True)
        ],
        notes=[
            *notes.all(),
            *training_devices.notes(collected),
            *_fairness(records),
        ],
    )


def _all(sample: samples.Sample) -> list[Record]:
    """Records of runs that are done or failed: both have cost something."""
    return [run.record for run in sample.runs if run.record and run.state in ("done", "failed")]


def _without_pre_training(
    columns: list[Column], grid: list[list[Cell]]
) -> tuple[list[Column], list[list[Cell]]]:
    """The table of a study that has no stages."""
    place = [column.id for column in columns].index("before")
    kept = [row[:place] + row[place + 1 :] for row in grid]
    return columns[:place] + columns[place + 1 :], kept


def _pre_training(before: Sequence[ReportedRun], notes: Notes) -> Cell:
    """Device time of the stages that an entry starts from, every attempt at them."""
    if not before:
        return Cell()
    hours, unknown = failed_attempts.total(before)
    marks = [notes.mark("pre-trained once for all rows that start from it, and counted in each")]
    if unknown:
        marks.append(notes.mark("what an attempt at pre-training took is not known"))
    return Cell(value=hours or None, n=len(before), notes=marks, runs=[run.key for run in before])


def _cells(
    sample: samples.Sample, before: Sequence[ReportedRun], notes: Notes, trials_h: float
) -> list[Cell]:
    keys = [run.key for run in sample.runs]
    done = [record.cost for record in sample.done.values() if record.cost]
    paid = [record.cost for record in _all(sample) if record.cost]
    total, unknown = failed_attempts.total(sample.runs)
    again = sum(len(run.earlier) for run in sample.runs)
    marks = []
    if again:
        marks.append(notes.mark(f"with {again} earlier attempt{'s' * (again > 1)} at its runs"))
    if unknown:
        what = "an attempt" if unknown == 1 else f"{unknown} attempts"
        marks.append(notes.mark(f"what {what} took is not known, and not in the total"))
    return [
        _mean(done, lambda cost: cost.train_s, keys),
        _mean(done, lambda cost: cost.train_examples_per_s, keys, notes),
        Cell(value=max((c.peak_memory_bytes for c in paid), default=None), n=len(paid), runs=keys),
        Cell(
            value=total or None,
            n=sum(len(failed_attempts.spent(run)) for run in sample.runs) - unknown,
            notes=marks,
            runs=keys,
        ),
        _pre_training(before, notes),
        _everything(sample, before, trials_h),
    ]


def _everything(sample: samples.Sample, before: Sequence[ReportedRun], trials_h: float) -> Cell:
    """Core-days of the runs, of the search before them, and of pre-training."""
    own = failed_attempts.core_days(sample.runs, trials_h)
    stages = failed_attempts.core_days(before)
    total = None if own is None else own + (stages or 0.0)
    return Cell(value=total, runs=[run.key for run in (*before, *sample.runs)])


def _mean(
    costs: Sequence[Cost],
    measure: Callable[[Cost], float],
    keys: list[str],
    notes: Notes | None = None,
) -> Cell:
    if not costs:
        return Cell(runs=keys)
    found = inference.summarise([measure(cost) for cost in costs])
    noisy = notes and found.sd is not None and found.sd > NOISY * found.mean
    marks = (
        [notes.mark(f"noisy: the SD is over {NOISY * 100:.0f} % of the mean")]
        if notes and noisy
        else []
    )
    return Cell(value=found.mean, sd=found.sd, n=found.n, notes=marks, runs=keys)


def _columns(grid: Sequence[Sequence[Cell]], records: Sequence[Record]) -> list[Column]:
    processor, memory = "core- or GPU", "Memory"
    if all(record.provenance.device == "cpu" for record in records):
        processor, memory = "core", "Process memory"
    elif not any(record.provenance.device == "cpu" for record in records):
        processor, memory = "GPU", "GPU memory"
    largest = [
        max((cells[index].value or 0.0 for cells in grid), default=0.0) for index in range(6)
    ]
    unit, scale = _unit(largest[0], [("h", 3600.0), ("min", 60.0), ("s", 1.0)])
    device_unit, device_scale = _unit(
        largest[3], [("device-h", 1.0), ("device-min", 1 / 60), ("device-s", 1 / 3600)]
    )
    before_unit, before_scale = _unit(
        largest[4], [("device-h", 1.0), ("device-min", 1 / 60), ("device-s", 1 / 3600)]
    )
    core_unit, core_scale = _unit(
        largest[5],
        [(f"{processor}-days", 1.0), (f"{processor}-h", 1 / 24), (f"{processor}-min", 1 / 1440)],
    )
    memory_unit, memory_scale = _unit(largest[2], [("GB", 1e9), ("MB", 1e6)])
    return [
        _column("train", "Training", unit, "sd", 1 / scale, largest[0]),
        _column("speed", "Speed", "examples/s", "sd", 1.0, largest[1]),
        _column("memory", memory, memory_unit, "number", 1 / memory_scale, largest[2]),
        _column("device", "All runs", device_unit, "number", 1 / device_scale, largest[3]),
        _column("before", "Pre-training", before_unit, "number", 1 / before_scale, largest[4]),
        _column("core", "All of it", core_unit, "number", 1 / core_scale, largest[5]),
    ]


def _unit(largest: float, units: list[tuple[str, float]]) -> tuple[str, float]:
    """The largest unit of which the column's largest value holds at least one."""
    return next((unit for unit in units if largest >= unit[1]), units[-1])


def _column(name: str, title: str, unit: str, kind: Kind, scale: float, largest: float) -> Column:
    # Three digits for the largest value.
    digits = 2 - math.floor(math.log10(largest * scale)) if largest > 0 else 2
    return Column(
        id=name,
        title=title,
        unit=unit,
        kind=kind,
        scale=scale,
        decimals=min(max(digits, 0), 2),
    )


def _fairness(records: Sequence[Record]) -> list[Note]:
    """What keeps these speeds from being a ranking."""
    found = []
    names = ("environments", "devices", "thread counts", "precisions", "batch sizes")
    seen = {
        (
            record.provenance.environment,
            (training_devices.kind(record.provenance), record.provenance.devices),
            record.provenance.threads,
            record.spec.recipe.precision,
            record.spec.recipe.batch_size,
        )
        for record in records
    }
    differ = [name for name, *values in zip(names, *seen, strict=True) if len(set(values)) > 1]
    if differ:
        found.append(
            Note(text=f"Not one setting: runs differ in {joined(differ)}; don't compare speeds.")
        )
    found.append(
        Note(
            text="Taken while training, beside whatever else ran: an account of what was spent, not"
            " a benchmark of speed."
        )
    )
    return found
