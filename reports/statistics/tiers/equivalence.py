"""Practical equivalence: two one-sided sign-flip tests (TOST) against the page's margin.

Two entries are equal within a margin m where their difference is shown to be less than m and more
than −m. Both are tested for all pairs at once by step-down max-T, of the differences less m and
plus m: each row is jointly symmetric about zero where the truth stands just at that edge. Of the
two rows of a pair at most one can be true, and only in one direction; so two-sided 0.10 over all
rows holds the chance of any false "equal" at 0.05.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import inference, max_t
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.statistics.ranking import Rankings
from lightning_bench.reports.statistics.tiers.pairs import Pair


@dataclass(frozen=True)
class Equivalence:
    """The pairs that were tested against a margin, which are one family."""

    margins: dict[str, float] = field(default_factory=dict)  # in the printed unit
    p: dict[Pair, float] = field(default_factory=dict)  # one-sided, corrected

    @property
    def equal(self) -> list[Pair]:
        """The pairs that are shown to be equal within their margin."""
        return [pair for pair, p in self.p.items() if p <= inference.ALPHA]


def equivalence(request: Request, rankings: Rankings) -> Equivalence:
    """Every pair with six blocks or more and a margin, once every planned run has ended."""
    if rankings.unfinished or not request.study.margin:
        return Equivalence()
    pairs: list[Pair] = []
    rows: list[Floats] = []
    margins: list[float] = []
    printed: dict[str, float] = {}
    for contest, ranking in rankings.contests:
        margin = request.study.margin_on(contest.title, contest.metric)
        if margin is None or ranking.barred:
            continue
        printed[contest.title] = margin
        for pair in np.flatnonzero(contest.n >= inference.blocks_needed()).tolist():
            a, b = contest.entries[contest.a[pair]], contest.entries[contest.b[pair]]
            pairs.append((contest.title, a, b))
            rows.append(contest.blocks[pair])
            margins.append(margin / (100 if contest.metric in request.percent else 1))
    if not pairs:
        return Equivalence(printed)
    p = tost(_stacked(rows), np.array(margins))
    return Equivalence(printed, dict(zip(pairs, p.tolist(), strict=True)))


def tost(differences: Floats, margins: Floats) -> Floats:
    """One-sided p of each pair, that it differs by its margin or more, corrected over all pairs."""
    below, above = differences - margins[:, None], differences + margins[:, None]
    p = max_t.max_t(np.concatenate([below, above]))
    right = np.concatenate([np.nansum(below, axis=1) < 0, np.nansum(above, axis=1) > 0])
    one_sided = np.where(right, p / 2, 1.0)
    return np.asarray(np.maximum(*np.split(one_sided, 2)))


def _stacked(rows: Sequence[Floats]) -> Floats:
    """The rows with as many blocks each; those of data sets with fewer end in NaN."""
    blocks = max(map(len, rows))
    return np.stack([np.pad(row, (0, blocks - len(row)), constant_values=np.nan) for row in rows])
