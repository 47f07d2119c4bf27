"""Planned looks at a study that grows: a group-sequential design, or evidence at every seed.

    seeds: {looks: [6, 9, 12]}                             # tested at 6 seeds, 9 and 12
    seeds: {looks: [6, 9, 12], alpha: [0.04, 0.005, 0.005]}
    seeds: {grow: 20}                                      # e-values at every seed, 20 at most

To test again with more seeds until something shows finds differences that are none. Planned looks
share the error of 5 %: each spends its alpha, and these add up to 0.05 at most, which holds
whatever the looks have in common (Bonferroni). E-values hold 5 % at every number of seeds.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationError

from lightning_bench.bench.spec import Settings
from lightning_bench.bench.study.page_errors import PageError, page_error

if TYPE_CHECKING:
    from lightning_bench.bench.study.study import Study

ALPHA = 0.05
#: What a look spends by default, of what the one before it spends: looks at 6, 9 and 12 seeds
#: spend 0.03125 (2 / 2⁶, the least that six seeds can show), 0.0117 and 0.0070.
_NEXT = 0.6


class Looks(Settings):
    """When a study that grows is tested: at planned numbers of seeds, or at each up to `grow`."""

    looks: list[Annotated[int, Field(ge=2, lt=1_000)]] = []
    alpha: Annotated[
        list[Annotated[float, Field(gt=0, le=ALPHA)]], Field(description="that each look spends")
    ] = []
    grow: Annotated[
        int | None, Field(ge=2, lt=1_000, description="seeds at most, tested by e-values at each")
    ] = None


def read(value: Any) -> tuple[list[int], Looks]:
    """The seeds of the last look and the looks, from what `seeds:` says; a PageError otherwise."""
    at = ("seeds",)
    try:
        looks = Looks.model_validate(value)
    except ValidationError as error:
        raise page_error(error, Looks, at) from None
    if (looks.grow is None) == (not looks.looks):
        raise PageError(at, "seeds are a number, a list, {looks: [6, 9, 12]} or {grow: 20}")
    if looks.grow is not None:
        if looks.alpha:
            raise PageError((*at, "alpha"), "e-values spend no alpha by look: leave alpha out")
        return list(range(looks.grow)), looks
    if sorted(set(looks.looks)) != looks.looks:
        raise PageError((*at, "looks"), "looks are numbers of seeds, each more than the one before")
    if looks.alpha and len(looks.alpha) != len(looks.looks):
        raise PageError((*at, "alpha"), f"{len(looks.looks)} looks spend {len(looks.looks)} alphas")
    if sum(looks.alpha) > ALPHA + 1e-9:
        raise PageError(
            (*at, "alpha"), f"the looks spend {sum(looks.alpha):.3g} in all, and have {ALPHA}"
        )
    return list(range(looks.looks[-1])), looks


def stops(study: "Study") -> list[int]:
    """The numbers of seeds at which a study may stop; its number of seeds where none is planned."""
    looks = study.looks
    if looks is None:
        return [len(study.seeds)]
    if looks.grow is None:
        return looks.looks
    first = min(5 if _directed(study) else 6, looks.grow)
    return list(range(first, looks.grow + 1))


def alphas(study: "Study") -> dict[int, float]:
    """What each look may spend, by its number of seeds."""
    looks = study.looks
    if looks is None or looks.grow is not None:
        return dict.fromkeys(stops(study), ALPHA)
    if looks.alpha:
        return dict(zip(looks.looks, looks.alpha, strict=True))
    return dict(zip(looks.looks, spent([_least_p(study, n) for n in looks.looks]), strict=True))


def by_seed(study: "Study") -> dict[int, dict[str, float]]:
    """The first planned look that each seed is part of: its number of seeds and its alpha."""
    if study.looks is None:
        return {}
    first: dict[int, dict[str, float]] = {}
    for n, alpha in alphas(study).items():
        for seed in range(n):
            first.setdefault(seed, {"seeds": n, "alpha": alpha})
    return first


def planned(study: "Study") -> str:
    """The looks of a study in words, and where it is now."""
    assert study.looks is not None
    now = f"now {len(study.seeds)} seeds"
    if study.looks.grow is not None:
        return f"looks: e-values at every seed up to {study.looks.grow}; {now}"
    spends = ", ".join(f"{n} (alpha {alpha:.3g})" for n, alpha in alphas(study).items())
    return f"looks: at seeds {spends}; {now}"


def spent(least: Sequence[float]) -> list[float]:
    """Default alphas of looks that can show these p at the least: 0.05 in all.

    Each spends six tenths of the one before it, or what it can show at the least; they add up to
    more than 0.05 where the looks are too many.
    """
    fixed: dict[int, float] = {}
    while True:
        left = max(ALPHA - sum(fixed.values()), 0.0)
        weights = {i: _NEXT**i for i in range(len(least)) if i not in fixed}
        shares = {i: left * weight / sum(weights.values()) for i, weight in weights.items()}
        lacking = {i: least[i] for i, share in shares.items() if share < least[i]}
        if not lacking:
            return [value for _, value in sorted((fixed | shares).items())]
        first = min(lacking)
        fixed[first] = lacking[first]


def breaches(study: "Study") -> Iterator[PageError]:
    """A look that could show nothing with what it spends."""
    if study.looks is None or study.looks.grow is not None:
        return
    may_spend = alphas(study)
    for n, alpha in may_spend.items():
        if (least := _least_p(study, n)) > min(alpha, ALPHA) + 1e-12:
            message = f"a look at {n} seeds can show p = {least:.3g} at the least, and has"
            yield PageError(("seeds", "looks"), f"{message} {min(alpha, ALPHA):.3g} to spend")
            return
    if sum(may_spend.values()) > ALPHA + 1e-9:
        yield PageError(
            ("seeds", "looks"),
            f"these looks need {sum(may_spend.values()):.3g} in all to show anything, and have"
            f" {ALPHA}: leave early ones out",
        )


def _directed(study: "Study") -> bool:
    """Whether all claims are one-sided."""
    return bool(study.claims) and all(claim.better for claim in study.claims)


def _least_p(study: "Study", seeds: int) -> float:
    """The smallest p that so many seeds can show: on a data set, or on the mean of several."""
    directed = _directed(study)
    if seeds < (5 if directed else 6):
        seeds *= len(study.data)  # blocks of the mean are the seeds of each data set
    return float(2.0 ** (-seeds if directed else 1 - seeds))
