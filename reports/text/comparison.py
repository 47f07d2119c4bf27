"""Two entries of a report in one paragraph a data set: what was seen, and what may be claimed."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from lightning_bench.reports.report import Cell, Column, Comparison, OnExamples, Report
from lightning_bench.reports.text import numbers

SHOWN_SEEDS = 5  # whose counts a paragraph spells out


def compare(
    report: Report, a: str, b: str, examples: Sequence[OnExamples] | None = None
) -> list[str]:
    """A paragraph for each data set on which both have finished runs; empty where there is none.

    The verdict is the report's own: it rests on the p corrected over all pairs of the study.
    `examples` are these two on the same test examples, by default those of the report.
    """
    asked = {a, b}
    seeds = {p.dataset: _as_asked(p, a) for p in report.comparisons if {p.a, p.b} == asked}
    if examples is None:
        examples = [pair for pair in report.examples if {pair.a, pair.b} == asked]
    tests = {pair.dataset: _as_asked(pair, a) for pair in examples}
    paragraphs = []
    for dataset in dict.fromkeys(c.dataset for c in report.tables[0].columns if c.dataset):
        more = [*_on_examples(report, tests[dataset])] if dataset in tests else []
        if dataset in seeds:
            *sentences, verdict = _sentences(report, seeds[dataset])
            paragraphs.append(" ".join([*sentences, *more, verdict]))
        elif more:
            sentences = [_means(report, tests[dataset])]
            verdict = "Verdict: none; with one seed each, training again might turn it round."
            paragraphs.append(" ".join([*sentences, *more, verdict]))
    columns = {column.dataset for column in report.tables[0].columns}
    of_mean = [pair for dataset, pair in seeds.items() if dataset not in columns]
    return [*paragraphs, *(" ".join(_sentences(report, pair)) for pair in of_mean)]


Pair = TypeVar("Pair", Comparison, OnExamples)


def _as_asked(pair: Pair, a: str) -> Pair:
    """The pair with `a` first."""
    return pair if pair.a == a else pair.turned()


def _means(report: Report, pair: Comparison | OnExamples) -> str:
    if not any(pair.dataset == column.dataset for column in report.tables[0].columns):
        return f"On the {pair.dataset}:"
    column, cells = _cells(report, pair)
    shown = [f"{name} {_estimate(cells[name], column)}" for name in (pair.a, pair.b)]
    return f"{pair.dataset}, {numbers.heading(column)}: {shown[0]}, {shown[1]}."


def _on_examples(report: Report, pair: OnExamples) -> Iterator[str]:
    yield (
        f"On the same {pair.n:,} test examples, with the trained models as they are, the difference"
        f" is {numbers.difference(report, pair)}, 95 % interval {numbers.interval(report, pair)}"
        " (paired bootstrap over the examples)."
    )
    if pair.p:
        counts = list(zip(pair.only_a, pair.only_b, strict=True))
        shown = ", ".join(f"{x} : {y}" for x, y in counts[:SHOWN_SEEDS])
        more = f" and {len(counts) - SHOWN_SEEDS} seeds more" if len(counts) > SHOWN_SEEDS else ""
        least, most = numbers.p_value(min(pair.p)), numbers.p_value(max(pair.p))
        p = least if least == most else f"{least} at the least, {most} at the most"
        yield (
            f"Of them only one of the two is right on {shown}{more} ({pair.a} : {pair.b}, by seed);"
            f" McNemar's exact test gives {p}."
        )
    yield "This is about the choice of test examples alone, not about training again."


def _sentences(report: Report, pair: Comparison) -> Iterator[str]:
    yield _means(report, pair)
    yield (
        f"The difference {pair.a} − {pair.b} is {numbers.difference(report, pair)}, 95 % interval "
        f"{numbers.interval(report, pair)}, paired over {pair.n} seeds (this pair alone; of all"
        f" pairs at once {numbers.interval_of_all(report, pair)})."
    )
    if pair.p_adjusted is None:
        yield (
            f"The sign-flip test of this pair alone gives {numbers.p_value(pair.p)}, uncorrected."
        )
        yield _budgets(report)
        yield (
            "Verdict: none is sought; the page names other comparisons, and this one is described."
        )
        return
    test = "e-value" if pair.test.startswith("e-values") else "sign-flip test"
    family = "all pairs of the study"
    if report.look and report.look.named:
        family = f"the {report.look.pairs} comparisons that the page names"
    yield (
        f"The {'one-sided ' * bool(pair.expected)}{test} gives {numbers.p_value(pair.p)}, and"
        f" {numbers.p_value(pair.p_adjusted)} corrected over {family} ({pair.test})."
    )
    yield _budgets(report)
    yield from _tiers(pair)
    if pair.verdict == "undecided":
        needed = f" About {numbers.to_show(pair)} seeds would show a difference of this size."
        yield f"Verdict: undecided; neither may be called better.{needed if pair.seeds else ''}"
    else:
        as_of = f" (as of the look at {pair.decided_at} seeds)" if pair.decided_at else ""
        yield f"Verdict: {pair.a} is {pair.verdict} than {pair.b}{as_of}."


def _tiers(pair: Comparison) -> Iterator[str]:
    """What the tiers beside the verdict say, each of which is a family of its own."""
    if pair.p_new_examples is not None:
        holds = "holds too" if pair.on_new_examples else "is not shown to hold"
        yield (
            f"On test examples drawn anew it {holds} (seeds' and examples' variances added,"
            f" {numbers.p_value(pair.p_new_examples)} corrected by Holm)."
        )
    if pair.p_equal is not None:
        equal = "are equal" if pair.equal else "are not shown to be equal"
        yield (
            f"They {equal} within the page's margin of {pair.margin:g} (two one-sided sign-flip"
            f" tests, {numbers.p_value(pair.p_equal)} corrected over all pairs)."
        )
    if pair.p_welch is not None:
        yield (
            f"Welch's t gives {numbers.p_value(pair.p_welch)} corrected by Holm, which rests on"
            " near-normal noise that so few seeds can't show."
        )


def _cells(report: Report, pair: Comparison | OnExamples) -> tuple[Column, dict[str, Cell]]:
    table = report.tables[0]
    place = next(
        i
        for i, column in enumerate(table.columns)
        if (column.dataset, column.metric) == (pair.dataset, pair.metric)
    )
    rows = {row.label: row.cells[place] for row in table.measured}
    return table.columns[place], rows


def _estimate(cell: Cell, column: Column) -> str:
    value, half = numbers.parts(cell, column)
    return f"{value} ± {half}" if half else value


def _budgets(report: Report) -> str:
    unequal = next((fact.text for fact in report.facts if fact.label == "Not equal"), "")
    if unequal in {"", "Nothing declared."}:
        if tuning := next((fact.text for fact in report.facts if fact.label == "Tuning"), ""):
            return f"Both were tuned on one budget: {tuning.partition(': ')[0]}."
        return "Both had the same recipe, data and seeds, and neither was tuned here."
    return f"Not equal: {unequal}"
