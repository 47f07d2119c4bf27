"""The forest plots of a report: which pairs they show, their captions, their numbers as text."""

from collections.abc import Iterator, Mapping, Sequence

from lightning_bench.reports.report import Column, Comparison, Figure, Table
from lightning_bench.reports.request import Request
from lightning_bench.reports.text.numbers import number, slug
from lightning_bench.reports.text.verdicts import also

MOST_PAIRS = 12  # of more only those with the baseline or the leader
MOST_ROWS = 16  # of these the closest


def figures(
    request: Request, main: Table, comparisons: Sequence[Comparison], names: Mapping[str, str]
) -> Iterator[Figure]:
    """One for each data set, and one for the mean; `names` are those of files, by data set."""
    by_title: dict[str, list[Comparison]] = {}
    for pair in comparisons:
        by_title.setdefault(pair.dataset, []).append(pair)
    baseline = _baseline(request)
    for title, pairs in by_title.items():
        column = column_of(main, pairs[0])
        sign = 1 if request.higher_better(pairs[0].metric) else -1
        order = _order(main, column, title, pairs, sign)
        shown, which = _shown(pairs, order, baseline, sign)
        metric = pairs[0].metric.replace("_", " ")
        if shown:
            single = title in request.metrics
            yield Figure(
                name=f"differences-{names[title]}" if single else "mean-difference",
                kind="differences",
                dataset=title if single else None,
                title=f"Differences in {metric}, {title}",
                caption=_caption(shown, which),
                alt=_alt(shown, column, title),
                pairs=[(title, pair.a, pair.b) for pair in shown],
            )


def column_of(main: Table, pair: Comparison) -> Column:
    """The main table's column in whose unit a pair is; the mean over data sets has that of each."""
    own = (pair.dataset, pair.metric)
    return next(
        (column for column in main.columns if (column.dataset, column.metric) == own),
        next(column for column in main.columns if column.metric == pair.metric),
    )


def _baseline(request: Request) -> str | None:
    """The entry that the page compares all others with."""
    return next((claim.baseline for claim in request.study.claims if claim.baseline), None)


def _order(
    main: Table, column: Column, title: str, pairs: Sequence[Comparison], sign: int
) -> list[str]:
    """The entries of these pairs, the best mean first; of the mean over data sets by the pairs."""
    entries = list(dict.fromkeys(name for pair in pairs for name in (pair.a, pair.b)))
    score = dict.fromkeys(entries, 0.0)
    if column.dataset == title:
        place = main.columns.index(column)
        score |= {
            row.label: sign * (row.cells[place].value or 0.0)
            for row in main.measured
            if row.label in score
        }
    else:
        for pair in pairs:
            score[pair.a] += sign * pair.difference
            score[pair.b] -= sign * pair.difference
    return sorted(entries, key=lambda entry: -score[entry])


def _shown(
    pairs: Sequence[Comparison], order: Sequence[str], baseline: str | None, sign: int
) -> tuple[list[Comparison], str]:
    """The pairs to be drawn, from the top, and in words which they are."""
    place = {entry: i for i, entry in enumerate(order)}
    if baseline in place:
        turned = [
            pair if pair.b == baseline else pair.turned()
            for pair in pairs
            if baseline in (pair.a, pair.b)
        ]
        kept = sorted(turned, key=lambda pair: place[pair.a])
        which = f"Every other entry less {baseline}, which the page takes as the baseline"
    else:
        turned = [pair if place[pair.a] < place[pair.b] else pair.turned() for pair in pairs]
        kept = sorted(turned, key=lambda pair: (place[pair.a], place[pair.b]))
        which = "Every pair, the better mean first"
        if len(kept) > MOST_PAIRS:
            kept = [pair for pair in kept if pair.a == order[0]]
            which = f"{order[0]}, whose mean is best, less every other entry"
    if len(kept) > MOST_ROWS:
        closest = sorted(kept, key=lambda pair: abs(pair.difference))[:MOST_ROWS]
        which += f" (the {MOST_ROWS} closest of {len(kept)})"
        kept = [pair for pair in kept if pair in closest]
    return kept, which


def _caption(shown: Sequence[Comparison], which: str) -> str:
    bounded = any(pair.low_of_all is not None for pair in shown)
    parts = [
        f"{which}. Thick: 95 % t-interval of that pair alone.",
        "Thin: the 95 % interval that holds for all pairs of the report at once; an arrow: it goes"
        " on beyond the axis."
        if bounded
        else "So few seeds give no interval for all pairs at once.",
        "Dots: the seeds' differences.",
    ]
    if any(pair.margin is not None for pair in shown):
        parts.append("Band: the page's margin, within which entries are practically equal.")
    if any(pair.verdict != "undecided" for pair in shown):
        parts.append("Filled diamonds and squares are claims.")
    elif any(pair.by_welch not in {None, "undecided"} for pair in shown):
        parts.append("Hollow diamonds and squares: by Welch's t alone, no claim.")
    return " ".join(parts)


def _alt(shown: Sequence[Comparison], column: Column, title: str) -> str:
    """The figure's numbers in words."""
    signed = column.model_copy(update={"signed": True})
    rows = []
    for pair in shown:
        text = f"{pair.a} − {pair.b} {number(pair.difference, signed)}"
        ends = []
        if pair.low is not None and pair.high is not None:
            ends.append(f"{number(pair.low, signed)} to {number(pair.high, signed)}")
        if pair.low_of_all is not None and pair.high_of_all is not None:
            both = f"{number(pair.low_of_all, signed)} to {number(pair.high_of_all, signed)}"
            ends.append(f"of all pairs at once {both}")
        text += f" ({'; '.join(ends)})" if ends else ""
        rows.append(", ".join(filter(None, [text, pair.verdict, also(pair)])))
    unit = " in points" if column.unit == "%" else ""
    metric = (column.metric or "").replace("_", " ")
    return f"Differences in {metric} on {title}{unit}, with 95 % intervals: {'; '.join(rows)}."


def name_of(dataset: str, taken: Sequence[str]) -> str:
    """A name for a data set's files that no other has: a/b and a-b have one slug."""
    name = slug(dataset)
    return f"{name}-{len(taken)}" if name in taken else name
