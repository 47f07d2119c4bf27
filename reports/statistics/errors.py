"""What entries get wrong: confusion matrices, and how far two entries err on the same examples."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lightning_bench.reports.report import Confused, Errors
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import per_example
from lightning_bench.reports.statistics.per_example import Predictions
from lightning_bench.reports.statistics.samples import Samples

#: A matrix of more classes than this would not be read: then the most confused pairs are listed.
MOST_CLASSES = 20
MOST_PAIRS = 10

Counts = npt.NDArray[np.int64]


def errors(
    request: Request, samples: Samples, predictions: Mapping[str, Predictions]
) -> list[Errors]:
    """Of each data set with classes whose predictions could be read."""
    found = (_errors(request, samples, predictions, dataset) for dataset in request.classes)
    return [one for one in found if one]


def _errors(
    request: Request, samples: Samples, predictions: Mapping[str, Predictions], dataset: str
) -> Errors | None:
    collected = per_example.by_entry_and_seed(request, samples, predictions, dataset)
    by_entry = {
        entry: [by_seed[seed] for seed in sorted(by_seed)] for entry, by_seed in collected.items()
    }
    everything = [one for runs in by_entry.values() for one in runs]
    if not everything or not per_example.same_examples(everything):
        return None
    labels = request.classes[dataset]
    matrices: dict[str, Counts] = {}
    if everything[0]["target"].ndim == 1:
        for entry, runs in by_entry.items():
            counts = [confusion(run["target"], run["predicted"], len(labels)) for run in runs]
            matrices[entry] = np.sum(counts, axis=0)
    few = len(labels) <= MOST_CLASSES
    return Errors(
        dataset=dataset,
        seeds={entry: len(runs) for entry, runs in by_entry.items()},
        overlap=overlaps({entry: times_wrong(runs) for entry, runs in by_entry.items()}),
        classes=labels if few else [],
        confusion={entry: matrix.tolist() for entry, matrix in matrices.items()} if few else {},
        confused={} if few else {e: most_confused(m, labels) for e, m in matrices.items()},
    )


def confusion(target: npt.NDArray[Any], predicted: npt.NDArray[Any], classes: int) -> Counts:
    """How many examples of each class (a row) are taken for each (a column)."""
    places = target.astype(np.int64) * classes + predicted
    return np.bincount(places, minlength=classes**2).reshape(classes, classes)


def most_confused(matrix: Counts, labels: Sequence[str]) -> list[Confused]:
    """The most frequent mistakes, most frequent first."""
    totals = matrix.sum(axis=1)
    wrong = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MOST_PAIRS]
    pairs = [divmod(int(place), len(labels)) for place in order]
    return [
        Confused(
            target=labels[i],
            predicted=labels[j],
            count=int(wrong[i, j]),
            share=float(wrong[i, j] / totals[i]),
        )
        for i, j in pairs
        if wrong[i, j]
    ]


def times_wrong(runs: Sequence[Predictions]) -> tuple[int, Counts]:
    """The number of runs, and of each example how many of them get it wrong."""
    found = [per_example.right(run).T for run in runs]
    wrong = [(counts > 0) & (right == 0) for right, counts in found]
    return len(runs), np.sum(wrong, axis=0, dtype=np.int64)


def overlaps(wrong: Mapping[str, tuple[int, Counts]]) -> dict[str, dict[str, float | None]]:
    """Of every two entries, wrong in both over wrong in either, over all pairs of their runs.

    An example that m of an entry's runs get wrong and n of another's is wrong in both runs of
    m × n pairs; with itself, of m × (m - 1).
    """
    found: dict[str, dict[str, float | None]] = {entry: {} for entry in wrong}
    for a, (runs_a, times_a) in wrong.items():
        for b, (runs_b, times_b) in wrong.items():
            if a == b:
                both = int(times_a @ (times_a - 1))
                either = 2 * (runs_a - 1) * int(times_a.sum()) - both
            else:
                both = int(times_a @ times_b)
                either = runs_b * int(times_a.sum()) + runs_a * int(times_b.sum()) - both
            found[a][b] = both / either if either else None
    return found
