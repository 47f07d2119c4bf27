"""Findings: the claims that the tests allow, in sentences, and why there are no more."""

from collections.abc import Mapping, Sequence

from lightning_bench.reports.report import Column, OnExamples, Table
from lightning_bench.reports.request import ReportedRun, Request
from lightning_bench.reports.statistics import inference
from lightning_bench.reports.statistics.ranking import Ranking, Rankings
from lightning_bench.reports.statistics.samples import Samples
from lightning_bench.reports.text.numbers import joined, number, p_value


def findings(request: Request, samples: Samples, rankings: Rankings) -> list[str]:
    """Sentences to stand above the table: the claims, or why there are none."""
    sentences = [*_incomplete(samples), *_miscounted(samples)]
    if not any(sample.done for sample in samples.values()):
        return sentences
    if len(request.entries) < 2:
        return [*sentences, "One entry alone: there is nothing to compare."]
    silent = {d: r for d, r in rankings.columns.items() if not r.possible and not r.barred}
    if any(ranking.possible for ranking in rankings.columns.values()):
        sentences += [
            _verdict(request, dataset, ranking, rankings.pairs)
            for dataset, ranking in rankings.columns.items()
            if ranking.possible
        ]
    few = {d: r for d, r in silent.items() if 2 <= r.seeds < rankings.needed}
    if few:
        everywhere = 1 < len(few) == len(rankings.columns)
        where = "any data set" if everywhere else joined(list(few))
        sentences.append(_too_few(where, few, rankings))
    if lonely := [dataset for dataset in silent if dataset not in few]:
        sentences.append(
            f"No entry is called better on {joined(lonely)}: that needs two or more entries with"
            " several seeds each and no failed run."
        )
    return sentences


def on_examples(main: Table, compared: Sequence[OnExamples]) -> list[str]:
    """Bootstrap intervals over test examples, between the two best means of each data set."""
    differences = []
    for place, column in enumerate(main.columns):
        means = [
            (row.cells[place].value, row.label)
            for row in main.rows
            if row.source == "measured" and row.cells[place].value is not None
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
        " what training again would change is not in it, and no claim rests on it."
    ]


def unreadable(runs: Sequence[ReportedRun], predictions: Mapping[str, object] | None) -> list[str]:
    """Runs whose per-example results are not what their records say."""
    if predictions is None:
        return []
    lacking = [
        f"{run.entry} on {run.dataset}, seed {run.seed}"
        for run in runs
        if run.state == "done" and run.record and run.record.predictions
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


def _verdict(request: Request, dataset: str, ranking: Ranking, pairs: int) -> str:
    metric = request.metrics[dataset][0].replace("_", " ")
    order = list(request.entries)
    tied = [entry for entry in order if entry in ranking.tied and entry != ranking.leader]
    beaten = [entry for entry in order if entry in ranking.beaten]
    sentence = f"On {dataset} ({metric}) {ranking.leader} "
    if beaten:
        worst = max(ranking.beaten.values())
        p = p_value(worst) if len(beaten) == 1 else p_value(worst).replace("=", "≤")
        sentence += f"is better than {joined(beaten)} ({_test(ranking, pairs)}: {p})"
        sentence += f", and can't be told from {joined(tied, 'or')}." if tied else "."
    elif not tied:
        sentence += "has nobody to be compared with."
    else:
        sentence += (
            f"has the best mean, but can't be told from {joined(tied, 'or')}"
            f" ({_test(ranking, pairs)})."
        )
    if tied and ranking.detectable:
        column = 100 if (name := request.metrics[dataset][0]) in request.percent else 1
        unit = "points" if name in request.percent else "in it"
        sentence += (
            f" Here {ranking.seeds} seeds show a true difference of about"
            f" {ranking.detectable * column:.2g} {unit} with 80 % power; smaller ones go unseen."
        )
    if ranking.unranked:
        left_out = [
            f"{entry} ({ranking.unranked[entry]})" for entry in order if entry in ranking.unranked
        ]
        sentence += f" Not ranked: {joined(left_out)}."
    return sentence


def _test(ranking: Ranking, pairs: int) -> str:
    family = f", Holm over {pairs} pairs" if pairs > 1 else ""
    return f"{ranking.test} over {ranking.seeds} paired seeds{family}"


def _too_few(where: str, silent: dict[str, Ranking], rankings: Rankings) -> str:
    """Why nothing is called better, and how many seeds would allow it."""
    seeds = max(ranking.seeds for ranking in silent.values())
    least = inference.least_p(seeds)
    family = f", after Holm's correction over {rankings.pairs} pairs" if rankings.pairs > 1 else ""
    corrected = f" ({min(1.0, least * rankings.pairs):.2g}{family})" if family else ""
    return (
        f"No entry is called better on {where}: with {seeds} paired seeds no exact"
        f" two-sided paired test can give less than p = 2/{2**seeds} = {least:.3g}{corrected}. A"
        f" claim at {inference.ALPHA} needs at least {rankings.needed} seeds here; the order of"
        " the means is no claim."
    )


def _incomplete(samples: Samples) -> list[str]:
    planned = sum(len(sample.runs) for sample in samples.values())
    done = sum(len(sample.done) for sample in samples.values())
    if done == planned:
        return []
    return [f"Provisional: {done} of {planned} runs are done; the notes say what is missing."]


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
