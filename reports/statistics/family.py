"""The family of claims: all contests' pairs tested together, at one look, and earlier verdicts.

Blocks are seeds, with one sign for all data sets. Where there are too few seeds for any claim on a
single data set, the mean over the data sets is the family, and its blocks are the seeds of each
data set: which of the two it is depends on the plan alone, not on results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lightning_bench.bench.study.claims import NamedPair
from lightning_bench.bench.study.looks import alphas
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import e_values, inference, max_t
from lightning_bench.reports.statistics.contests import (
    Contest,
    Decision,
    Indices,
    compete,
    compete_on_mean,
)
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.statistics.looks import Allowance
from lightning_bench.reports.statistics.samples import Samples, of_seeds

#: Verdicts by data set and the two entries in the alphabet's order.
Decisions = Mapping[tuple[str, str, str], Decision]


@dataclass
class Family:
    """All contests of a report, tested together."""

    contests: list[Contest]
    mean: Contest | None
    tested: list[Contest]  # those whose pairs are corrected for each other
    allowed: Allowance
    one_sided: bool  # all tested pairs are
    named: bool

    @classmethod
    def of(
        cls,
        request: Request,
        samples: Samples,
        allowed: Allowance,
        named: Sequence[NamedPair],
        *,
        verdicts_alone: bool = False,
    ) -> "Family":
        """The contests on each data set and on the mean, tested at what is allowed.

        For `verdicts_alone` there are neither intervals nor the p of single pairs.
        """
        seeds = sorted({run.seed for sample in samples.values() for run in sample.runs})
        contests = [compete(request, samples, name, seeds, named) for name in request.metrics]
        one_sided = bool(named) and all(pair.directed for pair in named)
        needed = _needed(allowed, one_sided=one_sided)
        few_seeds = all((contest.n < needed).all() for contest in contests)
        mean = compete_on_mean(request, contests, named, blocks_by_dataset=few_seeds)
        family, others = [*contests, *([mean] if mean else [])], list[Contest]()
        if mean and few_seeds:
            family, others = [mean], contests
        for together in filter(None, (family, others)):
            _test(together, allowed)
            if not verdicts_alone:
                _describe(together, allowed)
        return cls(contests, mean, family, allowed, one_sided, bool(named))

    @property
    def pairs(self) -> int:
        """How many are corrected for each other."""
        return sum(int(contest.tested.sum()) for contest in self.tested)

    @property
    def every(self) -> int:
        """How many pairs there are, in the family or not."""
        return sum(len(contest.p) for contest in self.contests) + (
            len(self.mean.p) if self.mean else 0
        )

    @property
    def needed(self) -> int:
        """Blocks from which on a pair can be claimed."""
        return _needed(self.allowed, one_sided=self.one_sided)

    @property
    def possible(self) -> bool:
        """Whether any pair has blocks enough for a claim."""
        return any((c.n[c.tested] >= self.needed).any() for c in self.tested)


def _needed(allowed: Allowance, *, one_sided: bool) -> int:
    alpha = inference.ALPHA if allowed.e_values and allowed.alpha else allowed.alpha
    return inference.blocks_needed(alpha, one_sided=one_sided)


def past_decisions(
    request: Request, samples: Samples, allowed: Allowance, named: Sequence[NamedPair]
) -> Decisions:
    """What earlier looks decided.

    Planned looks are taken again, of the runs that they had; of others the ledger knows. What was
    decided by runs whose code has changed since is void.
    """
    found: dict[tuple[str, str, str], Decision] = {}
    this = request.this_look
    for look in sorted(allowed.counted, key=lambda look: look.n):
        for claim in look.claimed:
            titles = [claim.dataset] if claim.dataset in request.metrics else [*request.metrics]
            same = this and all(
                look.of_same_runs(this, title, entry)
                for title in titles
                for entry in (claim.a, claim.b)
            )
            if same and sorted(look.seeds) != sorted(request.study.seeds):
                first, second = sorted((claim.a, claim.b))
                decision = Decision(claim.a, claim.p, look.n)
                found.setdefault((claim.dataset, first, second), decision)
    if request.study.looks is None or not allowed.alpha:
        return found
    for number, alpha in alphas(request.study).items():
        if number >= len(request.study.seeds):
            break
        earlier = of_seeds(samples, request.study.seeds[:number])
        if unfinished(request, earlier):
            break
        then = Allowance(alpha, allowed.e_values)
        family = Family.of(request, earlier, then, named, verdicts_alone=True)
        for contest in family.tested:
            decide(contest, alpha, request, {}, seeds=number)
            for pair, decision in contest.decided.items():
                first, second = sorted(contest.names(pair))
                found.setdefault((contest.title, first, second), decision)
    return found


def decide(
    contest: Contest,
    alpha: float,
    request: Request,
    past: Decisions,
    seeds: int | None = None,
) -> None:
    """The verdict of every tested pair that has one: of an earlier look, else of this."""
    sign = 1 if request.higher_better(contest.metric) else -1
    shown = contest.p_adjusted <= (alpha + 1e-12 if alpha else -1)
    for pair in np.flatnonzero(contest.tested & (shown | bool(past))).tolist():
        a, b = contest.names(pair)
        first, second = sorted((a, b))
        if earlier := past.get((contest.title, first, second)):
            contest.decided[pair] = earlier
        elif shown[pair]:
            difference = sign * float(np.nansum(contest.differences[pair]))
            p, better = float(contest.p_adjusted[pair]), a if difference > 0 else b
            contest.decided[pair] = Decision(better, p, seeds or len(request.study.seeds))


def unfinished(request: Request, samples: Samples) -> bool:
    """Whether a planned run has not ended yet, or its search has not."""
    to_come = {"missing", "running", "stale"}
    return any(not ledger.closed for ledger in request.searches) or any(
        run.state in to_come for sample in samples.values() for run in sample.runs
    )


def _test(family: Sequence[Contest], allowed: Allowance) -> None:
    """The p of each pair of the family, corrected over all of them; NaN outside it."""
    blocks, sides = _together(family)
    if allowed.e_values:
        up, down = (way[:, -1:] for way in e_values.directions(blocks))
        e = e_values.mixed(up, down, sides).ravel()
        adjusted = 1 / np.maximum(e_values.closed_by_averages(e), 1)
        # Where most seeds lean the other way than their mean, neither is called better.
        adjusted[(up - down).ravel() * np.nansum(blocks, axis=1) <= 0] = 1.0
    else:
        adjusted = max_t.max_t(blocks, sides) if len(blocks) else np.empty(0)
    for contest, p in zip(family, _apart(family, adjusted), strict=True):
        contest.p_adjusted = np.full(len(contest.a), np.nan)
        contest.p_adjusted[contest.tested] = p


def _describe(family: Sequence[Contest], allowed: Allowance) -> None:
    """The intervals that hold for the family at once; with e-values the p of its pairs."""
    blocks, sides = _together(family)
    for contest in family:
        contest.half_widths = np.full(len(contest.a), np.inf)
        contest.p = np.full(len(contest.a), np.nan)
    if allowed.e_values:
        e = e_values.e_values(blocks, sides)[:, -1:].ravel()
        for contest, p in zip(family, _apart(family, 1 / np.maximum(e, 1)), strict=True):
            contest.p[contest.tested] = p
    elif len(blocks):
        alpha = allowed.alpha or inference.ALPHA
        halves = max_t.simultaneous_half_widths(blocks, alpha, sides)
        for contest, widths in zip(family, _apart(family, halves), strict=True):
            contest.half_widths[contest.tested] = widths


def p_alone(contest: Contest, pairs: Indices) -> Floats:
    """The p of these pairs, each alone: by e-values where they tell it, else by sign flips."""
    p = contest.p.copy()
    flipped = np.flatnonzero(np.isnan(p))
    if len(flipped):
        sides = contest.sides[flipped]
        asked = np.flatnonzero(np.isin(flipped, pairs))
        p[flipped] = max_t.sign_flip(contest.blocks[flipped], sides if sides.any() else None, asked)
    return np.asarray(p[pairs])


def _together(family: Sequence[Contest]) -> tuple[Floats, max_t.Sides]:
    """The differences of all tested pairs, and their sides where any has one."""
    blocks = np.concatenate([contest.blocks[contest.tested] for contest in family])
    sides = np.concatenate([contest.sides[contest.tested] for contest in family])
    return blocks, sides if sides.any() else None


def _apart(family: Sequence[Contest], values: Floats) -> list[Floats]:
    """What was found of all tested pairs, by contest."""
    ends = np.cumsum([int(contest.tested.sum()) for contest in family])
    return np.split(values, ends[:-1])
