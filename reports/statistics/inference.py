"""The statistics behind the tables: pure functions of numbers, exact where they can be.

Sums are exactly rounded (math.fsum), so the same metrics give the same bits in any order.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lightning_bench.reports.statistics import max_t

ALPHA = 0.05
MOST_SEEDS = 1_000  # nobody trains more
_POWER = 0.8
_STUDIES = 100  # simulated to find the power
_TRIED, _TRIED_PAIRS = 20, 100  # seeds and pairs of which it is tried

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Summary:
    """Mean over n runs, SD and 95 % t-interval; the last three are None for a single run."""

    n: int
    mean: float
    sd: float | None = None
    low: float | None = None
    high: float | None = None


def summarise(values: Sequence[float]) -> Summary:
    """Describe a sample of one or more finite values.

    sd = sqrt(Σ(x − mean)² / (n − 1)); interval = mean ± t(0.975, n − 1) · sd / √n.
    """
    n = len(values)
    mean = math.fsum(values) / n
    if n == 1:
        return Summary(1, mean)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    half = t_quantile(1 - ALPHA / 2, n - 1) * sd / math.sqrt(n)
    return Summary(n, mean, sd, mean - half, mean + half)


@lru_cache(maxsize=1024)
def t_quantile(probability: float, df: int) -> float:
    """Quantile of Student's t."""
    # scipy.special answers in 0.1 s of import where scipy.stats takes 0.7.
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def share_of_examples(share: float, examples: int) -> tuple[float, float]:
    """Wilson's 95 % confidence interval of a share, such as an accuracy, of so many examples."""
    z2 = t_quantile(1 - ALPHA / 2, 10**9) ** 2
    middle = (share + z2 / (2 * examples)) / (1 + z2 / examples)
    half = math.sqrt(share * (1 - share) / examples + z2 / (4 * examples**2)) * math.sqrt(z2)
    half /= 1 + z2 / examples
    return middle - half, middle + half


def least_p(n: int, *, one_sided: bool = False) -> float:
    """The smallest p that n blocks can give: 2 / 2ⁿ, or half of it where a direction was named."""
    return min(1.0, 2.0 ** (-n if one_sided else 1 - n))


def blocks_needed(alpha: float = ALPHA, *, one_sided: bool = False) -> int:
    """Blocks from which on a claim is possible at all, of however many pairs: 2 / 2ⁿ ≤ alpha."""
    if alpha <= 0:
        return MOST_SEEDS
    return math.ceil((not one_sided) - math.log2(alpha))


@lru_cache(maxsize=4096)
def detectable_difference(
    n: int, pairs: int = 1, alpha: float = ALPHA, *, one_sided: bool = False
) -> float:
    """True difference, in SDs of the paired differences, that n seeds show with 80 % power.

    Found by trying the test itself on normal noise, always the same, in a family of that size
    whose other pairs are alike. Infinite where no result can pass. Beyond _TRIED seeds it falls as
    1 / √n, beyond _TRIED_PAIRS it grows as √ln pairs, like the largest of so many statistics.
    """
    if n < blocks_needed(alpha, one_sided=one_sided):
        return math.inf
    if n > _TRIED:
        tried = detectable_difference(_TRIED, pairs, alpha, one_sided=one_sided)
        return tried * math.sqrt(_TRIED / n)
    if pairs > _TRIED_PAIRS:
        growth = math.sqrt(math.log(pairs) / math.log(_TRIED_PAIRS))
        return detectable_difference(n, _TRIED_PAIRS, alpha, one_sided=one_sided) * growth
    signs = tried_patterns(n, alpha, one_sided=one_sided)
    entries = max(2, math.ceil((1 + math.sqrt(1 + 8 * pairs)) / 2))
    noise = np.random.default_rng(0).normal(size=(_STUDIES, entries, n))
    a, b = (index[1:pairs] for index in np.triu_indices(entries, 1))
    size = (lambda statistics: statistics) if one_sided else np.abs
    largest_of_others = np.stack([largest(study, a, b, signs, size) for study in noise])
    noise_of_pair = (noise[:, 0] - noise[:, 1]) / math.sqrt(2)
    low, high = 0.0, 16.0
    while high - low > 0.01:
        middle = (low + high) / 2
        differences = noise_of_pair + middle
        flipped = size(studentised_sums(differences, signs))
        p = (np.maximum(largest_of_others, flipped) >= flipped[:, :1] - 1e-9).mean(axis=1)
        low, high = (low, middle) if np.mean(p <= alpha) >= _POWER else (middle, high)
    return high


def tried_patterns(n: int, alpha: float, *, one_sided: bool) -> npt.NDArray[np.floating]:
    """Sign patterns that a power is tried with: enough to tell an alpha of that size."""
    if n <= 10 or (n <= max_t.ENUMERATED and alpha < 0.005):
        return max_t.sign_patterns(n, one_sided=one_sided)
    drawn = max(511, math.ceil(4 / alpha))
    return max_t.sign_patterns(max(n, _TRIED), drawn, one_sided=one_sided)[:, :n]


def largest(
    scores: Floats,
    a: npt.NDArray[np.intp],
    b: npt.NDArray[np.intp],
    signs: npt.NDArray[np.floating],
    size: Callable[[Floats], Floats],
) -> Floats:
    """The largest statistic of all pairs a − b of entries, by sign pattern.

    Entries are flipped, of which there are fewer than pairs: a difference of sums is the sum.
    """
    if not len(a):
        return np.full(len(signs), -np.inf)
    scale = np.sqrt(((scores[a] - scores[b]) ** 2).sum(axis=1, keepdims=True))
    sums = np.einsum("rn,pn->rp", scores, signs)
    return np.asarray(size((sums[a] - sums[b]) / scale).max(axis=0))


def studentised_sums(rows: Floats, signs: npt.NDArray[np.floating]) -> Floats:
    """Σ d / √Σ d² under each sign pattern, rows × patterns.

    Without BLAS: its threads take longer to start than these small products.
    """
    scale = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    return np.asarray(np.einsum("rn,pn->rp", rows / scale, signs))


def seeds_to_show(
    difference: float, sd: float, pairs: int = 1, *, one_sided: bool = False
) -> int | None:
    """Seeds that show a true difference of that size with 80 % power; None beyond MOST_SEEDS."""
    if difference == 0:
        return None
    effect = abs(difference) / sd if sd else math.inf
    possible = range(blocks_needed(one_sided=one_sided), MOST_SEEDS + 1)
    place = bisect_left(
        possible,
        -effect,
        key=lambda n: -detectable_difference(n, pairs, one_sided=one_sided),
    )
    return possible[place] if place < len(possible) else None
