"""The power of a plan with looks: what true difference some look will show, and after how many.

Tried as `inference.detectable_difference` tries a single test: on normal noise, always the same, in
a family of that size whose other pairs are alike.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lightning_bench.reports.statistics import e_values, inference
from lightning_bench.reports.statistics.inference import Floats

_STUDIES = 100
_POWER = 0.8
_MOST_BLOCKS, _MOST_PAIRS = 60, 100  # of which it is tried
_LARGEST = 16.0  # SDs

Flags = npt.NDArray[np.bool_]


class Shown(NamedTuple):
    """A true difference in SDs of the paired differences, and the blocks it takes on average."""

    sds: float
    blocks: float


@lru_cache(maxsize=256)
def by_looks(
    looks: tuple[tuple[int, float], ...], pairs: int, *, one_sided: bool = False
) -> Shown | None:
    """What looks at so many blocks, each with its alpha, show with 80 % power between them.

    None where no look can show anything, or they are too large to be tried.
    """
    looks = tuple(
        (n, alpha) for n, alpha in looks if n >= inference.blocks_needed(alpha, one_sided=one_sided)
    )
    if not looks or looks[-1][0] > _MOST_BLOCKS:
        return None
    noise, a, b, pair, growth = _noise(looks[-1][0], pairs)
    size = (lambda statistics: statistics) if one_sided else np.abs
    patterns = [inference.tried_patterns(n, alpha, one_sided=one_sided) for n, alpha in looks]
    largest = [
        np.stack([inference.largest(study[:, :n], a, b, signs, size) for study in noise])
        for (n, _), signs in zip(looks, patterns, strict=True)
    ]

    def shown(sds: float) -> Flags:
        at_looks = []
        for (n, alpha), signs, of_others in zip(looks, patterns, largest, strict=True):
            flipped = size(inference.studentised_sums(pair[:, :n] + sds, signs))
            p = (np.maximum(of_others, flipped) >= flipped[:, :1] - 1e-9).mean(axis=1)
            at_looks.append(p <= alpha + 1e-12)
        return np.array(at_looks)

    return _found(shown, [n for n, _ in looks], growth)


@lru_cache(maxsize=256)
def by_e_values(stops: tuple[int, ...], pairs: int, *, one_sided: bool = False) -> Shown | None:
    """What e-values show with 80 % power by the last of these numbers of blocks.

    None where they are too many to be tried.
    """
    if stops[-1] > _MOST_BLOCKS:
        return None
    noise, a, b, pair, growth = _noise(stops[-1], pairs)
    columns = [n - 1 for n in stops]

    def evidence(differences: Floats) -> Floats:
        sides = np.ones(len(differences), np.intp) if one_sided else None
        return e_values.e_values(differences, sides)[:, columns]

    # Of each study and stop the sums of the 0, 1, 2, … smallest of the others.
    sorted_others = np.sort(np.stack([evidence(study[a] - study[b]) for study in noise]), axis=1)
    sums = np.pad(np.cumsum(sorted_others, axis=1), ((0, 0), (1, 0), (0, 0)))
    sizes = np.arange(1, sums.shape[1] + 1)[None, :, None]

    def shown(sds: float) -> Flags:
        means = (evidence(pair + sds)[:, None, :] + sums) / sizes
        return np.asarray(means.min(axis=1).T >= 1 / inference.ALPHA)

    return _found(shown, list(stops), growth)


def _noise(
    blocks: int, pairs: int
) -> tuple[Floats, npt.NDArray[np.intp], npt.NDArray[np.intp], Floats, float]:
    """Noise of all entries, which are the other pairs, the pair that differs, how that grows.

    Beyond _MOST_PAIRS the difference grows as √ln pairs, like the largest of so many statistics.
    """
    tried = min(pairs, _MOST_PAIRS)
    growth = math.sqrt(math.log(pairs) / math.log(tried)) if pairs > tried else 1.0
    entries = max(2, math.ceil((1 + math.sqrt(1 + 8 * tried)) / 2))
    noise = np.random.default_rng(0).normal(size=(_STUDIES, entries, blocks))
    a, b = (index[1:tried] for index in np.triu_indices(entries, 1))
    return noise, a, b, (noise[:, 0] - noise[:, 1]) / math.sqrt(2), growth


def _found(shown: Callable[[float], Flags], blocks: list[int], growth: float) -> Shown | None:
    """The least difference that any look shows in 80 % of studies, looks × studies."""
    low, high = 0.0, _LARGEST
    if shown(high).any(axis=0).mean() < _POWER:
        return None
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if shown(middle).any(axis=0).mean() >= _POWER else (middle, high)
    at_looks = shown(high)
    first = np.where(at_looks.any(axis=0), at_looks.argmax(axis=0), len(blocks) - 1)
    return Shown(high * growth, float(np.array(blocks)[first].mean()))
