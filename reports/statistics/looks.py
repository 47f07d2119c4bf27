"""Looks: how much of the 5 % a report may spend, after those that were taken before it."""

from dataclasses import dataclass

from lightning_bench.bench.store.look_ledger import LookTaken
from lightning_bench.bench.study import looks as planned
from lightning_bench.reports.request import Request


@dataclass(frozen=True)
class Allowance:
    """What this report may spend, and the looks before it that count."""

    alpha: float
    e_values: bool = False
    second: LookTaken | None = None  # an earlier look has spent what there was
    renamed: LookTaken | None = None  # the comparisons were changed after that look
    counted: tuple[LookTaken, ...] = ()


def allowance(request: Request) -> Allowance:
    """The alpha of this report, of its study's plan and of what earlier looks left.

    Looks at the same entries with some of the same runs share one error of 5 %. Comparisons that
    were named only after such a look, or changed after it, were chosen with results in sight.
    """
    study, this = request.study, request.this_look
    e_values = study.looks is not None and study.looks.grow is not None
    alpha = planned.alphas(study).get(len(study.seeds), 0.0)
    if this is None:
        return Allowance(alpha, e_values)
    again = tuple(
        look
        for look in request.earlier_looks
        if look.study == this.study and this.compares_again(look)
    )
    for look in again:
        if look.family != this.family and (look.named or this.named):
            return Allowance(0.0, e_values, renamed=look, counted=again)
    spent: dict[tuple[int, ...], LookTaken] = {}
    for look in again:
        same_seeds = sorted(look.seeds) == sorted(this.seeds)
        if look.method != this.method or (not same_seeds and not e_values):
            spent.setdefault(tuple(sorted(look.seeds)), look)
    left = planned.ALPHA - sum(look.alpha for look in spent.values())
    if left < alpha - 1e-9 and spent:
        alpha = left if left >= 2.0 ** -len(study.seeds) else 0.0
    second = None if alpha else next(iter(spent.values()), None)
    return Allowance(alpha, e_values, second=second, counted=again)
