"""Claims that a page names: the comparisons that are tested first, as a family of their own.

    claims:
      - [ResNet, MLP]                            # either may be the better one (two-sided)
      - ResNet > ViT                             # ResNet is the better one (one-sided)
      - {better: LeNet, than: MLP, on: digits}   # on one data set alone
      - {pair: [gMLP, LSTM], on: mean}           # on the mean over the data sets alone
      - baseline: MLP                            # every other entry against it

`>` reads "better than", also of a metric of which less is better. A pair without `on` is tested on
every data set that both meet, and on their mean.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from lightning_bench.bench.spec import Settings
from lightning_bench.bench.study.page_errors import PageError
from lightning_bench.common.messages import nearest

if TYPE_CHECKING:
    from lightning_bench.bench.study.study import Study

#: What `on:` calls the mean over the data sets.
MEAN = "mean"
_FORMS = "a claim is [A, B], A > B, {better: A, than: B, on: DATA} or {baseline: A}"


class Claim(Settings):
    """One comparison of a page, or a baseline that stands for one with every other entry."""

    pair: list[str] = []
    better: str = ""
    than: str = ""
    baseline: str = ""
    on: str = ""

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, value: Any) -> Any:
        """`[A, B]` and `A > B` are short for mappings."""
        if isinstance(value, list):
            value = {"pair": value}
        if isinstance(value, str):
            sides = [side.strip() for side in value.split(" > ")]
            if len(sides) != 2 or not all(sides):
                raise ValueError(_FORMS)
            value = {"better": sides[0], "than": sides[1]}
        if not isinstance(value, dict):
            raise ValueError(_FORMS)
        given = value.keys() - {"on"}
        known = given <= cls.model_fields.keys()  # an unknown key has a message of its own
        if known and given not in ({"pair"}, {"better", "than"}, {"baseline"}):
            raise ValueError(_FORMS)
        if "pair" in value and (not isinstance(value["pair"], list) or len(value["pair"]) != 2):
            raise ValueError("a pair is of two entries")
        return value


@dataclass(frozen=True)
class NamedPair:
    """Two entries to be compared; directed where `a` is named as the better one."""

    a: str
    b: str
    directed: bool
    on: str  # a data set's title, MEAN, or nothing for all

    def stands_for(self, title: str | None) -> bool:
        """Whether it is tested on a data set, or on the mean where there is no title."""
        return self.on in {"", MEAN if title is None else title}


def spelled_out(value: Any) -> Any:
    """`claims: {baseline: A}` is short for a list of that alone."""
    return [value] if isinstance(value, dict | str) else value


def named_pairs(study: "Study") -> list[NamedPair]:
    """The pairs that a page names, a baseline's spelled out in the page's order of entries."""
    return [pair for claim in study.claims for pair in _pairs(study, claim)]


def describe(study: "Study") -> list[str]:
    """The named pairs in words, each as `A > B`, `[A, B]` or `[A, B] on digits`."""
    return [
        (f"{pair.a} > {pair.b}" if pair.directed else f"[{pair.a}, {pair.b}]")
        + (f" on {pair.on}" if pair.on else "")
        for pair in named_pairs(study)
    ]


def breaches(study: "Study") -> Iterator[PageError]:
    """What can't be claimed: entries that are none, a pair twice, or of what never meets."""
    if study.claims and not study.seeds:
        yield PageError(("claims",), "a study without seeds trains nothing to claim")
    if study.claims and len(study.entries) < 2:
        yield PageError(("claims",), "one entry alone: there is nothing to claim it better than")
        return
    seen: list[NamedPair] = []
    for i, claim in enumerate(study.claims):
        at = ("claims", i)
        names = [name for name in (*claim.pair, claim.better, claim.than, claim.baseline) if name]
        unknown = [name for name in names if name not in study.entries]
        for name in unknown:
            yield PageError(at, f"no entry is called {name!r}{nearest(name, study.entries)}")
        if unknown:
            continue
        if len(set(names)) < len(names):
            yield PageError(at, f"{names[0]!r} can't be compared with itself")
            continue
        yield from _misplaced(study, claim, i)
        for pair in _pairs(study, claim):
            for other in seen:
                same = {pair.a, pair.b} == {other.a, other.b}
                if same and (pair.on == other.on or not pair.on or not other.on):
                    yield PageError(at, f"{pair.a} and {pair.b} are named twice")
            seen.append(pair)


def _pairs(study: "Study", claim: Claim) -> list[NamedPair]:
    if not claim.baseline:
        a, b = claim.pair or (claim.better, claim.than)
        return [NamedPair(a, b, bool(claim.better), claim.on)]
    meets = study.resolved[claim.baseline].data.keys()
    return [
        NamedPair(label, claim.baseline, False, claim.on)
        for label, entry in study.resolved.items()
        if label != claim.baseline and meets & entry.data.keys()
    ]


def _misplaced(study: "Study", claim: Claim, place: int) -> Iterator[PageError]:
    """A pair without a data set in common, or named on one that it does not meet."""
    at = ("claims", place)
    if claim.on == MEAN and len(study.datasets) < 2:
        yield PageError(at, f"on: {MEAN} is of several data sets, and here is one")
    elif claim.on and claim.on != MEAN and claim.on not in study.datasets:
        hint = nearest(claim.on, [*study.datasets, MEAN])
        yield PageError(at, f"{claim.on} is not in the study{hint}")
    else:
        wanted = study.datasets.keys() if claim.on in {"", MEAN} else {claim.on}
        pairs = _pairs(study, claim)
        for pair in pairs:
            met = study.resolved[pair.a].data.keys() & study.resolved[pair.b].data.keys()
            if not wanted & met:
                where = f" on {claim.on}" if claim.on else ""
                yield PageError(at, f"{pair.a} and {pair.b} never meet{where}")
        if not pairs:
            yield PageError(at, f"nothing meets {claim.baseline}")
