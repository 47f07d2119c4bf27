"""Claims that would hold on test examples drawn anew: seeds' and examples' variances added.

With more seeds the claim about *these* test examples becomes ever surer, and with it any
difference that they happen to have: of two entries that are equal in the population, one is called
better in up to 45 % of studies. Here the error of a difference has both parts,
√(s²_seeds / n + s²_examples / N), the second by the bootstrap over the examples. A claim of the
sign flips holds on new examples where |d| over that error is large for all pairs at once, by Holm.
The double test is needed: sign flips carry what few seeds can, the normal p what N examples can.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lightning_bench.reports.report import Comparison, OnExamples
from lightning_bench.reports.statistics import inference
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.statistics.ranking import Rankings
from lightning_bench.reports.statistics.tiers.holm import holm
from lightning_bench.reports.statistics.tiers.pairs import Pair


@dataclass(frozen=True)
class NewExamples:
    """Of each pair with predictions the corrected p that both variances together give."""

    p: dict[Pair, float] = field(default_factory=dict)

    def annotated(self, comparisons: Sequence[Comparison]) -> list[Comparison]:
        """The comparisons whose claims hold on new examples, or don't, are told so."""
        return [pair.model_copy(update=self._said_of(pair)) for pair in comparisons]

    def _said_of(self, pair: Comparison) -> dict[str, object]:
        p = self.p.get((pair.dataset, pair.a, pair.b))
        if p is None or pair.verdict == "undecided":
            return {}
        return {"p_new_examples": p, "on_new_examples": p <= inference.ALPHA}


def new_examples(rankings: Rankings, compared: Sequence[OnExamples]) -> NewExamples:
    """All pairs whose per-example predictions are known, as one family."""
    errors = {(pair.dataset, pair.a, pair.b): pair.sd for pair in compared}
    datasets = list(rankings.columns)
    p: dict[Pair, float] = {}
    for contest, _ in rankings.contests:
        titles = [contest.title] if contest.title in rankings.columns else datasets
        for row, a, b in zip(contest.blocks, contest.a.tolist(), contest.b.tolist(), strict=True):
            names = contest.entries[a], contest.entries[b]
            parts = [errors.get((title, *names)) for title in titles]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                error = math.sqrt(math.fsum(part**2 for part in known)) / len(parts)
                p[contest.title, *names] = two_sided_p(row[~np.isnan(row)], error)
    if not p:
        return NewExamples()
    return NewExamples(dict(zip(p, holm(np.array([*p.values()])).tolist(), strict=True)))


def two_sided_p(differences: Floats, error: float) -> float:
    """Normal p of a mean over blocks, whose examples have a standard error of their own."""
    from scipy.special import ndtr

    mean = math.fsum(differences.tolist()) / len(differences)
    both = math.hypot(float(differences.std(ddof=1)) / math.sqrt(len(differences)), error)
    if both <= 1e-12:  # equal counts, which differ in their last bits
        return 1.0 if abs(mean) <= 1e-12 else 0.0
    return 2 * float(ndtr(-abs(mean) / both))
