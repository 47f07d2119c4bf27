"""Scores of several data sets on one scale, their interquartile mean, and t-type intervals.

After Agarwal et al. 2021: on raw accuracies the middle half of all runs holds the best runs of the
hardest data set and the worst of the easiest. So each data set is put on a scale first, on which
chance is 0 and the best printed or measured mean is 1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import inference
from lightning_bench.reports.statistics.inference import Floats

#: Below so many data sets the middle half has too few runs of each for an interval that covers.
LEAST_DATASETS = 5


@dataclass(frozen=True)
class Anchors:
    """What is 0 and what is 1 on a data set's scale, and in words which they are."""

    zero: float
    one: float
    zero_is: str
    one_is: str

    def scaled(self, values: Floats) -> Floats:
        """Values on this scale; differences alone where the two ends are one."""
        return np.asarray((values - self.zero) / ((self.one - self.zero) or 1.0))


def anchors(request: Request, dataset: str, means: Sequence[float]) -> Anchors:
    """Chance, or the worst mean where it isn't known; the best printed value, or the best mean."""
    metric = request.metrics[dataset][0]
    best, worst = (max, min) if request.higher_better(metric) else (min, max)
    chance = request.chance.get(dataset)
    zero, zero_is = (worst(means), "the worst mean here") if chance is None else (chance, "chance")
    column = f"{dataset}/{metric}"
    scale = 100 if metric in request.percent else 1
    printed = [
        value / scale
        for row in request.published
        if column in row.cells and column not in row.remarks
        if (value := row.cells[column].value) is not None
    ]
    if printed:
        return Anchors(zero, best(printed), zero_is, "the best value in print")
    return Anchors(zero, best(means), zero_is, "the best mean here")


def interquartile_mean(values: Floats) -> Floats:
    """Mean of each row without its lowest and highest quarter (whole runs, rounded down)."""
    cut = values.shape[1] // 4
    middle = np.sort(values, axis=1)[:, cut : values.shape[1] - cut]
    return np.asarray(middle.mean(axis=1))


def mean_half_width(strata: Sequence[Floats]) -> float | None:
    """Half the 95 % t-interval of the mean over strata, with Welch and Satterthwaite's df.

    None where a stratum has one run, which can't tell how its runs vary.
    """
    if any(len(values) < 2 for values in strata):
        return None
    return _half_width(strata, [1 / len(strata)] * len(strata))


def iqm_half_width(strata: Sequence[Floats]) -> float | None:
    """Half the 95 % t-interval of the interquartile mean of all runs, by its influence function.

    Each stratum's winsorised runs vary by themselves. None where a stratum has one run, or there
    are too few strata, of which the quarters that are cut are most of one: of two it covers 83 to
    92 %, of three skewed ones 83 to 89 % (`benchmarks.tiers`).
    """
    if len(strata) < LEAST_DATASETS or any(len(values) < 2 for values in strata):
        return None
    runs = np.sort(np.concatenate(strata))
    cut = len(runs) // 4
    kept = [np.clip(values, runs[cut], runs[-cut - 1]) for values in strata]
    left = len(runs) - 2 * cut
    return _half_width(kept, [len(values) / left for values in strata])


def _half_width(strata: Sequence[Floats], weights: Sequence[float]) -> float:
    """Half the 95 % t-interval of a weighted sum of the strata's means."""
    parts = [
        (weight**2 * float(values.var(ddof=1)) / len(values), len(values) - 1)
        for values, weight in zip(strata, weights, strict=True)
    ]
    variance = math.fsum(part for part, _ in parts)
    if variance <= 0:
        return 0.0
    df = variance**2 / math.fsum(part**2 / less for part, less in parts)
    return inference.t_quantile(1 - inference.ALPHA / 2, df) * math.sqrt(variance)


def on_one_scale(
    request: Request, scores: Mapping[str, Sequence[Floats]]
) -> tuple[dict[str, Anchors], dict[str, list[Floats]]]:
    """The scale of each data set, and every entry's runs by data set on it."""
    scales = {
        dataset: anchors(
            request,
            dataset,
            [math.fsum(strata[place]) / len(strata[place]) for strata in scores.values()],
        )
        for place, dataset in enumerate(request.metrics)
    }
    scaled = {
        entry: [scale.scaled(values) for scale, values in zip(scales.values(), strata, strict=True)]
        for entry, strata in scores.items()
    }
    return scales, scaled
