"""Entries over all data sets at once: interquartile mean, mean rank, and how often one wins.

After Agarwal et al. 2021 (the interquartile mean of all runs, with a bootstrap stratified by data
set; probability of improvement) and Demšar 2006 (mean ranks, critical difference). Descriptions:
claims of "better" stand in `ranking` alone, so that they stay one family.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from lightning_bench.reports.report import Cell, Column, Row, Table
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import inference, samples
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.statistics.ranks import midranks
from lightning_bench.reports.tables.footnotes import Notes

RESAMPLES = 2_000
DRAWS = 1_000_000  # runs drawn for one report at most; beyond it there are fewer resamples
RANKED_FROM = 8  # data sets from which on a critical difference means something


def table(request: Request, collected: samples.Samples) -> Table | None:
    """The table, where two entries or more have results on several data sets of one metric."""
    metrics = {names[0] for names in request.metrics.values()}
    if len(request.metrics) < 2 or len(metrics) > 1:
        return None
    (metric,) = metrics
    higher_is_better = request.higher_better(metric)
    scores = {
        label: arrays
        for label in request.grouped_entries()
        if (arrays := _scores(collected, label, request.metrics, metric))
    }
    if len(scores) < 2:
        return None
    runs = sum(len(values) for arrays in scores.values() for values in arrays)
    resamples = max(200, min(RESAMPLES, DRAWS // runs))
    notes = Notes()
    return Table(
        id="across",
        title="Across data sets",
        caption=(
            f"All {len(request.metrics)} data sets at once. Middle half: mean of the middle half of"
            f" all runs ± half the 95 % bootstrap interval ({resamples:,} resamples of the seeds"
            " within each data set). Wins: how often a run is better than another entry's run on"
            " the same data set. Descriptions, not claims."
        ),
        columns=_columns(metric, metric in request.percent, higher_is_better),
        rows=_rows(request, collected, scores, 1 if higher_is_better else -1, resamples, notes),
        notes=notes.all(),
    )


def _rows(
    request: Request,
    collected: samples.Samples,
    scores: Mapping[str, list[Floats]],
    sign: int,
    resamples: int,
    notes: Notes,
) -> list[Row]:
    ranks = dict(zip(scores, mean_ranks(list(scores.values()), sign), strict=True))
    wins = dict(zip(scores, win_rates(list(scores.values()), sign), strict=True))
    rows = []
    for label, entry in request.grouped_entries().items():
        keys = [run.key for name in request.metrics for run in collected[label, name].runs]
        if label in scores:
            n = len(scores[label])
            others = [Cell(value=x[label], n=n, runs=keys) for x in (ranks, wins)]
            cells = [_middle_half(scores[label], resamples, keys), *others]
        else:
            mark = notes.mark("a run failed, or a data set has no result: left out here")
            cells = [Cell(state="incomplete", notes=[mark], runs=keys), Cell(), Cell()]
        rows.append(Row(label=label, group=entry.group, cells=cells))
    return rows


def _middle_half(scores: Sequence[Floats], resamples: int, keys: list[str]) -> Cell:
    low, high = interval(scores, resamples)
    return Cell(
        value=float(interquartile_mean(np.concatenate(scores)[None])[0]),
        low=low,
        high=high,
        n=sum(map(len, scores)),
        runs=keys,
    )


def _columns(metric: str, percent: bool, higher_is_better: bool) -> list[Column]:
    return [
        Column(
            id="across/iqm",
            title="Middle half",
            unit="%" if percent else "",
            kind="interval",
            metric=metric,
            higher_is_better=higher_is_better,
            scale=100 if percent else 1,
        ),
        Column(id="across/rank", title="Mean rank", kind="number", higher_is_better=False),
        Column(
            id="across/wins",
            title="Wins",
            unit="%",
            kind="number",
            higher_is_better=True,
            scale=100,
            decimals=0,
        ),
    ]


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


def interquartile_mean(values: Floats) -> Floats:
    """Mean of each row without its lowest and highest quarter (whole runs, rounded down)."""
    cut = values.shape[1] // 4
    middle = np.sort(values, axis=1)[:, cut : values.shape[1] - cut]
    return np.asarray(middle.mean(axis=1))


def interval(scores: Sequence[Floats], resamples: int = RESAMPLES) -> tuple[float, float]:
    """95 % percentile interval of the interquartile mean; seeds are redrawn in each data set."""
    rng = np.random.default_rng(0)
    drawn = [values[rng.integers(len(values), size=(resamples, len(values)))] for values in scores]
    means = interquartile_mean(np.concatenate(drawn, axis=1))
    low, high = np.quantile(means, [inference.ALPHA / 2, 1 - inference.ALPHA / 2])
    return float(low), float(high)


def mean_ranks(scores: Sequence[Sequence[Floats]], sign: int = 1) -> list[float]:
    """Each entry's rank by its mean on a data set, averaged over data sets; the best is 1."""
    means = np.array([[math.fsum(values) / len(values) for values in one] for one in scores])
    return [float(rank) for rank in midranks(-sign * means.T).mean(axis=0)]


def win_rates(scores: Sequence[Sequence[Floats]], sign: int = 1) -> list[float]:
    """Probability that a run beats a run of another entry on the same data set; ties are half.

    For one data set this is Mann and Whitney's U over the number of pairs: from the ranks of all
    runs together, less those among the entry's own.
    """
    wins = np.zeros(len(scores))
    for runs in zip(*scores, strict=True):
        sizes = np.array([len(values) for values in runs])
        ranks = midranks(sign * np.concatenate(runs))
        owner = np.repeat(np.arange(len(runs)), sizes)
        sums = np.bincount(owner, weights=ranks)
        wins += (sums - sizes * (sizes + 1) / 2) / (sizes * (sizes.sum() - sizes))
    return [float(rate) for rate in wins / len(scores[0])]


def critical_difference(entries: int, datasets: int) -> float:
    """Nemenyi's: mean ranks further apart differ, at 0.05 over all pairs of entries."""
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - inference.ALPHA, entries, np.inf)) / math.sqrt(2)
    return q * math.sqrt(entries * (entries + 1) / (6 * datasets))
