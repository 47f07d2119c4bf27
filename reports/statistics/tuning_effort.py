"""What the numbers of a search say: pure, from its ledger alone.

Best so far by trial, the expected best of n random trials, and how much each hyperparameter moved
the score.
"""

import math
from collections.abc import Mapping, Sequence

from lightning_bench.bench.store.trial import Ledger, Trial
from lightning_bench.reports.report import SearchLines
from lightning_bench.reports.request import Request

#: Finished trials from which on importances are shown.
LEAST_TRIALS = 10


def search_lines(request: Request) -> list[SearchLines]:
    """What the figures draw: best so far, expected best, and trials with their cost.

    Of several searches of an entry the means over them, and all their trials.
    """
    searches: dict[tuple[str, str], list[Ledger]] = {}
    for ledger in request.searches:
        searches.setdefault((ledger.entry, ledger.dataset), []).append(ledger)
    return [
        SearchLines(
            entry=entry,
            dataset=dataset,
            best=_means([best_so_far(ledger) for ledger in ledgers]),
            expected=[
                value for value in _means(list(map(_expected, ledgers))) if value is not None
            ],
            cost=ledgers[0].budget.cost,
            trials=[point for ledger in ledgers for point in _points(ledger.trials)],
            front=_points(front_of(ledgers)),
        )
        for (entry, dataset), ledgers in searches.items()
    ]


def front_of(ledgers: Sequence[Ledger]) -> list[Trial]:
    """With a cost: the trials of an entry's searches that none beats in both, cheapest first."""
    every = [trial for ledger in ledgers for trial in ledger.trials]
    return ledgers[0].model_copy(update={"trials": every}).front()


def _expected(ledger: Ledger) -> list[float]:
    if no_expectation(ledger):
        return []
    return expected_best(drawn_values(ledger), higher_is_better=ledger.higher_is_better)


def _means(lines: Sequence[Sequence[float | None]]) -> list[float | None]:
    """The mean of several lines, as far as all have a value; None where one has none yet."""
    means: list[float | None] = []
    for values in zip(*lines, strict=False):
        known = [value for value in values if value is not None]
        means.append(math.fsum(known) / len(known) if len(known) == len(values) else None)
    return means


def best_so_far(ledger: Ledger) -> list[float | None]:
    """The best validation score among the trials up to each one, by number; None before any."""
    found: list[float | None] = []
    best: Trial | None = None
    for trial in ledger.trials:
        if ledger.score(trial) > (ledger.score(best) if best else -math.inf):
            best = trial
        found.append(best.value if best else None)
    return found


def expected_best(values: Sequence[float], *, higher_is_better: bool) -> list[float]:
    """The expected best of n = 1, …, N of these N values, drawn without putting back.

    An unbiased estimate of the expected best of n independent trials (Dodge et al. 2019 give the
    plug-in form, which is not; this one is the U-statistic). The i-th smallest of N values is the
    largest of n drawn in C(i−1, n−1) of C(N, n) draws.
    """
    ordered = sorted(values, reverse=not higher_is_better)
    count = len(ordered)
    return [
        math.fsum(
            value * (math.comb(place, drawn - 1) / math.comb(count, drawn))
            for place, value in enumerate(ordered)
        )
        for drawn in range(1, count + 1)
    ]


def no_expectation(ledger: Ledger) -> str:
    """Why there is no expected best for this search; empty where there is one."""
    search = ledger.budget
    if search.sampler != "random":
        return (
            f"the trials of {search.sampler} depend on one another; the estimate is unbiased for "
            "random search alone"
        )
    if search.pruner != "none":
        return (
            f"{search.pruner} stopped trials early, and what they would have reached is not known"
        )
    if search.cost:
        return "with a cost there is no one best"
    return ""


def drawn_values(ledger: Ledger) -> list[float]:
    """The scores of the trials that were drawn at random; a failed one counts as the worst.

    The first was not drawn: it has the recipe's own values.
    """
    drawn = [trial for trial in ledger.trials if trial.number > 0]
    known = [trial.value for trial in drawn if trial.value is not None]
    if not known:
        return []
    worst = min(known) if ledger.higher_is_better else max(known)
    return [worst if trial.value is None else trial.value for trial in drawn]


def importances(ledger: Ledger) -> Mapping[str, float]:
    """Each hyperparameter's share in what sets good trials apart (Optuna's PED-ANOVA).

    Of those that every finished trial has; empty where there are too few trials to tell.
    """
    done = [trial for trial in ledger.trials if trial.state == "done"]
    if len(done) < LEAST_TRIALS or len({trial.value for trial in done}) < 2:
        return {}
    import warnings

    import optuna

    from lightning_bench.bench.store.optuna_types import frozen

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings(action="ignore"):
        study = optuna.create_study(
            storage=optuna.storages.InMemoryStorage(),
            direction="maximize" if ledger.higher_is_better else "minimize",
        )
        # A second objective is left out here: importances are those for the score.
        alone = [trial.model_copy(update={"cost": None}) for trial in done]
        study.add_trials([frozen(trial, ledger.space) for trial in alone])
        found: dict[str, float] = optuna.importance.get_param_importances(study)
    return found


def _points(trials: Sequence[Trial]) -> list[tuple[float, float]]:
    return [
        (trial.cost, trial.value)
        for trial in trials
        if trial.cost is not None and trial.value is not None
    ]
