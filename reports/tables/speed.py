"""A session of measurements as tables: counts, and speeds that may be compared.

What differs in hardware, versions, precision, batch, compilation, devices, threads, mode or unit
stands in tables of its own, so that it never shares a ranking: a session has one machine and one
set of packages, and each of its tables one setting.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from lightning_bench.bench.store.measurements import Counts, Measurement, Session, Setting
from lightning_bench.reports.report import Cell, Column, Row, Table
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import timing
from lightning_bench.reports.tables import circumstances, columns
from lightning_bench.reports.tables.footnotes import Notes

#: What peak memory is of, which is not the same thing everywhere.
_MEMORY = {"cpu": "Process memory", "cuda": "Tensors' memory"}


def tables(session: Session) -> list[Table]:
    """All that a session shows."""
    counted = counts(session)
    return [*([counted] if counted else []), *speeds(session)]


def counts(session: Session) -> Table | None:
    """Exact counts of each contender; None where nothing could be counted."""
    known = {m.contender.label: m.counts for m in session.measurements if m.counts}
    return count_table(known) if known else None


def count_table(known: Mapping[str, Counts]) -> Table:
    """Counts by label."""
    counted = list(known.values())
    shown = {
        "parameters": columns.whole("parameters", "Parameters"),
        "trainable": columns.whole("trainable", "Trainable"),
        "embedding": columns.whole("embedding", "Embedding"),
        "parameters_untied": columns.whole("untied", "Untied"),
        "flops": columns.amount("flops", "FLOPs, forward", [c.flops for c in counted]),
        "flops_train": columns.amount(
            "flops-train", "FLOPs, training", [c.flops_train for c in counted]
        ),
        "activations": columns.amount(
            "activations", "Activations", [c.activations for c in counted]
        ),
    }
    return Table(
        id="counts",
        title="Counts",
        caption=(
            "Parameters: tied ones once; untied: wherever they stand. FLOPs of one example, 2 a"
            " multiply-add, on eager code; training: 3 × forward. Activations: numbers that the"
            " products put out."
        ),
        columns=list(shown.values()),
        rows=[
            Row(label=label, cells=[Cell(value=getattr(c, name)) for name in shown])
            for label, c in known.items()
        ],
    )


def speeds(session: Session) -> list[Table]:
    """One table for each setting and unit, in the order they were asked for."""
    groups: dict[tuple[Setting, str], list[Measurement]] = {}
    for measurement in session.measurements:
        groups.setdefault((measurement.setting, measurement.unit), []).append(measurement)
    return [
        _speeds(session, setting, unit, found, number)
        for number, ((setting, unit), found) in enumerate(groups.items())
    ]


def in_words(setting: Setting) -> str:
    """A setting in words."""
    batch = f"batch {setting.batch_size}" + (" on each" if setting.devices > 1 else "")
    where = {"cpu": "CPU", "cuda": "GPU"}[setting.device]
    cores = f"{setting.threads} thread{'s' * (setting.threads > 1)}"
    words = [
        {"infer": "inference", "train": "training step"}[setting.mode],
        batch,
        setting.precision,
        f"{setting.devices} × {where}, {cores}",
    ]
    return ", ".join([*words, "compiled"] if setting.compile else words)


def inference(request: Request, dataset: str) -> dict[str, tuple[float, float, float]]:
    """Throughput by entry with its interval, of those on a data set that may be compared."""
    session = request.measured
    if session is None:
        return {}
    found = {m.contender.label: m for m in session.measurements if m.setting.mode == "infer"}
    spreads = {
        entry: timing.throughput(found[label])
        for entry, label in request.contenders.get(dataset, {}).items()
        if label in found and not found[label].failure
    }
    return {
        entry: (spread.low, spread.median, spread.high)
        for entry, spread in spreads.items()
        if spread and not spread.hopeless
    }


def unit(request: Request) -> str:
    """What a throughput is counted in, and where."""
    measurements = request.measured.measurements if request.measured else []
    first = next((m for m in measurements if m.setting.mode == "infer"), None)
    if first is None:
        return ""
    return f"throughput [{first.unit}/s/{'core' if first.setting.device == 'cpu' else 'device'}]"


def _speeds(
    session: Session,
    setting: Setting,
    unit: str,
    measurements: Sequence[Measurement],
    number: int,
) -> Table:
    """The table of one setting and unit."""
    notes = Notes()
    # Sizes of one model are no competitors.
    fastest, unranked = (set(), {}) if session.varied else timing.tied(measurements)
    lines = [
        _Line(session, measurement, i in fastest, unranked.get(i), notes)
        for i, measurement in enumerate(measurements)
    ]
    filled = [
        (column, cells)
        for column, cells in _columns(lines, setting, unit, bool(fastest))
        if column.id == "throughput" or any(cell.value is not None for cell in cells)
    ]
    shown = [column for column, _ in filled]
    return Table(
        id=f"speed-{number}" if number else "speed",
        title=f"Speed: {in_words(setting)}",
        caption=_caption(session, [column.id for column in shown], bool(fastest)),
        columns=shown,
        rows=[
            Row(label=line.what.contender.label, cells=[cells[i] for _, cells in filled])
            for i, line in enumerate(lines)
        ],
        notes=[*notes.all(), *circumstances.notes(session, measurements)],
    )


def _columns(
    lines: Sequence["_Line"], setting: Setting, unit: str, ranked: bool
) -> Iterator[tuple[Column, list[Cell]]]:
    """Every column with its cells, also those without a value."""
    share = "core" if setting.device == "cpu" else "device"
    per_s = [line.spread.median for line in lines if line.spread]
    throughput = columns.number("throughput", "Throughput", f"{unit}/s/{share}", per_s, "interval")
    yield (
        throughput.model_copy(update={"higher_is_better": True, "ranked": ranked}),
        [line.throughput() for line in lines],
    )
    yield columns.percent("iqr", "IQR"), [line.iqr() for line in lines]
    first = lines[0].what
    if len(lines) > 1 and not lines[0].session.varied:
        title = f"× {first.contender.label}"
        ratio = Column(id="ratio", title="Time", unit=title, kind="interval")
        yield ratio, [line.ratio(first) for line in lines]
    steps = [line.step_s() for line in lines]
    yield columns.milliseconds("step", "Step", steps), _cells(steps)
    for name, quantile in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        latencies = [line.latency_s(quantile) for line in lines]
        yield columns.milliseconds(name, f"Latency {name}", latencies), _cells(latencies)
    for name, title, sizes in (
        ("memory", _MEMORY[setting.device], [line.memory() for line in lines]),
        ("own", "of it, the model's", [line.own_memory() for line in lines]),
        ("reserved", "Reserved", [line.reserved() for line in lines]),
    ):
        yield columns.size(name, title, sizes), _cells(sizes)
    for name, title, times in (
        ("first", "First batch", [line.what.first_batch_s for line in lines]),
        ("compile", "Compiling", [line.what.compile_s for line in lines]),
    ):
        yield columns.seconds(name, title, times), _cells(times)
    energies = [line.energy() for line in lines]
    known = [energy for energy in energies if energy is not None]
    yield columns.number("energy", "Energy (est.)", f"J/{unit[:-1]}", known), _cells(energies)
    yield columns.percent("efficiency", "Scaling"), [line.efficiency() for line in lines]


def _cells(values: Iterable[float | None]) -> list[Cell]:
    return [Cell(value=value) for value in values]


class _Line:
    """One measurement's cells."""

    def __init__(
        self,
        session: Session,
        what: Measurement,
        best: bool,
        unranked: str | None,
        notes: Notes,
    ) -> None:
        self.session, self.what, self.best = session, what, best
        self.spread = timing.throughput(what)
        self.marks: list[str] = []
        if what.failure:
            self.marks.append(notes.mark(what.failure.message))
        if self.spread and self.spread.hopeless:
            self.marks.append(notes.mark(unranked or "noisy: the IQR is over 25 % of the median"))
        elif self.spread and self.spread.noisy:
            self.marks.append(notes.mark("noisy: the IQR is over 10 % of the median"))
        if what.warm_up and not what.warm_up.settled:
            self.marks.append(notes.mark("the warm-up ended before two medians agreed within 2 %"))

    def throughput(self) -> Cell:
        """Median and its interval, or why there is none."""
        if self.spread is None or self.what.failure:
            kind = self.what.failure.kind if self.what.failure else "none"
            state = {"out-of-memory": "out of memory"}.get(kind, kind)
            return Cell(state=state, notes=self.marks)
        return Cell(
            value=self.spread.median,
            low=self.spread.low,
            high=self.spread.high,
            n=self.spread.n,
            best=self.best,
            notes=self.marks,
        )

    def iqr(self) -> Cell:
        """Spread of the throughput."""
        return Cell(value=self.spread.iqr_share if self.spread else None)

    def ratio(self, first: Measurement) -> Cell:
        """Time a unit, paired by round with the first row's."""
        if self.what is first:
            return Cell(value=1.0)
        units = first.per_example / self.what.per_example
        times = timing.ratio(timing.seconds(first), timing.seconds(self.what))
        if times is None or self.what.failure or first.failure:
            return Cell()
        return Cell(
            value=times.median * units, low=times.low * units, high=times.high * units, n=times.n
        )

    def step_s(self) -> float | None:
        """Seconds a step."""
        times = timing.seconds(self.what)
        setting = self.what.setting
        return median(times.values()) * setting.batch_size * setting.devices if times else None

    def latency_s(self, share: float) -> float | None:
        """A quantile of single steps; no p99 of fewer than a hundred."""
        samples = sorted(self.what.latency_s)
        if not samples or (share > 0.9 and len(samples) < timing.FOR_P99):
            return None
        return samples[min(len(samples) - 1, math.ceil(share * len(samples)) - 1)]

    def memory(self) -> float | None:
        """The peak."""
        return self.what.memory.peak_bytes if self.what.memory else None

    def own_memory(self) -> float | None:
        """What the model and its steps added to an idle process; on CUDA all is theirs."""
        memory = self.what.memory
        if memory is None or not memory.idle_bytes:
            return None
        return memory.peak_bytes - memory.idle_bytes

    def reserved(self) -> float | None:
        """What CUDA's allocator held."""
        return self.what.memory.reserved_bytes if self.what.memory else None

    def energy(self) -> float | None:
        """Joules a unit, of the whole chip."""
        setting = self.what.setting
        units = setting.batch_size * setting.devices * self.what.per_example
        used = [
            block.energy_j / (block.steps * units)
            for block in self.what.blocks
            if block.energy_j is not None
        ]
        return median(used) if used else None

    def efficiency(self) -> Cell:
        """Throughput on all devices over that of one, times their number, paired by round."""
        setting = self.what.setting
        alone = [
            other
            for other in self.session.measurements
            if other.contender == self.what.contender
            and other.setting == setting.model_copy(update={"devices": 1})
        ]
        if setting.devices == 1 or not alone:
            return Cell()
        found = timing.ratio(timing.seconds(self.what), timing.seconds(alone[0]))
        if found is None:
            return Cell()
        return Cell(value=found.median / setting.devices, n=found.n)


#: What a table with this column says of it.
_EXPLAINED = {
    "ratio": "Time: a unit's, relative to the first row's, paired by round.",
    "p50": "Latency: one example at a time.",
    "own": "Process memory: peak resident of its tree, libraries and all.",
    "reserved": "Tensors' memory: peak on the GPU; reserved: that the allocator held.",
    "energy": "Energy: an estimate, of the whole chip, with whatever else ran on it.",
    "efficiency": "Scaling: all examples over the slowest device's time, as a share of as many"
    " devices alone.",
}


def _caption(session: Session, columns: Sequence[str], ranked: bool) -> str:
    sentences = [
        f"Median of {session.rounds} blocks of this session ± half the 95 % interval of the median"
        " (order statistics); models took turns, each round in another order.",
        *(text for column, text in _EXPLAINED.items() if column in columns),
    ]
    if ranked:
        sentences.append(
            "Bold: the fastest, and all that can't be told from it, ratios to it at 0.05 over their"
            " number."
        )
    return " ".join(sentences)
