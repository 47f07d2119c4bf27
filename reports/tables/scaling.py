"""Cost against depth, sequence length and resolution: fitted exponents beside what is claimed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from lightning_bench.bench.store.measurements import Contender, Counts, Measurement, Session
from lightning_bench.reports.report import Cell, Column, Note, Row, Table
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import timing
from lightning_bench.reports.text.numbers import joined

#: What the documents claim of the mixing of S tokens: its cost grows with this power of S.
CLAIMED_IN_S = {
    **dict.fromkeys(("mixer", "mixer-small"), 1),
    **dict.fromkeys(("vit", "vit-hybrid", "deit"), 2),
    **dict.fromkeys(("gmlp", "gmlp-text", "tmlp-text", "amlp-text"), 2),
    **dict.fromkeys(("transformer-text", "bert"), 2),
}
#: A stack of equal blocks.
CLAIMED_IN_DEPTH = 1


@dataclass(frozen=True)
class Curve:
    """One model at several sizes of one thing, smallest first."""

    label: str
    family: str
    of: Literal["S", "argument"]
    name: str
    x: list[int]
    measurements: list[Measurement]

    @property
    def flops(self) -> list[int]:
        """Of the mode that was timed."""
        found = [m.counts for m in self.measurements if m.counts]
        training = self.measurements[0].setting.mode == "train"
        return [c.flops_train if training else c.flops for c in found]

    @property
    def times_s(self) -> list[float]:
        """Median seconds an example."""
        return [median(timing.seconds(m).values()) for m in self.measurements]

    @property
    def axis(self) -> str:
        """What it grows with, in words."""
        return self.name.replace("_", " ")

    @property
    def claim(self) -> int | None:
        """The exponent that the documents give, where they do."""
        return claimed(self.family, self.name)


def claimed(family: str, name: str) -> int | None:
    """The exponent that the documents give for a family's cost in S or an argument, if they do."""
    in_s = CLAIMED_IN_S.get(family)
    if name in ("S", "length"):
        return in_s
    if name == "image_size":
        return None if in_s is None else 2 * in_s  # S = (H / P)²
    return CLAIMED_IN_DEPTH if name == "depth" else None


def curves(session: Session) -> list[Curve]:
    """A curve for each model, mode and axis: the argument that was varied, and S where it moved."""
    name = session.varied
    groups: dict[tuple[object, ...], list[Measurement]] = {}
    for m in session.measurements:
        if m.blocks and m.counts and not m.failure and name in m.contender.args:
            rest = sorted((k, str(v)) for k, v in m.contender.args.items() if k != name)
            groups.setdefault((m.contender.model, tuple(rest), m.setting), []).append(m)
    grown = []
    for group in groups.values():
        ordered = sorted(group, key=lambda m: _size(m, name))
        label = ordered[0].contender.label.rpartition(f", {name} ")[0]
        family = ordered[0].contender.family
        sizes = [_size(m, name) for m in ordered]
        grown.append(Curve(label, family, "argument", name, sizes, ordered))
        lengths = [m.counts.tokens for m in ordered if m.counts and m.counts.tokens]
        if name != "length" and len(set(lengths)) == len(ordered):
            grown.append(Curve(label, family, "S", "S", lengths, ordered))
    return grown


def table(session: Session) -> Table | None:
    """Exponents of FLOPs and of time; None where nothing was varied over three sizes."""
    fitted = [curve for curve in curves(session) if len(curve.x) > 2]
    if not fitted:
        return None
    rows, degrees_of = [], []
    for curve in fitted:
        rows.append(
            Row(
                label=curve.label,
                group=f"{curve.axis}, {_mode(curve)}",
                cells=[
                    _cell(timing.exponent(curve.x, curve.flops)),
                    _cell(timing.exponent(curve.x, curve.times_s)),
                    _cell(timing.exponent(curve.x[-3:], curve.times_s[-3:])),
                    Cell(value=curve.claim),
                ],
            )
        )
        if (degree := timing.degree(curve.x, curve.flops)) is not None:
            degrees_of.append(f"{curve.label}: degree {degree} in {curve.axis}")
    rows.sort(key=lambda row: row.group)
    notes = [
        Note(
            text="A claim is of the mixing alone, at lengths where nothing else counts; the maps of"
            " the channels are linear in S, so that a fit over real lengths lies between."
        )
    ]
    if degrees_of:
        degrees = "; ".join(dict.fromkeys(degrees_of))
        notes.append(Note(text=f"The FLOPs are exact polynomials. {degrees}."))
    return Table(
        id="scaling",
        title=f"Growth with {session.varied.replace('_', ' ')}",
        caption=(
            "Exponent k of cost = c xᵏ by least squares of the logarithms, ± half the 95 %"
            " t-interval of the slope, which holds noise and that no curve is a pure power."
        ),
        columns=[
            Column(id="flops", title="FLOPs", unit="exponent", kind="interval"),
            Column(id="time", title="Time", unit="exponent", kind="interval"),
            Column(id="time-3", title="Time, largest 3", unit="exponent", kind="interval"),
            Column(id="claim", title="Claimed", unit="exponent", kind="number", decimals=0),
        ],
        rows=rows,
        notes=notes,
    )


def of_counts(request: Request) -> Table | None:
    """Exponents of FLOPs in S, over entries that are one model at three lengths or more."""
    groups: dict[str, dict[int, int]] = {}
    labels: dict[str, str] = {}
    for label, entry in request.entries.items():
        counts = request.counted.get(label)
        if counts and counts.tokens:
            name = f"{entry.model} {entry.args or ''}".strip()
            groups.setdefault(name, {})[counts.tokens] = counts.flops
            labels[name] = label
    return _counted(
        [
            (
                request.entries[labels[name]].group or name,
                "S",
                claimed(request.facts_of(labels[name]).family, "S"),
                flops,
            )
            for name, flops in groups.items()
        ]
    )


def of_sizes(name: str, counted: Sequence[tuple[Contender, Counts]]) -> Table | None:
    """Exponents of FLOPs in an argument that was varied, and in S where that moved with it."""
    grown: dict[tuple[str, str, str], dict[int, int]] = {}
    for contender, counts in counted:
        label = contender.label.rpartition(f", {name} ")[0]
        sizes = {name: int(contender.args[name] or 0)}
        if name != "length" and counts.tokens:
            sizes["S"] = counts.tokens
        for axis, size in sizes.items():
            grown.setdefault((axis, label, contender.family), {})[size] = counts.flops
    return _counted(
        [
            (label, axis, claimed(family, axis), flops)
            for (axis, label, family), flops in sorted(grown.items())
        ]
    )


def _counted(curves: Sequence[tuple[str, str, int | None, Mapping[int, int]]]) -> Table | None:
    """A row for each label, axis, claim and FLOPs by size; None where none has three sizes."""
    rows = []
    for label, axis, claim, flops in curves:
        x = sorted(flops)
        y = [flops[size] for size in x]
        if len(x) < 3:
            continue
        cells = [
            _cell(timing.exponent(x, y)),
            _cell(timing.exponent(x[-3:], y[-3:])),
            Cell(value=timing.degree(x, y)),
            Cell(value=claim),
        ]
        rows.append(Row(label=label, group=axis.replace("_", " "), cells=cells))
    if not rows:
        return None
    axes = list(dict.fromkeys(row.group for row in rows))
    if len(axes) == 1:
        rows = [row.model_copy(update={"group": ""}) for row in rows]
    in_s = Note(
        text="The maps of the channels are linear in S, so that the exponent over real"
        " lengths lies between one and the degree, and nears it as S grows."
    )
    return Table(
        id="scaling",
        title=f"Growth with {joined(axes)}",
        caption=(
            f"Exponent k of FLOPs = c {axes[0] if len(axes) == 1 else 'x'}ᵏ by least squares of the"
            " logarithms, ± half the 95 %"
            " t-interval of the slope: no curve is a pure power. Degree: of the polynomial that"
            " the exact counts are. Claimed: by the documents, of the mixing alone."
        ),
        columns=[
            Column(id="flops", title="FLOPs", unit="exponent", kind="interval"),
            Column(id="flops-3", title="FLOPs, largest 3", unit="exponent", kind="interval"),
            Column(id="degree", title="Degree", kind="number", decimals=0),
            Column(id="claim", title="Claimed", unit="exponent", kind="number", decimals=0),
        ],
        rows=rows,
        notes=[in_s] if {"S", "length"} & {*axes} else [],
    )


def findings(session: Session) -> list[str]:
    """Whether what was fitted is what was claimed, a sentence a curve."""
    sentences = []
    for curve in curves(session):
        fitted, claim = timing.exponent(curve.x, curve.times_s), curve.claim
        if fitted is None or claim is None:
            continue
        holds = "holds" if fitted.low <= claim <= fitted.high else "doesn't hold"
        sentences.append(
            f"{curve.label}: time grows with {curve.axis} to the {fitted.value:.2f}"
            f" ({fitted.low:.2f} to {fitted.high:.2f}) over {joined([str(x) for x in curve.x])};"
            f" the interval {holds} the claimed {claim}."
        )
    return sentences


def _mode(curve: Curve) -> str:
    return {"infer": "inference", "train": "training"}[curve.measurements[0].setting.mode]


def _size(measurement: Measurement, name: str) -> int:
    return int(measurement.contender.args[name] or 0)


def _cell(found: timing.Exponent | None) -> Cell:
    if found is None:
        return Cell()
    return Cell(value=found.value, low=found.low, high=found.high, n=found.n)
