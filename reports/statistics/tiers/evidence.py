"""Tiers of evidence beside the verdicts of sign flips: Welch's t, equivalence, new examples."""

from collections.abc import Sequence
from dataclasses import dataclass

from lightning_bench.reports.report import Comparison
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import inference
from lightning_bench.reports.statistics.ranking import Rankings
from lightning_bench.reports.statistics.samples import Samples
from lightning_bench.reports.statistics.tiers.equivalence import Equivalence, equivalence
from lightning_bench.reports.statistics.tiers.welch import Indications, indications


@dataclass(frozen=True)
class Tiers:
    """What else may be said of the pairs by their seeds."""

    welch: Indications
    equivalence: Equivalence

    def annotated(self, comparisons: Sequence[Comparison]) -> list[Comparison]:
        """The comparisons with what each tier says of them; their verdicts stay."""
        return [pair.model_copy(update=self._said_of(pair)) for pair in comparisons]

    def _said_of(self, pair: Comparison) -> dict[str, object]:
        at = pair.dataset, pair.a, pair.b
        said: dict[str, object] = {}
        if found := self.welch.of_pair(*at):
            said |= {"p_welch": found[0], "by_welch": found[1]}
        if (p := self.equivalence.p.get(at)) is not None:
            margin = self.equivalence.margins[pair.dataset]
            said |= {"margin": margin, "p_equal": p, "equal": p <= inference.ALPHA}
        return said


def tiers(request: Request, samples: Samples, rankings: Rankings) -> Tiers:
    """Those that need no predictions."""
    return Tiers(indications(request, samples, rankings), equivalence(request, rankings))
