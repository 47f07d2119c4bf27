"""Which entries may be called better: paired tests of all pairs at once, one family of claims.

The family is all pairs of entries on all data sets of the report (primary metrics) and on their
mean, so the chance that a report of equal entries holds any "better than" is at most 5 %. Where the
page names claims, these are the family, and the other pairs are described alone. It is tested when
every run of a planned look has ended, with what that look may spend of the 5 % (`looks`), and the
verdict of an earlier look stays: to look again with each new run, and stop when something shows,
would be wrong far more often.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from lightning_bench.bench.store.trial import with_fewer_trials
from lightning_bench.bench.study.claims import named_pairs
from lightning_bench.bench.study.looks import alphas
from lightning_bench.reports.report import Comparison, Look, Verdict
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import inference
from lightning_bench.reports.statistics.contests import Contest
from lightning_bench.reports.statistics.family import (
    Family,
    decide,
    p_alone,
    past_decisions,
    unfinished,
)
from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.statistics.looks import Allowance, allowance
from lightning_bench.reports.statistics.samples import Samples

# Pairs are quadratic in the entries: beyond this many the report keeps only those with a leader.
KEEP_PAIRS = 300
TEST = "step-down max-T over sign flips"
E_VALUES = "e-values of sign bets, closed testing by averages"


@dataclass
class Ranking:
    """What the tests allow to be said about one data set, or the mean over all."""

    seeds: int = 0
    blocks: int = 0  # of the leader's pairs: seeds, or seeds × data sets
    barred: bool = False  # the tuning budgets were not equal: no claim
    possible: bool = False
    leader: str | None = None
    tied: set[str] = field(default_factory=set)
    beaten: dict[str, float] = field(default_factory=dict)
    earlier: dict[str, int] = field(default_factory=dict)  # beaten at a look of so many seeds
    unranked: dict[str, str] = field(default_factory=dict)
    detectable: float | None = None


@dataclass
class Rankings:
    """All data sets' rankings, that of their mean, the pairs behind them, and the family."""

    pairs: int
    columns: dict[str, Ranking]
    mean: Ranking | None
    comparisons: list[Comparison]
    unfinished: bool  # runs are still to come: nothing is claimed yet
    look: Look
    allowance: Allowance
    contests: list[tuple[Contest, Ranking]] = field(default_factory=list)  # and of the mean

    @property
    def possible(self) -> bool:
        """Whether any data set has seeds enough for a claim."""
        return any(ranking.possible for ranking in self.columns.values())

    @property
    def test(self) -> str:
        """The test that verdicts rest on."""
        return E_VALUES if self.look.method == "e-values" else TEST


def rank(request: Request, samples: Samples) -> Rankings:
    """Test every pair of entries on every data set and find each contest's top tie group."""
    unequal = with_fewer_trials(request.searches)
    to_come = unfinished(request, samples)
    allowed = allowance(request)
    named = named_pairs(request.study)
    columns = {dataset: Ranking(barred=dataset in unequal) for dataset in request.metrics}
    family = Family.of(request, samples, allowed, named)
    overall = Ranking(barred=bool(unequal)) if family.mean else None
    ranked = [*zip(family.contests, columns.values(), strict=True)]
    if family.mean and overall:
        ranked.append((family.mean, overall))
    past = past_decisions(request, samples, allowed, named)
    for contest, ranking in ranked:
        ranking.unranked.update(contest.unranked)
        if not ranking.barred:
            alpha = 0.0 if to_come else allowed.alpha
            decide(contest, alpha, request, past)
        _conclude(ranking, contest, request, family, unfinished=to_come)
    look = Look(
        seeds=len(request.study.seeds),
        alpha=allowed.alpha,
        planned=list(alphas(request.study)) if request.study.looks else [],
        method="e-values" if allowed.e_values else "max-T",
        named=bool(named),
        pairs=family.pairs,
        undecided=sum(
            int(contest.tested.sum()) - len(contest.decided)
            for contest, ranking in ranked
            if not ranking.barred
        ),
        possible=not to_come and family.possible,
    )
    comparisons = [
        comparison
        for contest, ranking in ranked
        for comparison in _comparisons(request, contest, ranking, family)
    ]
    return Rankings(family.pairs, columns, overall, comparisons, to_come, look, allowed, ranked)


def _conclude(
    ranking: Ranking, contest: Contest, request: Request, family: Family, *, unfinished: bool
) -> None:
    """Find the leader, who is beaten by it, and who can't be told from it.

    Named claims leave no tie group: not all of its pairs were tested.
    """
    runs = np.count_nonzero(~np.isnan(contest.scores), axis=1)
    blocks = runs * contest.blocks_a_seed
    needed = family.needed
    ranking.seeds = int(runs.max(initial=0))
    ranking.blocks = int(contest.n[contest.tested].max(initial=0))
    if family.named:
        return
    ranked = np.flatnonzero(blocks >= needed)
    for place in np.flatnonzero(blocks < needed):
        ranking.unranked[contest.entries[place]] = "too few seeds for a claim"
    ranking.possible = len(ranked) > 1 and not ranking.barred and not unfinished
    if not ranking.possible:
        return
    sign = 1 if request.higher_better(contest.metric) else -1
    leader = int(ranked[_leader(sign * contest.scores[ranked])])
    ranking.leader = contest.entries[leader]
    ranking.tied.add(ranking.leader)
    mine = contest.with_leader(leader)
    ranking.blocks = int(contest.n[mine].max(initial=0))
    spread = float(np.median(np.nanstd(contest.blocks, axis=1, ddof=1)))
    if not family.allowed.e_values:
        ranking.detectable = spread * inference.detectable_difference(
            ranking.blocks, family.pairs, family.allowed.alpha
        )
    met = {int(contest.a[pair] + contest.b[pair] - leader): int(pair) for pair in mine}
    for place in ranked[ranked != leader]:
        entry, pair = contest.entries[place], met.get(int(place))
        decision = None if pair is None else contest.decided.get(pair)
        if pair is None or contest.n[pair] < needed:
            ranking.unranked[entry] = f"too few seeds in common with {ranking.leader}"
        elif decision and decision.better == ranking.leader:
            ranking.beaten[entry] = decision.p
            if decision.seeds != len(request.study.seeds):
                ranking.earlier[entry] = decision.seeds
        else:
            ranking.tied.add(entry)


def _leader(scores: Floats) -> int:
    """The best mean over the seeds that all have, or else over each entry's own."""
    common = scores[:, ~np.isnan(scores).any(axis=0)]
    rows = common if common.size else [row[~np.isnan(row)] for row in scores]
    means = [math.fsum(row.tolist()) / len(row) for row in rows]
    return means.index(max(means))


def _comparisons(
    request: Request, contest: Contest, ranking: Ranking, family: Family
) -> Iterator[Comparison]:
    """The pairs to report: all, or the named or the leader's where there are too many."""
    wanted = np.arange(len(contest.p))
    if (family.every if family.named else family.pairs) > KEEP_PAIRS:
        leader = contest.entries.index(ranking.leader) if ranking.leader else -1
        named = np.flatnonzero(contest.tested)
        wanted = named if family.named else contest.with_leader(leader)
    differences, blocks = contest.differences, contest.n
    for pair, p in zip(wanted.tolist(), p_alone(contest, wanted).tolist(), strict=True):
        row = differences[pair]
        summary = inference.summarise(row[~np.isnan(row)].tolist())
        a, b = contest.names(pair)
        decision = contest.decided.get(pair)
        verdict: Verdict = "undecided"
        if decision:
            verdict = "better" if decision.better == a else "worse"
        side, half = int(contest.sides[pair]), float(contest.half_widths[pair])
        low, high = _of_all(summary.mean, half, side, decided=bool(decision))
        tested = bool(contest.tested[pair])
        earlier = decision is not None and decision.seeds != len(request.study.seeds)
        yield Comparison(
            dataset=contest.title,
            metric=contest.metric,
            a=a,
            b=b,
            n=summary.n,
            blocks=int(blocks[pair]),
            difference=summary.mean,
            low=summary.low,
            high=summary.high,
            low_of_all=low,
            high_of_all=high,
            test=E_VALUES if family.allowed.e_values and tested else TEST,
            p=p,
            p_adjusted=(decision.p if decision else float(contest.p_adjusted[pair]))
            if tested
            else None,
            verdict=verdict,
            expected="better" if side else "",
            decided_at=decision.seeds if decision and earlier else None,
            seeds=_seeds_to_show(contest, pair, family),
        )


def _seeds_to_show(contest: Contest, pair: int, family: Family) -> int | None:
    """Seeds with which a difference as large as this pair's would be shown."""
    row = contest.blocks[pair][~np.isnan(contest.blocks[pair])]
    if not contest.tested[pair] or row.mean() * contest.sides[pair] < 0:
        return None
    blocks = inference.seeds_to_show(
        float(row.mean()), float(row.std(ddof=1)), family.pairs, one_sided=family.one_sided
    )
    return None if blocks is None else math.ceil(blocks / contest.blocks_a_seed)


def _of_all(
    mean: float, half: float, side: int, *, decided: bool
) -> tuple[float | None, float | None]:
    """The interval that holds for all pairs at once, open where the seeds can't bound it.

    It agrees with the verdict: the step-down test claims a little more than its single step, from
    which the interval is. With a side it has one end.
    """
    if not math.isfinite(half):
        return None, None
    low, high = mean - half, mean + half
    if not decided:
        low, high = min(low, 0.0), max(high, 0.0)
    elif mean > 0:
        low = max(low, 0.0)
    else:
        high = min(high, 0.0)
    return (None if side < 0 else low), (None if side > 0 else high)
