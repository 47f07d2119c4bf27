"""Findings: the claims that the tests allow, in sentences, and why there are no more."""

import math
from collections.abc import Mapping, Sequence

from lightning_bench.reports.report import Column, OnExamples, Table
from lightning_bench.reports.request import ReportedRun, Request
from lightning_bench.reports.statistics import contests, inference, per_example
from lightning_bench.reports.statistics.ranking import Ranking, Rankings
from lightning_bench.reports.statistics.samples import Samples
from lightning_bench.reports.text import claim_lines
from lightning_bench.reports.text.numbers import joined, number, p_value


def findings(request: Request, samples: Samples, rankings: Rankings) -> list[str]:
    """Sentences to stand above the table: the claims, or why there are none."""
    sentences = [*_incomplete(request, samples, rankings), *_miscounted(samples)]
    if not any(sample.done for sample in samples.values()):
        return [*sentences, *claim_lines.of_void_looks(request)]
    if len(request.entries) < 2:
        return [*sentences, "One entry alone: there is nothing to compare."]
    sentences += claim_lines.of_looks(request, rankings)
    if rankings.unfinished or not rankings.look.alpha:
        return sentences
    if rankings.look.named:
        examples = {name: _examples(samples, name) for name in request.metrics}
        return [*sentences, *claim_lines.of_named_claims(request, rankings, examples)]
    mean = rankings.mean
    every = {**rankings.columns, **({_mean_of(request): mean} if mean else {})}
    sentences += [
        _verdict(request, where, result, rankings, _examples(samples, where))
        for where, result in every.items()
        if result.possible
    ]
    if request.searches and any(result.beaten for result in every.values()):
        sentences.append(_searched(request))
    silent = {d: r for d, r in rankings.columns.items() if not r.possible and not r.barred}
    few = {d: r for d, r in silent.items() if 2 <= r.seeds < inference.blocks_needed()}
    if few:
        everywhere = 1 < len(few) == len(rankings.columns)
        sentences.append(_too_few("any data set" if everywhere else joined(list(few)), few))
    if lonely := [dataset for dataset in silent if dataset not in few]:
        sentences.append(
            f"No entry is called better on {joined(lonely)}: that needs two or more entries with"
            " several seeds each and no failed run."
        )
    return sentences


def _searched(request: Request) -> str:
    """What claims after a search are of: what one search chose, or tuning and training together."""
    trials = max(ledger.budget.trials for ledger in request.searches)
    if (repeats := 1 + max(ledger.repeat or 0 for ledger in request.searches)) > 1:
        return (
            f"These are claims of tuning and training together: each entry was tuned in {repeats}"
            f" searches of {trials} trials, and each search's choice was trained once, so that the"
            " seeds are whole searches."
        )
    return (
        f"These are claims of the configurations that one search of {trials} trials chose for"
        " each entry; another search might choose others."
    )


def _mean_of(request: Request) -> str:
    return f"the {contests.mean_title(len(request.metrics))}"


def on_examples(main: Table, compared: Sequence[OnExamples]) -> list[str]:
    """Bootstrap intervals over test examples, between the two best means of each data set."""
    differences = []
    for place, column in enumerate(main.columns):
        means = [
            (row.cells[place].value, row.label)
            for row in main.measured
            if row.cells[place].value is not None
        ]
        best = [label for _, label in sorted(means, reverse=bool(column.higher_is_better))[:2]]
        differences += [
            _apart(pair if pair.a == best[0] else pair.turned(), column)
            for pair in compared
            if (pair.dataset, pair.metric) == (column.dataset, column.metric)
            if {pair.a, pair.b} == set(best)
        ]
    if not differences:
        return []
    return [
        "Had other test examples been drawn, the same trained models would have differed by (95 %,"
        f" paired bootstrap): {'; '.join(differences)}. This is the test sets' share of the doubt;"
        " what training again would change is not in it, and no claim rests on it alone."
    ]


def unreadable(runs: Sequence[ReportedRun], predictions: Mapping[str, object] | None) -> list[str]:
    """Runs whose per-example results are not what their records say."""
    if predictions is None:
        return []
    lacking = [
        f"{run.entry} on {run.dataset}, seed {run.seed}"
        for run in runs
        if run.state == "done" and run.record and run.record.predictions and not run.varied
        if run.key not in predictions
    ]
    if not lacking:
        return []
    more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
    return [f"Per-example results are missing or damaged: {'; '.join(lacking[:3])}{more}."]


def _apart(pair: OnExamples, column: Column) -> str:
    signed = column.model_copy(update={"signed": True})
    ends = " to ".join(number(value, signed) for value in (pair.low, pair.high))
    where = f"{pair.dataset}, {pair.n:,} examples, {pair.a} − {pair.b}"
    return f"{where}: {number(pair.difference, signed)} ({ends})"


def _examples(samples: Samples, dataset: str) -> str:
    """How many test examples the claim is of: with others it might be another."""
    counts = {
        record.scored
        for (_, name), sample in samples.items()
        for record in sample.done.values()
        if name == dataset
    }
    if len(counts) != 1:
        return ""
    if per_example.test_is_drawn(samples, dataset):
        return f", {counts.pop():,} test examples of each seed's own"
    return f", these {counts.pop():,} test examples"


def _verdict(
    request: Request, where: str, result: Ranking, rankings: Rankings, examples: str
) -> str:
    """Who is better than whom on a data set, or on the mean over all."""
    metric = request.metrics.get(where, next(iter(request.metrics.values())))[0]
    order = list(request.entries)
    tied = [entry for entry in order if entry in result.tied and entry != result.leader]
    beaten = [entry for entry in order if entry in result.beaten]
    sentence = f"On {where} ({metric.replace('_', ' ')}{examples}) {result.leader} "
    if beaten:
        worst = max(result.beaten.values())
        p = p_value(worst) if len(beaten) == 1 else p_value(worst).replace("=", "≤")
        as_of = [f"{entry} at {result.earlier[entry]} seeds" for entry in result.earlier]
        when = f"; decided at an earlier look: {joined(as_of)}" if as_of else ""
        sentence += f"is better than {joined(beaten)} ({_test(result, rankings)}: {p}{when})"
        sentence += f", and can't be told from {joined(tied, 'or')}." if tied else "."
    elif not tied:
        sentence += "has nobody to be compared with."
    else:
        sentence += (
            f"has the best mean, but can't be told from {joined(tied, 'or')}"
            f" ({_test(result, rankings)})."
        )
    if tied and result.detectable and math.isfinite(result.detectable):
        column = 100 if metric in request.percent else 1
        unit = "points" if metric in request.percent else "in it"
        sentence += (
            f" Here {_blocks(result)} show a true difference of about"
            f" {result.detectable * column:.2g} {unit} with 80 % power; smaller ones go unseen."
        )
    if result.unranked:
        left_out = [
            f"{entry} ({result.unranked[entry]})" for entry in order if entry in result.unranked
        ]
        sentence += f" Not ranked: {joined(left_out)}."
    return sentence


def _test(result: Ranking, rankings: Rankings) -> str:
    pairs = rankings.pairs
    family = f", corrected over all {pairs} pairs at once" if pairs > 1 else ""
    return f"{rankings.test}, {_blocks(result)}{family}"


def _blocks(result: Ranking) -> str:
    if result.blocks > result.seeds:
        return f"{result.blocks} blocks ({result.seeds} seeds on each data set)"
    return f"{result.blocks} paired seeds"


def _too_few(where: str, silent: dict[str, Ranking]) -> str:
    """Why nothing is called better, and how many seeds would allow it."""
    seeds = max(result.seeds for result in silent.values())
    return (
        f"No entry is called better on {where}: with {seeds} paired seeds no sign-flip test of a"
        f" pair can give less than p = 2/{2**seeds} = {inference.least_p(seeds):.3g}. A claim at"
        f" {inference.ALPHA} needs at least {inference.blocks_needed()} seeds, of however many"
        " entries; the order of the means is no claim."
    )


def _incomplete(request: Request, samples: Samples, rankings: Rankings) -> list[str]:
    """How much of the plan is done, and that nothing is claimed before all of it is."""
    planned = sum(len(sample.runs) for sample in samples.values())
    done = sum(len(sample.done) for sample in samples.values())
    if done == planned and not rankings.unfinished:
        return []
    sentence = f"Provisional: {done} of {planned} runs are done; the notes say what is missing."
    if done and rankings.unfinished and request.study.looks is None:
        sentence += (
            " No entry is called better before every planned run has ended: a look at each new run,"
            " until something shows, finds differences that are none."
        )
    return [sentence]


def _miscounted(samples: Samples) -> list[str]:
    """Runs that scored more or fewer examples than the test split holds."""
    wrong = {
        (entry, dataset, record.scored, record.data.test)
        for (entry, dataset), sample in samples.items()
        for record in sample.done.values()
        if record.data and record.scored != record.data.test
    }
    return [
        f"Wrong count: {entry} on {dataset} scored {scored:,} of {test:,} test examples."
        for entry, dataset, scored, test in sorted(wrong)
    ]
