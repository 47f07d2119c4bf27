"""Mean ranks over data sets, and which entries data sets like these can tell apart.

Here data sets are the replicates: max-T over sign flips of their differences, for all pairs at
once, says of which pairs the order would be the same on other data sets of the kind. Nemenyi's
critical difference, which stands here elsewhere, depends on who else is in the table.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lightning_bench.reports.statistics import inference, max_t
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.statistics.ranks import midranks


def mean_ranks(scores: Sequence[Sequence[Floats]], sign: int = 1) -> list[float]:
    """Each entry's rank by its mean on a data set, averaged over data sets; the best is 1."""
    means = np.array([[math.fsum(values) / len(values) for values in one] for one in scores])
    return [float(rank) for rank in midranks(-sign * means.T).mean(axis=0)]


def told_apart(means: Floats) -> npt.NDArray[np.bool_]:
    """Of entries × data sets: which two differ over data sets, as a matrix."""
    entries = len(means)
    apart = np.zeros((entries, entries), dtype=bool)
    a, b = np.triu_indices(entries, 1)
    if means.shape[1] >= inference.blocks_needed():
        apart[a, b] = max_t.max_t(means[a] - means[b]) <= inference.ALPHA
    return np.asarray(apart | apart.T)


def alike(ranks: Sequence[float], apart: npt.NDArray[np.bool_]) -> list[list[int]]:
    """Groups of neighbours in rank of which no two are told apart, none within another."""
    order = np.argsort(ranks, kind="stable").tolist()
    groups: list[list[int]] = []
    for first in range(len(order)):
        last = first
        while last + 1 < len(order) and not apart[order[last + 1], order[first : last + 1]].any():
            last += 1
        group = order[first : last + 1]
        if len(group) > 1 and not (groups and group[-1] in groups[-1]):
            groups.append(group)
    return groups
