"""A session of measurements as tables: counts, and speeds that may be compared.

What differs in hardware, versions, precision, batch, compilation, devices, threads, mode or unit
stands in tables of its own, so that it never shares a ranking: a session has one machine and one
set of packages, and each of its tables one setting.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median

from lightning_bench.bench.store.measurements import Counts, Measurement, Session, Setting
from lightning_bench.reports.report import Cell, Column, Note, Row, Table
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import timing
from lightning_bench.reports.tables import columns as columns_module
from lightning_bench.reports.tables.footnotes import Notes
from lightning_bench.reports.text.numbers import joined

#: From so many cores on, what others used is worth a warning.
_BUSY = 0.25
#: Share of the time that was spent waiting for a core from which the report says so.
_WAITED = 0.01


def tables(session: Session) -> list[Table]:
    """All that a session shows."""
    return [*_maybe(counts(session)), *speeds(session)]


def counts(session: Session) -> Table | None:
    """Exact counts of each contender; None where nothing could be counted."""
    known = {m.contender.label: m.counts for m in session.measurements if m.counts}
    return count_table(known) if known else None


def count_table(known: Mapping[str, Counts]) -> Table:
    """Counts by label."""
    found = list(known.values())
    columns = {
        "parameters": columns_module.whole("parameters", "Parameters"),
        "trainable": columns_module.whole("trainable", "Trainable"),
        "embedding": columns_module.whole("embedding", "Embedding"),
        "parameters_untied": columns_module.whole("untied", "Untied"),
        "flops": columns_module.amount("flops", "FLOPs, forward", [c.flops for c in found]),
        "flops_train": columns_module.amount(
            "flops-train", "FLOPs, training", [c.flops_train for c in found]
        ),
        "activations": columns_module.amount(
            "activations", "Activations", [c.activations for c in found]
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
        columns=list(columns.values()),
        rows=[
            Row(label=label, cells=[Cell(value=getattr(c, name)) for name in columns])
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


def told(setting: Setting) -> str:
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
    session: Session, setting: Setting, unit: str, found: Sequence[Measurement], number: int
) -> Table:
    notes = Notes()
    # Sizes of one model are no competitors.
    best, unranked = ({}, {}) if session.varied else timing.tied(found)
    throughputs = [timing.throughput(measurement) for measurement in found]
    share = "core" if setting.device == "cpu" else "device"
    grid = [
        _Line(session, measurement, throughputs[i], i in best, unranked.get(i), notes)
        for i, measurement in enumerate(found)
    ]
    per_s = [each.median for each in throughputs if each]
    columns: list[tuple[Column, Callable[[_Line], Cell]]] = [
        (
            columns_module.number(
                "throughput", "Throughput", f"{unit}/s/{share}", per_s, "interval"
            ).model_copy(update={"higher_is_better": True, "ranked": bool(best)}),
            lambda line: line.throughput(),
        ),
        (columns_module.percent("iqr", "IQR"), lambda line: line.iqr()),
        (
            Column(id="ratio", title="Time", unit=f"× {found[0].contender.label}", kind="interval"),
            lambda line: line.ratio(found[0]),
        ),
        (
            columns_module.milliseconds("step", "Step", [line.step_s() for line in grid]),
            lambda line: line.step(),
        ),
        *(
            (
                columns_module.milliseconds(
                    name, f"Latency {name}", [line.latency_s(share) for line in grid]
                ),
                lambda line, share=share: Cell(value=line.latency_s(share)),
            )
            for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
        ),
        (
            columns_module.size("memory", "Memory", [line.memory() for line in grid]),
            lambda line: Cell(value=line.memory()),
        ),
        (
            columns_module.size("own", "of it, the model's", [line.own_memory() for line in grid]),
            lambda line: Cell(value=line.own_memory()),
        ),
        (
            columns_module.size("reserved", "Reserved", [line.reserved() for line in grid]),
            lambda line: Cell(value=line.reserved()),
        ),
        (
            columns_module.seconds(
                "first", "First batch", [line.what.first_batch_s for line in grid]
            ),
            lambda line: Cell(value=line.what.first_batch_s),
        ),
        (
            columns_module.seconds("compile", "Compiling", [line.what.compile_s for line in grid]),
            lambda line: Cell(value=line.what.compile_s),
        ),
        (
            columns_module.number(
                "energy", "Energy (est.)", f"J/{unit[:-1]}", _known(grid, "energy")
            ),
            lambda line: Cell(value=line.energy()),
        ),
        (
            columns_module.percent("efficiency", "Scaling"),
            lambda line: line.efficiency(),
        ),
    ]
    cells = {column.id: [make(line) for line in grid] for column, make in columns}
    shown = [
        column
        for column, _ in columns
        if any(cell.value is not None for cell in cells[column.id]) or column.id == "throughput"
        if column.id != "ratio" or (len(found) > 1 and not session.varied)
    ]
    return Table(
        id=f"speed-{number}" if number else "speed",
        title=f"Speed: {told(setting)}",
        caption=_caption(session, [column.id for column in shown], bool(best)),
        columns=shown,
        rows=[
            Row(label=line.what.contender.label, cells=[cells[column.id][i] for column in shown])
            for i, line in enumerate(grid)
        ],
        notes=[*notes.all(), *_circumstances(session, found)],
    )


class _Line:
    """One measurement's cells."""

    def __init__(
        self,
        session: Session,
        what: Measurement,
        found: timing.Spread | None,
        best: bool,
        unranked: str | None,
        notes: Notes,
    ) -> None:
        self.session, self.what, self.found, self.best = session, what, found, best
        self.marks: list[str] = []
        if what.failure:
            self.marks.append(notes.mark(what.failure.message))
        if found and found.hopeless:
            self.marks.append(notes.mark(unranked or "noisy: the IQR is over 25 % of the median"))
        elif found and found.noisy:
            self.marks.append(notes.mark("noisy: the IQR is over 10 % of the median"))
        if what.warm_up and not what.warm_up.settled:
            self.marks.append(notes.mark("the warm-up ended before two medians agreed within 2 %"))

    def throughput(self) -> Cell:
        """Median and its interval, or why there is none."""
        if self.found is None or self.what.failure:
            kind = self.what.failure.kind if self.what.failure else "none"
            state = {"out-of-memory": "out of memory"}.get(kind, kind)
            return Cell(state=state, notes=self.marks)
        return Cell(
            value=self.found.median,
            low=self.found.low,
            high=self.found.high,
            n=self.found.n,
            best=self.best,
            notes=self.marks,
        )

    def iqr(self) -> Cell:
        """Spread of the throughput."""
        return Cell(value=self.found.iqr_share if self.found else None)

    def ratio(self, first: Measurement) -> Cell:
        """Time a unit, paired by round with the first row's."""
        if self.what is first:
            return Cell(value=1.0)
        units = first.per_example / self.what.per_example
        found = timing.ratio(timing.seconds(first), timing.seconds(self.what))
        if found is None or self.what.failure or first.failure:
            return Cell()
        return Cell(
            value=found.median * units, low=found.low * units, high=found.high * units, n=found.n
        )

    def step_s(self) -> float | None:
        """Seconds a step."""
        times = timing.seconds(self.what)
        setting = self.what.setting
        return median(times.values()) * setting.batch_size * setting.devices if times else None

    def step(self) -> Cell:
        """Median of a step."""
        return Cell(value=self.step_s())

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
        used = [
            block.energy_j / (block.steps * setting.batch_size * self.what.per_example)
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


def _caption(session: Session, columns: Sequence[str], ranked: bool) -> str:
    said = [
        f"Median of {session.rounds} blocks ± half the 95 % interval of the median (order"
        " statistics); models took turns, round by round."
    ]
    if "ratio" in columns:
        said.append("Time: a unit's, relative to the first row's, paired by round.")
    if "p50" in columns:
        said.append("Latency: one example at a time.")
    if "own" in columns:
        said.append("Memory: peak resident of the process tree, libraries and all.")
    if "reserved" in columns:
        said.append("Memory: peak that tensors took; reserved: that the allocator held.")
    if "energy" in columns:
        said.append("Energy: an estimate, of the whole chip, with whatever else ran on it.")
    if "efficiency" in columns:
        said.append(
            "Scaling: all examples over the slowest device's time, as a share of as many devices"
            " alone."
        )
    if ranked:
        said.append("Bold: the fastest, and all that can't be told from it.")
    return " ".join(said)


def _circumstances(session: Session, found: Sequence[Measurement]) -> list[Note]:
    """Load, clocks, governor, foreign processes; a warning where the machine was not ours."""
    said = []
    others = [b.others_cores for m in found for b in m.blocks if b.others_cores is not None]
    if others and fmean(others) > _BUSY:
        said.append(
            f"The machine was not idle: others used {fmean(others):.1f} of"
            f" {session.before.usable_cores} cores on average, {max(others):.1f} at most."
        )
    waited = sum(b.waited_s or 0.0 for m in found for b in m.blocks)
    share = waited / (sum(b.wall_s for m in found for b in m.blocks) or 1.0)
    if share > _WAITED:
        said.append(
            f"The models waited {share:.0%} of their time for a core that others held; that time"
            " is taken off."
        )
    foreign = max((gpu.foreign_processes or 0 for gpu in session.before.gpus), default=0)
    if foreign:
        said.append(f"{foreign} process{'es' * (foreign > 1)} of others used the GPU.")
    facts = [f"load {session.before.load_1min:.2f}"] if session.before.load_1min is not None else []
    clocks = [*session.before.clocks_mhz, *session.after.clocks_mhz]
    if clocks:
        low, high = min(clocks), max(clocks)
        facts.append(f"clock {low:.0f}" + (f"–{high:.0f}" if high > low else "") + " MHz")
    if session.before.governor:
        facts.append(f"governor {session.before.governor}")
    if facts:
        said.append(f"At the start: {joined(facts)}.")
    tried = []
    for label, sizes in session.searched.items():
        if any(f"{m.contender.label}, {m.setting.mode}" == label for m in found):
            words = (f"{size} {'fits' if fits else 'does not'}" for size, fits in sizes)
            tried.append(f"{label}: {', '.join(words)}")
    said += [f"Batch sizes tried, {line}." for line in tried]
    if session.quick:
        said.append("Quick: a short warm-up and short blocks; leave --quick out for a paper.")
    return [Note(text=text) for text in said]


def _maybe(table: Table | None) -> list[Table]:
    return [table] if table else []


def _known(grid: Sequence[_Line], name: str) -> list[float]:
    values = (getattr(line, name)() for line in grid)
    return [value for value in values if value is not None]
