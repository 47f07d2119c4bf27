"""Claims that a page names, and looks at a study that grows, in sentences."""

from collections.abc import Iterator, Mapping

from lightning_bench.bench.store.look_ledger import LookTaken
from lightning_bench.common.messages import ranges
from lightning_bench.reports.report import Comparison, Look
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import inference
from lightning_bench.reports.statistics.ranking import Rankings
from lightning_bench.reports.text.numbers import joined, p_value


def of_named_claims(
    request: Request, rankings: Rankings, examples: Mapping[str, str]
) -> Iterator[str]:
    """What became of the comparisons that the page named before, a sentence a data set."""
    tested = [pair for pair in rankings.comparisons if not pair.described]
    look = rankings.look
    if not look.possible:
        directed = bool(tested) and all(pair.expected for pair in tested)
        needed = inference.blocks_needed(look.alpha, one_sided=directed)
        why = f"that needs at least {needed} seeds of both entries, and no failed run"
        yield f"None of the comparisons that the page names can be claimed: {why}."
        return
    for title in dict.fromkeys(pair.dataset for pair in tested):
        here = [pair for pair in tested if pair.dataset == title]
        where = title if title in request.metrics else f"the {title}"
        metric = here[0].metric.replace("_", " ")
        shown = [_better(pair) for pair in here if pair.verdict != "undecided"]
        open_ = [
            f"{pair.a} better than {pair.b}" if pair.expected else f"{pair.a} and {pair.b}"
            for pair in here
            if pair.verdict == "undecided"
        ]
        parts = [joined(shown)] if shown else []
        parts += [f"undecided: {', '.join(open_)}"] if open_ else []
        yield (
            f"On {where} ({metric}{examples.get(title, '')}), of what the page named before:"
            f" {'; '.join(parts)}."
        )
    one_sided = sum(bool(pair.expected) for pair in tested)
    sides = {0: "two-sided", len(tested): "one-sided"}.get(one_sided, f"{one_sided} one-sided")
    described = sum(pair.described for pair in rankings.comparisons)
    family = "1 comparison" if look.pairs == 1 else f"{look.pairs} comparisons"
    sentence = (
        f"The family is the {family} that the page names ({rankings.test}, corrected over them at"
        f" once, {sides}), at {_percent(look.alpha)}{'' if look.planned else ' in all'}."
    )
    if described:
        others = f"{described} pairs are" if described > 1 else "pair is"
        them = "them" if described > 1 else "it"
        sentence += f" The other {others} described, and nothing is claimed of {them}."
    if len(tested) < look.pairs:
        sentence += f" Of the family {look.pairs - len(tested)} are too many to list."
    yield sentence


def of_looks(request: Request, rankings: Rankings) -> Iterator[str]:
    """Which look this is, what it spends of the 5 %, and what earlier looks decided."""
    look, allowed, this = rankings.look, rankings.allowance, request.this_look
    if allowed.renamed:
        yield (
            "The comparisons are not those of the look at"
            f" {_when(allowed.renamed)}: they were chosen with results in sight, so nothing new is"
            " claimed of these runs. With seeds that nobody has seen they can be tested."
        )
    elif allowed.second:
        yield (
            f"A second look; alpha left: 0. The look at {_when(allowed.second)} has spent the 5 %,"
            " so nothing new is claimed. Looks that are planned share it: seeds: {looks:"
            f" [{min(allowed.second.n, look.seeds)}, {max(allowed.second.n, look.seeds)}]}}."
        )
    elif request.study.looks:
        yield _planned(look, unfinished=rankings.unfinished)
    yield from of_void_looks(request)
    if this:
        yield from _other_looks(request, this)
    stands = [_better(pair) + f" on {pair.dataset}" for pair in rankings.comparisons
              if pair.decided_at]  # fmt: skip
    if stands and (rankings.unfinished or not look.alpha):
        yield f"Decided at an earlier look, and still standing: {'; '.join(stands)}."


def of_void_looks(request: Request) -> Iterator[str]:
    """Which looks were at results of code that has changed since, and decide nothing any more."""
    this = request.this_look
    for other in request.earlier_looks if this else ():
        if (
            this
            and this.compares_again(other)
            and other.study == this.study
            and other.outdated(this)
        ):
            again = sorted(other.seeds) == sorted(this.seeds)
            spent = "it is not counted here" if again else "what it spent stays spent"
            yield (
                f"The look at {_when(other)} was of other code: what it decided of runs whose code"
                f" has changed since is void; {spent}."
            )


def _other_looks(request: Request, this: LookTaken) -> Iterator[str]:
    studies = {look.study for look in request.earlier_looks} - {this.study}
    if studies:
        yield (
            f"Some of these runs were compared in another study, too, which spends a 5 % of its"
            f" own: {joined(sorted(studies))}."
        )
    for other in request.earlier_looks:
        if other.study != this.study:
            continue
        same_entries = any(
            len(set(mine.values()) & set(theirs.values())) > 1
            for mine in this.cells.values()
            for theirs in other.cells.values()
        )
        if this.compares_again(other):
            if other.outdated(this):
                continue
            if sorted(other.seeds) == sorted(this.seeds) and other.family == this.family:
                yield (
                    f"The runs were made anew since the look at {_when(other)}, whose results were"
                    " others; it is not counted here."
                )
            elif other.family != this.family and not (other.named or this.named):
                others = f"other entries: {joined(other.entries)}"
                if set(other.entries) == set(this.entries):
                    others = "the same entries, with other settings or other claims"
                yield f"The look at {_when(other)} had {others}."
        elif same_entries:
            yield (
                f"The look at {_when(other)} had seeds {ranges(other.seeds)}, of which none is"
                " here; it is not counted."
            )


def _planned(look: Look, *, unfinished: bool) -> str:
    most = look.planned[-1]
    if look.method == "e-values":
        sentence = (
            f"A study that grows, {look.seeds} of at most {most} seeds: e-values hold 5 % at every"
            " number of seeds. The price: a seed or two more than planned looks where differences"
            " are large, many more where they are near the SD over seeds."
        )
        if unfinished:
            return f"{sentence} No claim before all runs of these seeds have ended."
    else:
        place = look.planned.index(look.seeds) + 1 if look.seeds in look.planned else 0
        if not place:
            return (
                f"No claim between looks, which are at {joined([*map(str, look.planned)])} seeds."
            )
        sentence = f"Look {place} of {len(look.planned)}, at {look.seeds} seeds"
        if unfinished:
            return (
                f"No claim between looks: look {place} of {len(look.planned)} is at"
                f" {look.seeds} seeds, of which runs are to come."
            )
        sentence += f", spends {look.alpha:.4g} of the 5 %."
    if not look.undecided:
        return f"{sentence} All comparisons are decided: no more seeds are needed."
    later = [seeds for seeds in look.planned if seeds > look.seeds]
    are = "is" if look.undecided == 1 else "are"
    after = f"the next look is at {later[0]} seeds" if later else "this was the last look"
    return f"{sentence} {look.undecided} of the comparisons {are} undecided; {after}."


def _better(pair: Comparison) -> str:
    winner, loser = (pair.a, pair.b) if pair.verdict == "better" else (pair.b, pair.a)
    as_of = f" at {pair.decided_at} seeds" if pair.decided_at else ""
    return f"{winner} is better than {loser} ({p_value(pair.p_adjusted or 0)}{as_of})"


def _when(look: LookTaken) -> str:
    return f"{look.n} seeds ({look.taken[:10]}, looks.jsonl)"


def _percent(alpha: float) -> str:
    return f"{100 * alpha:.4g} %"
