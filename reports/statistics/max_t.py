"""Step-down max-T over shared sign flips: p-values and intervals for a whole family of pairs.

After Westfall and Young 1993, and Romano and Wolf 2005. A family is an m × n array of differences:
a row for each pair of entries, a column for each block, which is a seed (or a seed on a data set),
NaN where a pair has no result. If two entries are alike, the differences of a block might as well
have the other sign. A block's sign is flipped for all pairs together, which keeps how the pairs
hang together; so the correction grows with what is independent in the family, not with its size,
and six blocks can carry a claim however many pairs there are.

Where it was named beforehand which of a pair is the better one, its side is +1 or −1 and its
statistic is not |Σ d| but side · Σ d: one direction counts, and five blocks can carry a claim.

What it assumes: the differences of all pairs that are truly equal are jointly symmetric about zero.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
AnyFloats = npt.NDArray[np.floating]
#: Of each pair 0, or the sign that its difference is expected to have; None: all are two-sided.
Sides = npt.NDArray[np.intp] | None

#: Blocks up to which every sign pattern is tried: 2¹³ of them, as opposite ones are equal.
ENUMERATED = 14
#: Random patterns beyond, and the observed one, which keeps the test exact; of so many pairs that
#: patterns × pairs would be more than _CELLS there are fewer, since a report is made in seconds.
DRAWN = 9_999
_CELLS = 10_000_000
_ROWS = 256  # pairs whose flipped statistics are held at a time


@lru_cache(maxsize=8)
def sign_patterns(blocks: int, drawn: int = DRAWN, *, one_sided: bool = False) -> AnyFloats:
    """Patterns × blocks of ±1, the observed one first: all of them, or random ones.

    Random ones are single precision, which halves the time of large reports.
    """
    # Opposite patterns have equal two-sided statistics, so the last sign may stay fixed.
    free = max(blocks - (not one_sided), 0)
    if free < ENUMERATED:
        codes = np.arange(2**free)
        return 1.0 - 2.0 * ((codes[:, None] >> np.arange(blocks)) & 1)
    random = np.random.default_rng(0).integers(0, 2, size=(drawn, blocks)) * 2 - 1
    return np.vstack([np.ones(blocks), random]).astype(np.float32)


def _patterns_for(differences: Floats, sides: Sides) -> AnyFloats:
    """The patterns for a family of that size."""
    pairs, blocks = differences.shape
    drawn = min(DRAWN, max(999, _CELLS // max(pairs, 1)))
    return sign_patterns(blocks, drawn, one_sided=sides is not None and bool(sides.any()))


def sign_flip(
    differences: Floats, sides: Sides = None, pairs: npt.NDArray[np.intp] | None = None
) -> Floats:
    """The p of each pair alone: the share of patterns as far from zero as the observed.

    Of some `pairs` alone the others' p is 1.
    """
    standard, observed = _studentised(differences, sides)
    least = _least(observed, differences)
    p = np.ones(len(observed))
    for rows, flipped in _flipped(standard, np.arange(len(p)) if pairs is None else pairs, sides):
        p[rows] = np.count_nonzero(flipped >= least[rows], axis=1) / flipped.shape[1]
    return p


def max_t(differences: Floats, sides: Sides = None) -> Floats:
    """The p of each pair, corrected over all of them; a missing block is a zero difference.

    The statistic of a pair is |Σ d| / √Σ d², which ranks like |t|: without such a scale one
    restless entry would silence all others. The p of a pair is the share of patterns in which any
    pair that is no clearer than it has a statistic as large as its own (step-down: from the weakest
    pair up, and never smaller than the p of a clearer one).
    """
    standard, observed = _studentised(differences, sides)
    least = _least(observed, differences)
    weakest_first = np.argsort(observed, kind="stable")
    p, largest = np.ones(len(observed)), None
    for rows, flipped in _flipped(standard, weakest_first, sides):
        if largest is not None:
            flipped[0] = np.maximum(flipped[0], largest)
        np.maximum.accumulate(flipped, axis=0, out=flipped)
        p[rows] = np.count_nonzero(flipped >= least[rows], axis=1) / flipped.shape[1]
        largest = flipped[-1].copy()
    clearest_first = weakest_first[::-1]
    p[clearest_first] = np.maximum.accumulate(p[clearest_first])
    return p


def simultaneous_half_widths(differences: Floats, alpha: float, sides: Sides = None) -> Floats:
    """Half of each pair's interval around its mean, all of which hold at once with 1 − alpha.

    Of a pair with a side it is the way from the mean to the interval's only end.

    By the same flips, of the differences less their means: with c the value that the largest
    statistic of all pairs exceeds in a share alpha of the patterns, an interval holds each shift δ
    with |Σ (d − δ)| / √Σ (d − δ)² ≤ c. Infinite where so few blocks can't bound it.
    """
    n = np.count_nonzero(~np.isnan(differences), axis=1)
    means = np.nansum(differences, axis=1) / np.maximum(n, 1)
    residuals = differences - means[:, None]
    squares = np.nansum(residuals**2, axis=1)
    signs = _patterns_for(differences, sides)
    # The observed pattern always counts among those that may exceed it, of a two-sided pair its
    # opposite, too, where that is a pattern of its own.
    own = 1 if sides is None or not sides.any() or sides.all() else 2
    exceeding = int(alpha * len(signs) + 1e-9) - own
    if exceeding < 0:
        return np.full(len(n), np.inf)
    largest = np.zeros(len(signs), signs.dtype)
    standard, _ = _studentised(residuals, sides)
    for _, flipped in _flipped(standard, np.arange(len(n)), sides):
        np.maximum(largest, flipped.max(axis=0), out=largest)
    critical = float(np.sort(largest[1:])[::-1][exceeding]) ** 2
    room = n * (n - critical)
    halves = np.divide(critical * squares, room, out=np.full(len(n), np.inf), where=room > 1e-9)
    return np.asarray(np.sqrt(halves))


def _studentised(differences: Floats, sides: Sides) -> tuple[Floats, Floats]:
    """The rows over the root of their sum of squares, turned to their sides, and the statistics."""
    known = np.nan_to_num(differences)
    scale = np.sqrt((known**2).sum(axis=1))
    standard = known / np.where(scale > 0, scale, np.inf)[:, None]
    if sides is None:
        return standard, np.abs(standard.sum(axis=1))
    standard = standard * np.where(sides == 0, 1, sides)[:, None]
    sums = standard.sum(axis=1)
    return standard, np.where(sides == 0, np.abs(sums), sums)


def _least(observed: Floats, differences: Floats) -> Floats:
    """From which statistic on a pattern counts as far from zero, as a column.

    Metrics are counts over the test set: what is equal in truth differs in its last bits.
    """
    slack = 1e-9 if differences.shape[1] <= ENUMERATED else 1e-5
    return np.asarray((observed - slack)[:, None])


def _flipped(
    standard: Floats, order: npt.NDArray[np.intp], sides: Sides
) -> Iterator[tuple[npt.NDArray[np.intp], AnyFloats]]:
    """The statistic of every pattern, of some rows at a time: the rows, and rows × patterns."""
    signs = _patterns_for(standard, sides)
    for start in range(0, len(order), _ROWS):
        rows = order[start : start + _ROWS]
        flipped = standard[rows].astype(signs.dtype) @ signs.T
        two_sided = True if sides is None else (sides[rows] == 0)[:, None]
        yield rows, np.abs(flipped, out=flipped, where=two_sided)
