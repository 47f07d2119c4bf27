"""Two entries of a report in one paragraph a data set: what was seen, and what may be claimed."""

from collections.abc import Iterator

from reports import text
from reports.table import Cell, Column, Comparison, Report


def compare(report: Report, a: str, b: str) -> list[str]:
    """A paragraph for each data set on which both have finished runs; empty where there is none.

    The verdict is the report's own: it rests on the p corrected over all pairs of the study.
    """
    found = [_as_asked(pair, a) for pair in report.comparisons if {pair.a, pair.b} == {a, b}]
    return [" ".join(_sentences(report, pair)) for pair in found]


def entries(report: Report) -> list[str]:
    """The measured entries of a report."""
    return [row.label for row in report.tables[0].rows if row.source == "measured"]


def _as_asked(pair: Comparison, a: str) -> Comparison:
    """The pair with `a` first."""
    if pair.a == a:
        return pair
    turned = {"undecided": "undecided", "better": "worse", "worse": "better"}
    flipped = {
        "a": pair.b,
        "b": pair.a,
        "difference": -pair.difference,
        "low": None if pair.high is None else -pair.high,
        "high": None if pair.low is None else -pair.low,
        "verdict": turned[pair.verdict],
    }
    return pair.model_copy(update=flipped)


def _sentences(report: Report, pair: Comparison) -> Iterator[str]:
    column, cells = _cells(report, pair)
    shown = [f"{name} {_estimate(cells[name], column)}" for name in (pair.a, pair.b)]
    yield f"{pair.dataset}, {text.heading(column)}: {shown[0]}, {shown[1]}."
    yield (
        f"The difference {pair.a} − {pair.b} is {text.difference(report, pair)}, 95 % interval "
        f"{text.interval(report, pair)}, paired over {pair.n} seeds."
    )
    yield (
        f"The {pair.test} test gives {text.p_value(pair.p)}, and {text.p_value(pair.p_holm)} after "
        "Holm's correction over all pairs of the study."
    )
    yield _budgets(report)
    if pair.verdict == "undecided":
        needed = f" About {text.to_show(pair)} seeds would show a difference of this size."
        yield f"Verdict: undecided; neither may be called better.{needed if pair.seeds else ''}"
    else:
        yield f"Verdict: {pair.a} is {pair.verdict} than {pair.b}."


def _cells(report: Report, pair: Comparison) -> tuple[Column, dict[str, Cell]]:
    table = report.tables[0]
    place = next(
        i
        for i, column in enumerate(table.columns)
        if (column.dataset, column.metric) == (pair.dataset, pair.metric)
    )
    rows = {row.label: row.cells[place] for row in table.rows if row.source == "measured"}
    return table.columns[place], rows


def _estimate(cell: Cell, column: Column) -> str:
    value, half = text.parts(cell, column)
    return f"{value} ± {half}" if half else value


def _budgets(report: Report) -> str:
    unequal = next((fact.text for fact in report.facts if fact.label == "Not equal"), "")
    if unequal in {"", "Nothing declared."}:
        return "Both had the same recipe, data and seeds, and neither was tuned here."
    return f"Not equal: {unequal}"
