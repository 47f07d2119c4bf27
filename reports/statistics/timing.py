"""Statistics of timed blocks: medians with their intervals, ratios paired by round, exponents."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np

from lightning_bench.bench.store.measurements import Block, Measurement
from lightning_bench.reports.statistics.inference import ALPHA, t_quantile

#: Interquartile range over median from which a figure is called noisy, and from which it is
#: no more ranked.
NOISY, HOPELESS = 0.10, 0.25
#: Samples below which a 99th percentile would be the maximum by another name.
FOR_P99 = 100


@dataclass(frozen=True)
class TimingSpread:
    """A sample by its quantiles; the interval is that of the median, from order statistics."""

    n: int
    median: float
    q1: float
    q3: float
    p10: float
    p90: float
    low: float
    high: float

    @property
    def iqr_share(self) -> float:
        """The interquartile range as a share of the median."""
        return (self.q3 - self.q1) / self.median if self.median else 0.0

    @property
    def noisy(self) -> bool:
        """Whether a figure from this sample is to be marked."""
        return self.iqr_share > NOISY

    @property
    def hopeless(self) -> bool:
        """Whether it is too noisy to be ranked at all."""
        return self.iqr_share > HOPELESS


@dataclass(frozen=True)
class Exponent:
    """The power of x that y grows with, by a line through the logarithms, and its interval."""

    value: float
    low: float
    high: float
    n: int


def describe(values: Sequence[float], alpha: float = ALPHA) -> TimingSpread:
    """Quantiles of a sample and the interval of its median, of 95 % unless told otherwise."""
    q1, q3, p10, p90 = (float(q) for q in np.quantile(values, (0.25, 0.75, 0.1, 0.9)))
    low, high = median_interval(values, alpha)
    return TimingSpread(len(values), float(np.median(values)), q1, q3, p10, p90, low, high)


def median_interval(values: Sequence[float], alpha: float = ALPHA) -> tuple[float, float]:
    """The order statistics that hold the median with probability 1 - alpha at least.

    That is exact for independent samples. A machine's moods last longer than a block, so samples
    that follow each other are alike: n of them tell as much as n (1 - r) / (1 + r) independent
    ones, where r is their correlation with the next, and the interval is wider by the root.
    """
    n = len(values)
    ordered = sorted(values)
    rank = _rank(n, alpha)
    away = (n / 2 - rank) * math.sqrt(inflation(values))
    rank = max(0, math.floor(n / 2 - away + 1e-9))
    return ordered[rank], ordered[n - 1 - rank]


def inflation(values: Sequence[float]) -> float:
    """(1 + r) / (1 - r) for samples in the order they were taken; at least 1.

    r is the correlation of ranks, so that a spike is one sample among others, and its standard
    error on top: an interval that is too wide is a smaller fault than one that is too narrow.
    """
    n = len(values)
    if n < 4:
        return 1.0
    ranks = np.argsort(np.argsort(values)).astype(float)
    ranks -= ranks.mean()
    r = float((ranks[1:] * ranks[:-1]).sum() / (ranks**2).sum()) + 1 / math.sqrt(n)
    r = min(max(r, 0.0), 0.9)
    return (1 + r) / (1 - r)


@lru_cache(maxsize=256)
def _rank(n: int, alpha: float = ALPHA) -> int:
    """The largest k for which the (k + 1)-th smallest to (k + 1)-th largest cover the median.

    P(fewer than k + 1 of n samples lie below the median) = Σ_{i ≤ k} C(n, i) / 2ⁿ ≤ alpha / 2.
    Where n is too small for that it is 0, the whole range.
    """
    below, k = 0.0, -1
    while k + 1 < n / 2:
        below += math.comb(n, k + 1) / 2**n
        if below > alpha / 2:
            break
        k += 1
    return max(k, 0)


def seconds(measurement: Measurement) -> dict[int, float]:
    """Seconds an example by round, over all devices."""
    examples = measurement.setting.batch_size * measurement.setting.devices
    return {block.round: _block_s(block) / (block.steps * examples) for block in measurement.blocks}


def _block_s(block: Block) -> float:
    """The device's own time where it keeps one, else without what others held the core."""
    if block.device_s is not None:
        return block.device_s
    return block.wall_s - (block.waited_s or 0.0)


def throughput(measurement: Measurement) -> TimingSpread | None:
    """Units a second, a core on a CPU and a device elsewhere; None where there is no block."""
    times = seconds(measurement)
    if not times:
        return None
    setting = measurement.setting
    shares = setting.devices * (setting.threads if setting.device == "cpu" else 1)
    ordered = [times[number] for number in sorted(times)]
    return describe([measurement.per_example / (each * shares) for each in ordered])


def ratio(
    a: Mapping[int, float], b: Mapping[int, float], alpha: float = ALPHA
) -> TimingSpread | None:
    """How many times as long b takes as a, round by round."""
    rounds = sorted(a.keys() & b.keys())
    return describe([b[number] / a[number] for number in rounds], alpha) if rounds else None


def tied(measurements: Sequence[Measurement]) -> tuple[set[int], dict[int, str]]:
    """Places of the fastest and of all that can't be told from it; why others are not ranked.

    Each is compared with the fastest at 0.05 over the number of comparisons (Bonferroni), so that
    of models that are equally fast hardly ever one is called slower, however many there are.
    Only what took turns in one session and in one setting is given here: callers see to that.
    """
    unranked: dict[int, str] = {}
    times: dict[int, dict[int, float]] = {}
    for place, measurement in enumerate(measurements):
        found = throughput(measurement)
        if found is None:
            continue
        if found.hopeless:
            unranked[place] = "noisy, and not ranked: the IQR is over 25 % of the median"
        else:
            per_unit = measurement.per_example
            times[place] = {k: v / per_unit for k, v in seconds(measurement).items()}
    if len(times) < 2:
        return set(), unranked
    fastest = min(times, key=lambda place: float(np.median(list(times[place].values()))))
    best = {fastest}
    for place, mine in times.items():
        slower = ratio(times[fastest], mine, ALPHA / (len(times) - 1))
        if place != fastest and (slower is None or slower.low <= 1):
            best.add(place)
    return best, unranked


def exponent(x: Sequence[float], y: Sequence[float]) -> Exponent | None:
    """Fit y = c xᵏ by least squares of the logarithms; None for fewer than three sizes.

    The t-interval of the slope holds both noise and that the curve is no pure power.
    """
    n = len(x)
    if n < 3 or len(set(x)) < 3:
        return None
    lx, ly = np.log(np.asarray(x, float)), np.log(np.asarray(y, float))
    dx = lx - lx.mean()
    slope = float((dx * ly).sum() / (dx**2).sum())
    rest = ly - ly.mean() - slope * dx
    error = math.sqrt(float((rest**2).sum()) / (n - 2) / float((dx**2).sum()))
    half = t_quantile(1 - ALPHA / 2, n - 2) * error
    return Exponent(slope, slope - half, slope + half, n)


def degree(x: Sequence[int], y: Sequence[int]) -> int | None:
    """The degree of the polynomial through exact counts, None where the points don't show one.

    Newton's divided differences, in whole numbers: those beyond the degree vanish.
    """
    order = sorted(range(len(x)), key=lambda i: x[i])
    xs = [x[i] for i in order]
    column = [Fraction(y[i]) for i in order]
    for found in range(len(xs)):
        if all(value == column[0] for value in column):
            # One value left proves nothing.
            return found if len(column) > 1 else None
        column = [
            (after - before) / (xs[i + found + 1] - xs[i])
            for i, (before, after) in enumerate(pairwise(column))
        ]
    return None
