"""Samplers and pruners by the names that a page gives them; all of them are Optuna's own."""

import hashlib
from typing import TYPE_CHECKING

from lightning_bench.bench.spec import Scalar
from lightning_bench.bench.study.search_settings import Search
from lightning_bench.bench.study.search_space import Parameter, Space

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

#: Trials that end unpruned before a median means anything.
STARTUP_TRIALS = 5


def sampler(search: Search, space: Space, number: int) -> "BaseSampler":
    """The sampler of one trial, seeded by its number.

    So any parent draws the same for it: a random search has the same trials whoever runs them.
    (One grid is shared by all its trials, and its sampler numbers the points by the seed alone.)
    """
    from optuna import samplers

    digest = hashlib.sha256(f"{search.seed}/{number}".encode()).digest()
    seed = int.from_bytes(digest[:4], "big") >> 1
    match search.sampler:
        case "tpe":
            return _tpe(search, space, seed)
        case "random":
            return samplers.RandomSampler(seed=seed)
        case "gp":
            return samplers.GPSampler(seed=seed, warn_independent_sampling=False)
        case "cmaes":
            return samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
        case "grid":
            points = {name: p.grid() or [] for name, p in space.parameters.items()}
            return samplers.GridSampler(points, seed=search.seed)


def _tpe(search: Search, space: Space, seed: int) -> "BaseSampler":
    """TPE that knows which parameters all trials share, and need not read all trials to see it."""
    from optuna.samplers import TPESampler

    from lightning_bench.bench.store import optuna_types

    shared = {
        name: optuna_types.distribution(parameter)
        for name, parameter in sorted(space.parameters.items())
        # Of two objectives it models each setting by itself.
        if not parameter.when and search.cost is None
    }

    class SharedSpaceTPE(TPESampler):
        def infer_relative_search_space(
            self, study: "Study", trial: "FrozenTrial"
        ) -> "dict[str, BaseDistribution]":
            del study, trial
            return shared

    return SharedSpaceTPE(seed=seed)


def pruner(search: Search, epochs: int) -> "BasePruner":
    """The pruner; steps are epochs, counted from 1."""
    from optuna import pruners

    match search.pruner:
        case "none":
            return pruners.NopPruner()
        case "median":
            return pruners.MedianPruner(n_startup_trials=STARTUP_TRIALS, n_warmup_steps=epochs // 5)
        case "asha":
            return pruners.SuccessiveHalvingPruner(min_resource=max(1, epochs // 16))
        case "hyperband":
            return pruners.HyperbandPruner(min_resource=max(1, epochs // 9), max_resource=epochs)


def suggest(trial: "Trial", name: str, parameter: Parameter) -> Scalar:
    """Draw one value; one that the trial has already is returned as it is."""
    if parameter.kind == "choice":
        choice: Scalar = trial.suggest_categorical(name, parameter.choices)
        return choice
    if parameter.kind == "int":
        low, high, step = round(parameter.low), round(parameter.high), round(parameter.step or 1)
        return trial.suggest_int(name, low, high, step=step, log=parameter.log)
    return trial.suggest_float(
        name, parameter.low, parameter.high, step=parameter.step, log=parameter.log
    )
