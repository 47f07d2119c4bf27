"""Holm's step-down correction of p-values for multiple comparisons."""

import numpy as np

from lightning_bench.reports.statistics.inference import Floats


def holm(p: Floats) -> Floats:
    """Adjusted p-values: at most alpha of families hold a false one at alpha, however related."""
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)), 1.0)
    return adjusted
