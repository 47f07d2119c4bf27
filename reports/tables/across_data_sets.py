"""Entries over all data sets at once: normalised mean and middle half, mean rank, wins.

After Agarwal et al. 2021 and Demšar 2006. Descriptions: claims of "better" stand in `ranking`
alone, so that they stay one family.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from lightning_bench.reports.report import Cell, Column, Note, Row, Table
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import samples
from lightning_bench.reports.statistics.data_sets.improvement import improvement, win_rates
from lightning_bench.reports.statistics.data_sets.mean_ranks import alike, mean_ranks, told_apart
from lightning_bench.reports.statistics.data_sets.normalised import (
    LEAST_DATASETS,
    Anchors,
    interquartile_mean,
    iqm_half_width,
    mean_half_width,
    on_one_scale,
)
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.tables.footnotes import Notes
from lightning_bench.reports.text.numbers import number

MOST_PAIRS = 12  # of a table or figure; of more entries only the pairs of the best rank
_SCALES_TOLD = 12

#: Each entry's runs by data set, of those with a result on every one.
Scores = dict[str, list[Floats]]

_MEAN = Column(
    id="across/mean", title="Mean", unit="normalised", kind="interval", higher_is_better=True,
    scale=100, decimals=1,
)  # fmt: skip
_MIDDLE = Column(
    id="across/iqm", title="Middle half", unit="normalised", kind="interval",
    higher_is_better=True, scale=100, decimals=1,
)  # fmt: skip
_RANK = Column(id="across/rank", title="Mean rank", kind="number", higher_is_better=False)
_WINS = Column(
    id="across/wins", title="Wins", unit="%", kind="number", higher_is_better=True, scale=100,
    decimals=0,
)  # fmt: skip
_COLUMNS = (_MEAN, _MIDDLE, _RANK, _WINS)


def scores_of(request: Request, collected: samples.Samples) -> Scores:
    """What can be compared over data sets; empty where it is no two entries, or several metrics."""
    metrics = {names[0] for names in request.metrics.values()}
    if len(request.metrics) < 2 or len(metrics) > 1:
        return {}
    (metric,) = metrics
    scores = {
        label: arrays
        for label in request.grouped_entries()
        if (arrays := _scores(collected, label, request.metrics, metric))
    }
    return scores if len(scores) > 1 else {}


def tables(request: Request, collected: samples.Samples) -> list[Table]:
    """The table of entries and that of pairs, where there is something to compare."""
    scores = scores_of(request, collected)
    if not scores:
        return []
    sign = 1 if request.higher_better(next(iter(request.metrics.values()))[0]) else -1
    scales, scaled = on_one_scale(request, scores)
    ranks = dict(zip(scores, mean_ranks([*scores.values()], sign), strict=True))
    notes = Notes()
    rows = _rows(request, collected, scores, scaled, ranks, sign, notes)
    entries = Table(
        id="across",
        title="Across data sets",
        caption=(
            f"All {len(request.metrics)} data sets at once, each on a scale of its own (see below)."
            " Mean: of the data sets' means ± half the 95 % t-interval, seeds varying within each"
            " data set. Middle half: mean of the middle half of all runs, its interval likewise."
            " Wins: how often a run is better than another entry's run on the same data set."
            " Descriptions of these data sets, not claims."
        ),
        columns=[*_COLUMNS],
        rows=rows,
        notes=[*notes.all(), Note(text=_told(request, scales))],
    )
    pairs = _pairs(scores, ranks, sign)
    return [entries, pairs] if pairs else [entries]


def groups(request: Request, collected: samples.Samples) -> list[list[str]]:
    """Entries that data sets like these can't tell apart, by their neighbours in mean rank."""
    scores = scores_of(request, collected)
    if not scores:
        return []
    sign = 1 if request.higher_better(next(iter(request.metrics.values()))[0]) else -1
    _, scaled = on_one_scale(request, scores)
    means = np.array([[values.mean() for values in strata] for strata in scaled.values()])
    labels, ranks = [*scores], mean_ranks([*scores.values()], sign)
    return [[labels[place] for place in group] for group in alike(ranks, told_apart(means))]


def _rows(
    request: Request,
    collected: samples.Samples,
    scores: Scores,
    scaled: Mapping[str, list[Floats]],
    ranks: Mapping[str, float],
    sign: int,
    notes: Notes,
) -> list[Row]:
    wins = dict(zip(scores, win_rates([*scores.values()], sign), strict=True))
    rows = []
    for label, entry in request.grouped_entries().items():
        keys = [run.key for name in request.metrics for run in collected[label, name].runs]
        if label in scores:
            n = len(scores[label])
            others = [Cell(value=x[label], n=n, runs=keys) for x in (ranks, wins)]
            cells = [*_means(scaled[label], keys, notes), *others]
        else:
            mark = notes.mark("a run failed, or a data set has no result: left out here")
            empty = [Cell() for _ in _COLUMNS[1:]]
            cells = [Cell(state="incomplete", notes=[mark], runs=keys), *empty]
        rows.append(Row(label=label, group=entry.group, cells=cells))
    return rows


def _means(strata: Sequence[Floats], keys: list[str], notes: Notes) -> list[Cell]:
    """The mean and the middle half, with their intervals where the runs can tell."""
    runs = np.concatenate(strata)
    values = (
        float(np.mean([one.mean() for one in strata])),
        float(interquartile_mean(runs[None])[0]),
    )
    cells = []
    for value, half in zip(values, (mean_half_width(strata), iqm_half_width(strata)), strict=True):
        marks = [] if half is not None else [notes.mark(_TOO_FEW)]
        low, high = (None, None) if half is None else (value - half, value + half)
        cells.append(Cell(value=value, low=low, high=high, n=len(runs), notes=marks, runs=keys))
    return cells


_TOO_FEW = (
    "too few runs for an interval: the mean's needs two seeds on each data set, the middle half's"
    f" {LEAST_DATASETS} data sets as well"
)


def _told(request: Request, scales: Mapping[str, Anchors]) -> str:
    """What is 0 and what is 100 on the data sets' scales."""
    metric = next(iter(request.metrics.values()))[0]
    percent = metric in request.percent
    plain = Column(id="", title="", kind="number", scale=100 if percent else 1, decimals=1)
    told = [
        f"{dataset}: 0 is {scale.zero_is} ({number(scale.zero, plain)}), 100 {scale.one_is}"
        f" ({number(scale.one, plain)})"
        for dataset, scale in scales.items()
    ]
    more = f"; and {len(told) - _SCALES_TOLD} more alike" if len(told) > _SCALES_TOLD else ""
    return f"Scales of {metric.replace('_', ' ')}: {'; '.join(told[:_SCALES_TOLD])}{more}."


def _pairs(scores: Scores, ranks: Mapping[str, float], sign: int) -> Table | None:
    """The probability of improvement of each pair, the better rank first."""
    if any(len(values) < 2 for strata in scores.values() for values in strata):
        return None
    order = sorted(scores, key=ranks.__getitem__)
    pairs = [*combinations(order, 2)]
    few = len(pairs) <= MOST_PAIRS
    rows = []
    for a, b in pairs if few else [(order[0], other) for other in order[1:]]:
        found = improvement(scores[a], scores[b], sign)
        cells = [Cell(value=value, n=len(scores[a])) for value in (found.p, found.low, found.high)]
        rows.append(Row(label=f"{a} over {b}", cells=cells))
    return Table(
        id="improvement",
        title="Probability of improvement",
        caption=(
            "How likely a run of the first beats a run of the second, on average over the data"
            " sets (ties are half), and its 95 % interval over seeds (Newcombe's), of each pair by"
            " itself: 50 % is no difference. "
            + ("" if few else f"Pairs of {order[0]}, whose mean rank is best. ")
            + "A description of these data sets, not a claim."
        ),
        columns=[
            Column(id=f"improvement/{name}", title=title, unit="%", kind="number", scale=100,
                   decimals=0)
            for name, title in (("p", "P(better)"), ("low", "95 % from"), ("high", "to"))
        ],
        rows=rows,
    )  # fmt: skip


def _scores(
    collected: samples.Samples,
    entry: str,
    datasets: Iterable[str],
    metric: str,
) -> list[Floats]:
    """One array for each data set; empty where an entry failed or has no result."""
    here = [collected[entry, dataset] for dataset in datasets]
    if any(sample.failed(metric) or not sample.done for sample in here):
        return []
    return [np.array(list(sample.values(metric).values())) for sample in here]
