"""Numbers as text, the same in every renderer."""

import re
from collections.abc import Sequence
from typing import TypeVar

from lightning_bench.reports.report import Cell, Column, Comparison, OnExamples, Report

T = TypeVar("T")

MINUS = "−"


def number(value: float, column: Column) -> str:
    """A value in the column's unit and decimals."""
    sign = "+" if column.signed else "-"
    text = f"{value * column.scale:{sign},.{column.decimals}f}"
    return text.replace("-", MINUS)


def spread(cell: Cell, column: Column) -> float | None:
    """What stands after ±: half the interval, or the SD; None where one run can't tell."""
    if column.kind == "interval" and cell.low is not None and cell.high is not None:
        return (cell.high - cell.low) / 2
    return cell.sd if column.kind == "sd" else None


def parts(cell: Cell, column: Column) -> tuple[str, str]:
    """The cell's number and its uncertainty, either may be empty; a range counts as a number."""
    if cell.printed:
        printed, _, uncertainty = cell.printed.partition(" ± ")
        return printed, uncertainty
    if cell.value is None:
        return cell.state or "–", ""
    if column.kind == "count" and cell.low is not None and cell.high is not None:
        ends = [number(cell.low, column), number(cell.high, column)]
        return "–".join(dict.fromkeys(ends)), ""
    half = spread(cell, column)
    value = number(cell.value, column)
    return value, "" if half is None else f"{half * column.scale:,.{column.decimals}f}"


def heading(column: Column) -> str:
    """What the column holds, with its unit and which way is better."""
    arrow = {True: " ↑", False: " ↓", None: ""}[column.higher_is_better]
    name = column.metric.replace("_", " ") if column.metric else ""
    unit = f"{name} [{column.unit}]" if name and column.unit else name or column.unit
    return f"{unit}{arrow}"


def joined(words: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def thinned(points: Sequence[T], most: int) -> list[T]:
    """At most so many of them, evenly, with both ends."""
    if len(points) <= most:
        return list(points)
    return [points[round(i * (len(points) - 1) / (most - 1))] for i in range(most)]


def shorten(text: str, length: int) -> str:
    """The text, cut to a length with an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"


def slug(text: str) -> str:
    """A name for files and anchors: ASCII letters, digits and hyphens."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-") or "x"


def p_value(p: float) -> str:
    """`p = 0.012`, or `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


PAIRS = (
    "Differences are those of the means over the seeds that both entries have. The first interval"
    " is the paired 95 % t-interval of that pair alone: of many pairs, some leave out the truth."
    " The second holds for all pairs of the family at once with 95 % (sign flips of all pairs"
    " together), and the verdict agrees with it; a dash: so few seeds give it no end. p: of that"
    " pair alone, by the two-sided sign-flip test; p (all): corrected by step-down max-T over"
    " the same flips (all sign patterns up to 14 blocks, 9,999 random ones beyond). To show it: the"
    " seeds with which a true difference as large as the one seen would be claimed in 80 of 100"
    " studies; what is seen first is often larger than what is true, so plan for more."
)


def _signed_column(report: Report, pair: Comparison | OnExamples) -> Column:
    wanted = (pair.dataset, pair.metric)
    columns = report.tables[0].columns
    # The mean over data sets has the unit of each.
    column = next(
        (column for column in columns if (column.dataset, column.metric) == wanted),
        next(column for column in columns if column.metric == pair.metric),
    )
    return column.model_copy(update={"signed": True})


def difference(report: Report, pair: Comparison | OnExamples) -> str:
    """A − B in the unit of its column, with its sign."""
    return number(pair.difference, _signed_column(report, pair))


def interval(report: Report, pair: Comparison | OnExamples) -> str:
    """The difference's interval, `low to high`."""
    column = _signed_column(report, pair)
    if pair.low is None or pair.high is None:
        return "–"
    return f"{number(pair.low, column)} to {number(pair.high, column)}"


def interval_of_all(report: Report, pair: Comparison) -> str:
    """The interval that holds for all pairs at once, `low to high`, of one end if one-sided."""
    column = _signed_column(report, pair)
    low, high = (
        None if end is None else number(end, column) for end in (pair.low_of_all, pair.high_of_all)
    )
    if low and high:
        return f"{low} to {high}"
    return f"≥ {low}" if low else f"≤ {high}" if high else "–"


def p_of_all(pair: Comparison) -> str:
    """The p corrected over the family; a dash for a pair that is described alone."""
    return "–" if pair.p_adjusted is None else f"{pair.p_adjusted:.3g}"


def verdict(pair: Comparison) -> str:
    """What A is, in words: of an earlier look, of a described pair nothing."""
    if pair.described:
        return "described"
    return f"{pair.verdict} (at {pair.decided_at} seeds)" if pair.decided_at else pair.verdict


_BY_E_VALUES = (
    "Differences are those of the means over the seeds that both entries have. The interval is the"
    " paired 95 % t-interval of that pair alone, for a number of seeds that was fixed beforehand;"
    " that of all pairs is left out, as no number was. p: 1 / e of that pair alone, with e what a"
    " stake of 1 has become in bets on the sign of each seed's difference, fair if the two are"
    " alike; p (all): 1 over the least mean e of all sets of pairs that hold it. Both may be looked"
    " at after every seed."
)
_DESCRIBED = (
    "The page names what is claimed: those pairs are tested, as one family. The others are"
    " described, by the difference, the interval and the p of that pair alone, uncorrected; many"
    " pairs looked at one by one show differences that are none, so nothing is claimed of them. One"
    " end of an interval (≥): the page named which is the better one, and the test is one-sided."
)


def caption_of_pairs(report: Report) -> str:
    """What stands in the columns of the pairs, by the test and the family."""
    look = report.look
    caption = _BY_E_VALUES if look and look.method == "e-values" else PAIRS
    if look and look.planned and look.method == "max-T":
        caption += f" At this look the interval for all holds with {100 - 100 * look.alpha:.4g} %."
    return f"{caption} {_DESCRIBED}" if look and look.named else caption


def to_show(pair: Comparison) -> str:
    """How many seeds would show such a difference, where nothing is claimed yet."""
    if pair.verdict != "undecided" or pair.described or pair.test.startswith("e-values"):
        return "–"
    return "> 1,000" if pair.seeds is None else str(pair.seeds)


def details(cell: Cell, column: Column) -> str:
    """What stands behind a cell, in words and with all digits."""
    if cell.printed or cell.value is None:
        return cell.printed or cell.state
    if column.kind == "count":
        return f"{cell.value:,.0f}"
    shown = [f"{cell.value:.6g}"]
    if cell.sd is not None:
        shown.append(f"SD {cell.sd:.3g}")
    if cell.low is not None and cell.high is not None:
        shown.append(f"95 % interval {cell.low:.6g} to {cell.high:.6g}")
    return ", ".join([*shown, f"n = {cell.n}"])


EXAMPLES = (
    "Two entries on the same test examples, their trained models held fixed. The difference is the"
    " mean over the seeds; its interval comes from drawing the examples anew (paired bootstrap,"
    " 1,000 draws). Only A, only B: how many examples only one of them gets right, and McNemar's"
    " exact p, each from seed to seed, uncorrected. This is the test set's share of the doubt;"
    " training again has its own, in the pairs over seeds, on which claims rest; a claim holds on"
    " examples drawn anew where both are added."
)


ERRORS = (
    "Test examples that entries get wrong, all seeds pooled. Overlap: of two entries, what both get"
    " wrong over what either gets wrong, summed over all pairs of a run of the one and a run of the"
    " other; of an entry with itself, over pairs of two of its runs, so that the diagonal says how"
    " alike training again errs. A confusion matrix has the true class in its rows. None of it is a"
    " claim."
)


def share(count: int, total: int) -> str:
    """Per cent of a total without decimals; nothing for none, and `<1` for next to none."""
    if not count:
        return "·"
    return "<1" if count / total < 0.005 else f"{100 * count / total:.0f}"


def reach(values: Sequence[float], form: str = "{:,.0f}") -> str:
    """`3–12`, from the least to the greatest; a dash for none."""
    ends = [form.format(end) for end in (min(values), max(values))] if values else ["–"]
    return "–".join(dict.fromkeys(ends))


LOST = (
    "Attempts that failed, were interrupted, or were replaced by a later one. Their device time is"
    " part of the cost. Logs are paths below the store."
)


def device_time(hours: float | None) -> str:
    """Hours in the unit that fits, as in `3.2 device-min`; a dash where they are not known."""
    if hours is None:
        return "–"
    units = {"h": 1.0, "min": 1 / 60}
    unit = next((name for name, size in units.items() if hours >= size), "s")
    return f"{hours / units.get(unit, 1 / 3600):.3g} device-{unit}"
