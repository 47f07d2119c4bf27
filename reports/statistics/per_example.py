"""Two entries on the same test examples: exact McNemar, and a paired bootstrap over the examples.

What is redrawn here is the test set, while the trained models stay as they are. So this tells how
far the size of the test set limits a comparison of these very models, and nothing of what training
again would give: that is in the spread over seeds, on which `ranking` rests its claims. Where both
are added, a claim holds on examples drawn anew (`tiers.new_examples`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from lightning_bench.common.targets import NO_LABEL
from lightning_bench.reports.report import OnExamples
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import inference
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.statistics.samples import Samples

RESAMPLES = 1_000
CHUNK = 4_000_000  # weights held at a time

Predictions = Mapping[str, npt.NDArray[Any]]
# A metric as sums over examples, and what it makes of these sums (last axis) for any draw.
Sums = tuple[Floats, Callable[[Floats], Floats]]


def compare(
    request: Request, samples: Samples, predictions: Mapping[str, Predictions]
) -> list[OnExamples]:
    """Every pair of entries on every data set, over the seeds whose predictions both have."""
    return [
        pair
        for dataset, names in request.metrics.items()
        for pair in _compare_on(request, samples, predictions, dataset, names[0])
    ]


def test_is_drawn(samples: Samples, dataset: str) -> bool:
    """Whether each seed has test examples of its own, which no index tells from another seed's."""
    return any(
        record.spec.data.split == "seed"
        for (_, name), sample in samples.items()
        for record in sample.done.values()
        if name == dataset
    )


def _compare_on(
    request: Request,
    samples: Samples,
    predictions: Mapping[str, Predictions],
    dataset: str,
    metric: str,
) -> Iterator[OnExamples]:
    """The pairs on one data set; none where entries or seeds scored different examples."""
    if test_is_drawn(samples, dataset):
        return
    by_entry = by_entry_and_seed(request, samples, predictions, dataset)
    everything = [one for by_seed in by_entry.values() for one in by_seed.values()]
    if len(by_entry) < 2 or not same_examples(everything) or sums(metric, everything[0]) is None:
        return
    arrays = redrawn(metric, [list(by_seed.values()) for by_seed in by_entry.values()])
    # Of each entry and seed the metric on every draw.
    draws = {
        entry: dict(zip(by_seed, values.T, strict=True))
        for (entry, by_seed), values in zip(by_entry.items(), arrays, strict=True)
    }
    for a, b in combinations(by_entry, 2):
        seeds = sorted(by_entry[a].keys() & by_entry[b].keys())
        if not seeds:
            continue
        differences = np.stack([draws[a][seed] - draws[b][seed] for seed in seeds], axis=1)
        observed, *resampled = differences.mean(axis=1)
        low, high = np.quantile(resampled, [inference.ALPHA / 2, 1 - inference.ALPHA / 2])
        both = [only(metric, by_entry[a][seed], by_entry[b][seed]) for seed in seeds]
        counts = [pair for pair in both if pair]
        yield OnExamples(
            dataset=dataset,
            metric=metric,
            a=a,
            b=b,
            n=len(everything[0]["index"]),
            seeds=seeds,
            difference=float(observed),
            low=float(low),
            high=float(high),
            sd=float(np.std(resampled, ddof=1)),
            only_a=[only_a for only_a, _ in counts],
            only_b=[only_b for _, only_b in counts],
            p=[mcnemar(*pair) for pair in counts],
        )


def by_entry_and_seed(
    request: Request, samples: Samples, predictions: Mapping[str, Predictions], dataset: str
) -> dict[str, dict[int, Predictions]]:
    """The predictions that could be read, of the entries that have any."""
    by_entry = {
        entry: {
            seed: predictions[record.key]
            for seed, record in samples[entry, dataset].done.items()
            if record.key in predictions
        }
        for entry in request.entries
    }
    return {entry: by_seed for entry, by_seed in by_entry.items() if by_seed}


def same_examples(everything: Sequence[Predictions]) -> bool:
    """Whether all of them scored the same examples; of a masked text other tokens may be hidden."""
    first = everything[0]
    return all(
        np.array_equal(one["index"], first["index"])
        and ("loss" in one or np.array_equal(one["target"], first["target"]))
        for one in everything
    )


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided p: of the examples that one of two models gets right, half are either's."""
    from scipy.special import bdtr

    return min(1.0, 2 * float(bdtr(min(only_a, only_b), only_a + only_b, 0.5)))


def only(metric: str, a: Predictions, b: Predictions) -> tuple[int, int] | None:
    """How many examples only `a` gets right, and only `b`; None where none is right or wrong."""
    if metric != "accuracy":
        return None
    ours, other = (right(one)[:, 0] for one in (a, b))
    return int(np.sum(ours > other)), int(np.sum(other > ours))


def redrawn(metric: str, found: Sequence[Sequence[Predictions]]) -> list[Floats]:
    """Each entry's metric by draw and seed; draw 0 is the test set itself, the others resamples.

    All entries meet the same draws, which is what pairs them.
    """
    made = [[_known(metric, one) for one in by_seed] for by_seed in found]
    n = len(found[0][0]["index"])
    stacked = np.concatenate([sums for by_seed in made for sums, _ in by_seed], axis=1)
    rng = np.random.default_rng(0)
    totals = [stacked.sum(axis=0, keepdims=True)]
    rows = max(1, CHUNK // n)
    for start in range(0, RESAMPLES, rows):
        draws = rng.integers(n, size=(min(rows, RESAMPLES - start), n))
        weights = np.stack([np.bincount(draw, minlength=n) for draw in draws])
        totals.append(weights.astype(np.float64) @ stacked)
    every = np.concatenate(totals)
    values, place = [], 0
    for by_seed in made:
        columns = []
        for sums_, measure in by_seed:
            columns.append(measure(every[:, place : place + sums_.shape[1]]))
            place += sums_.shape[1]
        values.append(np.stack(columns, axis=1))
    return values


def metric_of(metric: str, predictions: Predictions) -> float | None:
    """The metric of a split by its predictions; None for one that they don't tell."""
    found = sums(metric, predictions)
    if found is not None:
        of_examples, measure = found
        return float(measure(of_examples.sum(axis=0, keepdims=True))[0])
    if metric != "spearman":
        return None
    from scipy.stats import rankdata

    ranks = {name: rankdata(predictions[name]) for name in ("predicted", "target")}
    return metric_of("pearson", ranks)


def _known(metric: str, predictions: Predictions) -> Sums:
    found = sums(metric, predictions)
    assert found is not None
    return found


def sums(metric: str, predictions: Predictions) -> Sums | None:
    """The metric as sums over examples; None for one that is no function of such sums."""
    predictions = _of_head(metric, predictions)
    predicted, target = predictions["predicted"], predictions["target"]
    if metric in {"accuracy", "nsp_accuracy"}:
        return right(predictions), _ratio
    if metric == "masked_accuracy":  # of a text: how many tokens were right, and how many masked
        return _columns(predicted, target), _ratio
    if metric == "perplexity":
        return _columns(predictions["loss"], target), lambda totals: np.exp(_ratio(totals))
    if metric == "f1":
        both, either = (
            (predicted == 1) & (target == 1),
            (predicted == 1).astype(int) + (target == 1),
        )
        return _columns(2 * both, either), _ratio
    if metric == "matthews":
        classes = range(int(max(predicted.max(), target.max())) + 1)
        counts = [x == k for x in (predicted, target) for k in classes]
        return _columns(predicted == target, *counts), _matthews
    if metric == "pearson":
        x, y = (one.astype(np.float64) - one.mean() for one in (predicted, target))
        return _columns(np.ones_like(x), x, y, x * x, y * y, x * y), _pearson
    return None


def _of_head(metric: str, predictions: Predictions) -> Predictions:
    """Of a model with two heads the column that a metric is of: words first, then pairs."""
    if predictions["predicted"].ndim == 1:
        return predictions
    column = int(metric == "nsp_accuracy")
    return {name: x[:, column] if x.ndim > 1 else x for name, x in predictions.items()}


def _columns(*columns: npt.NDArray[Any]) -> Floats:
    return np.stack([column.astype(np.float64) for column in columns], axis=1)


def right(predictions: Predictions) -> Floats:
    """For each example whether it is right and whether it counts."""
    predicted, target = predictions["predicted"], predictions["target"]
    if target.ndim == 1:
        return _columns(predicted == target, np.ones(len(target)))
    counts = target[:, 0] != NO_LABEL
    return _columns((predicted[:, None] == target).any(axis=1) & counts, counts)


def _ratio(totals: Floats) -> Floats:
    return _divided(totals[:, 0], totals[:, 1])


def _divided(above: Floats, below: Floats) -> Floats:
    """A fraction that is 0 where nothing is below, as the scores have it."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def _matthews(totals: Floats) -> Floats:
    """Of any number of classes: covariance of prediction and truth over their spreads."""
    right, counts = totals[:, 0], totals[:, 1:]
    predicted, target = np.split(counts, 2, axis=1)
    n = predicted.sum(axis=1)
    shared = right * n - (predicted * target).sum(axis=1)
    spreads = (n**2 - (predicted**2).sum(axis=1)) * (n**2 - (target**2).sum(axis=1))
    return _divided(shared, np.sqrt(np.maximum(spreads, 0)))


def _pearson(totals: Floats) -> Floats:
    n, x, y, xx, yy, xy = totals.T
    spreads = np.maximum(n * xx - x * x, 0) * np.maximum(n * yy - y * y, 0)
    return _divided(n * xy - x * y, np.sqrt(spreads))
