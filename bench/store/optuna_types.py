"""Optuna's forms of what the store keeps: a parameter, and a trial that is over."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lightning_bench.bench.store.trial import Trial
from lightning_bench.bench.study.search_space import Parameter

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, TrialState


def distribution(parameter: Parameter) -> "BaseDistribution":
    """Optuna's distribution of a parameter."""
    from optuna import distributions

    if parameter.kind == "choice":
        return distributions.CategoricalDistribution(parameter.choices)
    if parameter.kind == "int":
        return distributions.IntDistribution(
            round(parameter.low),
            round(parameter.high),
            step=round(parameter.step or 1),
            log=parameter.log,
        )
    return distributions.FloatDistribution(
        parameter.low, parameter.high, step=parameter.step, log=parameter.log
    )


def state(trial: Trial) -> "TrialState":
    """Optuna's word for how a trial ended."""
    from optuna.trial import TrialState

    states = {"done": "COMPLETE", "pruned": "PRUNED", "failed": "FAIL"}
    return TrialState[states[trial.state]]


def values(trial: Trial) -> list[float]:
    """What a trial reached, by objective."""
    return [value for value in (trial.value, trial.cost) if value is not None]


def frozen(trial: Trial, space: Mapping[str, Parameter]) -> "FrozenTrial":
    """A trial that is over, for a storage that has not heard of it."""
    from optuna.trial import create_trial

    reached = [trial.curve[-1][1]] if trial.state == "pruned" and trial.curve else values(trial)
    return create_trial(
        state=state(trial),
        values=reached or None if trial.state != "failed" else None,
        params=dict(trial.params),
        distributions={name: distribution(space[name]) for name in trial.params},
        user_attrs={"runs": trial.keys},
        intermediate_values={} if trial.cost is not None else dict(trial.curve),
    )
