"""What the numbers allow to be said, in words; and what they don't."""

from reports import statistics
from reports.ranking import Ranking, Rankings
from reports.samples import Samples
from reports.table import Request
from reports.text import joined, p_value


def findings(request: Request, samples: Samples, rankings: Rankings) -> list[str]:
    """Sentences to stand above the table: the claims, or why there are none."""
    found = [*_incomplete(samples), *_miscounted(samples)]
    if len(request.entries) < 2:
        return [*found, "One entry alone: there is nothing to compare."]
    silent = {d: r for d, r in rankings.columns.items() if not r.possible}
    if len(silent) < len(rankings.columns):
        found += [
            _verdict(request, dataset, ranking, rankings.pairs)
            for dataset, ranking in rankings.columns.items()
            if ranking.possible
        ]
    if silent:
        found.append(_silence(request, samples, silent, rankings))
    return found


def _verdict(request: Request, dataset: str, ranking: Ranking, pairs: int) -> str:
    metric = request.metrics[dataset][0].replace("_", " ")
    order = [entry.label for entry in request.entries]
    tied = [entry for entry in order if entry in ranking.tied and entry != ranking.leader]
    beaten = [entry for entry in order if entry in ranking.beaten]
    said = f"On {dataset} ({metric}) {ranking.leader} "
    if beaten:
        worst = max(ranking.beaten.values())
        p = p_value(worst) if len(beaten) == 1 else p_value(worst).replace("=", "≤")
        said += f"is better than {joined(beaten)} ({_test(ranking, pairs)}: {p})"
        said += f", and can't be told from {joined(tied, 'or')}." if tied else "."
    else:
        said += (
            f"has the best mean, but can't be told from {joined(tied, 'or')}"
            f" ({_test(ranking, pairs)})."
        )
    if ranking.unranked:
        left_out = [
            f"{entry} ({ranking.unranked[entry]})" for entry in order if entry in ranking.unranked
        ]
        said += f" Not ranked: {joined(left_out)}."
    return said


def _test(ranking: Ranking, pairs: int) -> str:
    return f"{ranking.test} over {ranking.seeds} paired seeds, Holm over {pairs} pairs"


def _silence(
    request: Request, samples: Samples, silent: dict[str, Ranking], rankings: Rankings
) -> str:
    """Why nothing is called better, and how many seeds would allow it."""
    where = joined(list(silent))
    seeds = max(ranking.seeds for ranking in silent.values())
    usable = max(
        sum(entry.label not in ranking.unranked or ranking.seeds > 1 for entry in request.entries)
        for ranking in silent.values()
    )
    if seeds < 2 or not rankings.pairs or not usable:
        return (
            f"No entry is called better on {where}: that needs two or more entries with several"
            " finished seeds each."
        )
    least = statistics.least_p(seeds)
    why = (
        f"No entry is called better on {where}: with {seeds} paired seeds no exact two-sided"
        f" paired test can give less than p = 2/2^{seeds} = {least:.3g}"
    )
    if least <= statistics.ALPHA:
        why += f", {min(1.0, least * rankings.pairs):.2g} after Holm's correction"
    family = f", after Holm's correction over {rankings.pairs} pairs" if rankings.pairs > 1 else ""
    return (
        f"{why}. A claim at {statistics.ALPHA} needs at least {rankings.needed} seeds{family}; the"
        " order of the means is no claim."
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
