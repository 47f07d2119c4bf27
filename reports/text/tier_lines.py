"""Findings beside the claims: Welch's t, practical equivalence, and claims on new examples."""

from collections.abc import Iterator

from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import inference
from lightning_bench.reports.statistics.ranking import Rankings
from lightning_bench.reports.statistics.tiers.evidence import Tiers
from lightning_bench.reports.statistics.tiers.new_examples import NewExamples
from lightning_bench.reports.statistics.tiers.pairs import either_way
from lightning_bench.reports.text.numbers import joined, p_value


def findings(request: Request, rankings: Rankings, tiers: Tiers, anew: NewExamples) -> list[str]:
    """Sentences to stand under the claims; none where a tier has nothing to say."""
    return [
        *_on_new_examples(rankings, anew),
        *_equal(request, tiers),
        *_by_welch(tiers),
    ]


def _on_new_examples(rankings: Rankings, anew: NewExamples) -> Iterator[str]:
    """Which of the leaders' claims hold beyond these test examples."""
    found = anew.p
    for contest, ranking in rankings.contests:
        leader = ranking.leader
        known = {
            entry: corrected
            for entry in contest.entries
            if leader and entry in ranking.beaten
            if (corrected := either_way(found, contest.title, leader, entry)) is not None
        }
        if not known:
            continue
        single = contest.title in rankings.columns
        where = f"On {contest.title}" if single else f"On the {contest.title}"
        holding = [entry for entry, p in known.items() if p <= inference.ALPHA]
        rest = [entry for entry in known if entry not in holding]
        how = (
            "seeds' and test examples' variances added, corrected by Holm over"
            f" {len(found)} {'pair' if len(found) == 1 else 'pairs'}"
        )
        if holding:
            p = _at_most([known[entry] for entry in holding])
            sentence = (
                f"{where}, and on examples drawn anew, {leader} is better than"
                f" {joined(holding)} ({how}: {p})."
            )
            if rest:
                sentence += f" Than {joined(rest)} it is shown on these test examples alone."
        else:
            sentence = (
                f"{where} the claims are of these test examples: none holds for examples drawn anew"
                f" ({how})."
            )
        yield sentence


def _equal(request: Request, tiers: Tiers) -> Iterator[str]:
    """Who is equal to whom within the page's margin."""
    found = tiers.equivalence
    if not found.margins:
        return
    if not found.p:
        yield (
            "No entries can be called equal within the page's margin: that needs"
            f" {inference.blocks_needed()} seeds or more of both, none of them failed."
        )
        return
    pairs = f", corrected over {len(found.p)} pairs at once" if len(found.p) > 1 else ""
    test = f"two one-sided sign-flip tests{pairs}"
    silent: dict[str, list[str]] = {}
    for dataset, margin in found.margins.items():
        here = [pair for pair in found.p if pair[0] == dataset]
        if not here:
            continue
        metric = request.metrics.get(dataset, next(iter(request.metrics.values())))[0]
        points = "point" if margin == 1 else "points"
        unit = f"{margin:g} {points if metric in request.percent else 'in ' + metric}"
        where = dataset if dataset in request.metrics else f"the {dataset}"
        equal = [pair for pair in here if pair in found.equal]
        if not equal:
            silent.setdefault(unit, []).append(where)
            continue
        p = _at_most([found.p[pair] for pair in equal])
        names = "; ".join(f"{a} and {b}" for _, a, b in equal)
        yield f"On {where} these are equal within {unit}: {names} ({test}: {p})."
    for unit, places in silent.items():
        yield f"On {joined(places)} no two entries are shown to be equal within {unit} ({test})."


def _by_welch(tiers: Tiers) -> Iterator[str]:
    """What so few seeds indicate, as long as their noise is near normal."""
    found = tiers.welch
    above = {dataset: tested.above() for dataset, tested in found.tested.items()}
    above = {dataset: (best, below) for dataset, (best, below) in above.items() if below}
    if not above:
        return
    p = _at_most([p for _, below in above.values() for p in below.values()])
    holm = f", corrected by Holm over {found.pairs} pairs" if found.pairs > 1 else ""
    shown = "; ".join(
        f"on {dataset} {best} above {joined(list(below))}"
        for dataset, (best, below) in above.items()
    )
    yield (
        f"By Welch's t{holm}, {p}: {shown}. This rests on near-normal noise, which"
        f" {found.seeds} seeds can't show: an indication, no claim."
    )


def _at_most(p: list[float]) -> str:
    """The largest of them, as one p or a bound."""
    return p_value(max(p)) if len(p) == 1 else p_value(max(p)).replace("=", "≤")
