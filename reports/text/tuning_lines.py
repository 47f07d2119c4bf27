"""Sentences on a study's searches: what they leave open, how they were done, chosen values."""

from collections.abc import Iterator

from lightning_bench.bench.spec import Scalar
from lightning_bench.bench.store.trial import Ledger, with_fewer_trials
from lightning_bench.common.messages import counted
from lightning_bench.reports.report import Fact
from lightning_bench.reports.request import Request
from lightning_bench.reports.statistics import tuning_effort
from lightning_bench.reports.text.numbers import joined


def findings(request: Request) -> list[str]:
    """What the searches leave open: unfinished, unequal, or at the edge of their spaces."""
    sentences = []
    left = [ledger for ledger in request.searches if not ledger.closed]
    if left:
        over = sum(len(ledger.trials) for ledger in request.searches)
        total = sum(ledger.budget.trials for ledger in request.searches)
        sentences.append(
            f"Provisional: {len(left)} of {len(request.searches)} searches are not over "
            f"({over} of {total} trials); their final runs come after them."
        )
    sentences += [
        f"No entry is called better on {dataset}: the tuning budgets were not equal; {why}."
        for dataset, why in unequal_budgets(request).items()
    ]
    sentences += [
        f"The search of {ledger.name} on {ledger.dataset} came to nothing: no trial has a value."
        for ledger in request.searches
        if ledger.closed and ledger.best is None
    ]
    sentences += [
        f"The search of {ledger.name} on {ledger.dataset}: {ledger.outdated_summary}. What was "
        "chosen stays chosen; another search.seed searches again."
        for ledger in request.searches
        if ledger.outdated
    ]
    edges = [edge for ledger in request.searches for edge in _edges(ledger)]
    if edges:
        sentences.append(
            f"At the edge of its space: {'; '.join(edges)}. Better values may lie beyond; widen "
            "the space for all entries and go on."
        )
    return sentences


def unequal_budgets(request: Request) -> dict[str, str]:
    """By data set, why its entries' budgets were not equal, in words."""
    reasons = {}
    for dataset, ledgers in with_fewer_trials(request.searches).items():
        budgets = []
        for ledger in ledgers:
            why = ""
            if ledger.exhausted:
                why = f" (its {ledger.budget.device_h:g} device-hours were spent)"
            elif not ledger.closed:
                why = " so far"
            budgets.append(f"{ledger.name} had {len(ledger.trials)} trials{why}")
        most = max(len(x.trials) for x in request.searches if x.dataset == dataset)
        reasons[dataset] = f"{joined(budgets)}, others {most}"
    return reasons


def facts(request: Request) -> list[Fact]:
    """How the searches were done, and what can't be estimated."""
    if not request.searches:
        return []
    search = request.searches[0].budget
    ceiling = f", and none begun after {search.device_h:g} device-hours" if search.device_h else ""
    seeds = counted(len(search.seeds), "seed")
    every, sampled = "every entry on every data set", f"seed {search.seed}"
    frozen = "The best trial's values are frozen"
    if last := max(ledger.repeat or 0 for ledger in request.searches):
        every = f"each of {last + 1} searches of {every}"
        frozen = (
            "The best values of each search are frozen for one final run with a seed of its own"
        )
        sampled = f"seeds {search.seed} to {search.seed + last}"
    pruned = "" if search.pruner == "none" else f", stopped early by {search.pruner}"
    sentence = (
        f"{search.trials} trials for {every}{ceiling}: pruned, failed and "
        f"retried ones count. The first has the recipe's own values, the others are drawn by "
        f"{search.sampler}{pruned} (Optuna, {sampled}). A trial trains with {seeds} that "
        "no final run has, never sees the test split, and is judged by the validation split after "
        "its last epoch, since a final run keeps its last weights too. "
        f"{frozen}; a trial's own score is no result."
    )
    lines = [Fact(label="Tuning", text=sentence)]
    reasons = {
        reason for ledger in request.searches if (reason := tuning_effort.no_expectation(ledger))
    }
    if reasons:
        why = joined(sorted(reasons))
        lines.append(Fact(label="No expected validation performance", text=f"Not shown: {why}."))
    return lines


def chosen_value(value: Scalar) -> str:
    """A chosen value, with the digits that matter."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _edges(ledger: Ledger) -> Iterator[str]:
    for name, value in (ledger.chosen or {}).items():
        if edge := ledger.space[name].edge(value):
            yield (
                f"{ledger.name}'s {name} {chosen_value(value)} on {ledger.dataset}, at the {edge}"
                f" end of {ledger.space[name]}"
            )
