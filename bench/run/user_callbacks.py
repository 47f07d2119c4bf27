"""A page's own Lightning callbacks, which watch a training, or change it where they say so.

They are called as Lightning calls them, once a call of several steps (see `models.tasks`). Their
state is in the checkpoints. What decides how long a run trains, what it saves and where it logs is
the study's: callbacks that do this are refused.
"""

from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl

from lightning_bench.models.errors import ModelError
from lightning_bench.models.tasks.metric_names import parse
from lightning_bench.models.tasks.own_callable import own_callable

#: Lightning's own callbacks that would do what the harness does, by any of its packages' names.
REFUSED = {
    "Checkpoint": "a run's state is saved and restored by the harness",
    "ModelCheckpoint": "a run's state is saved and restored by the harness",
    "EarlyStopping": "all entries train for the recipe's epochs (a search has a pruner)",
    "Timer": "all entries train for the recipe's epochs",
    "GradientAccumulationScheduler": "that is `accumulate` in the recipe",
    "LearningRateMonitor": "there is no logger; the rate is the recipe's at every step",
    "StochasticWeightAveraging": "that is `ema` in the recipe",
    "WeightAveraging": "that is `ema` in the recipe",
    "EMAWeightAveraging": "that is `ema` in the recipe",
    "LearningRateFinder": "the rate is the recipe's",
    "BatchSizeFinder": "the batch size is the recipe's",
    "ModelSummary": "a record counts the parameters",
    "ProgressBar": "the harness shows how far a run is",
}


def make(spelled: Sequence[str]) -> list[pl.Callback]:
    """The callbacks of these names, in their order, with their arguments."""
    return [_made(name) for name in spelled]


def _made(spelled: str) -> pl.Callback:
    name = parse(spelled)
    try:
        callback: Any = own_callable(name.name)(**name.arguments)
    except TypeError as error:
        raise ModelError(f"{spelled}: {error}") from None
    kinds = [kind.__name__ for kind in type(callback).__mro__]
    if "Callback" not in kinds:
        raise ModelError(f"{spelled} gives a {kinds[0]}, not a Lightning callback")
    for kind in kinds:
        if kind in REFUSED:
            raise ModelError(f"{spelled} is a {kind}: {REFUSED[kind]}")
    return callback  # type: ignore[no-any-return]


def states(callbacks: Sequence[pl.Callback]) -> list[dict[str, Any]]:
    """The state of each, as it says itself."""
    return [callback.state_dict() for callback in callbacks]


def restore(callbacks: Sequence[pl.Callback], kept: Sequence[dict[str, Any]]) -> None:
    """Give each what it had; one that had nothing is not asked."""
    for callback, state in zip(callbacks, kept, strict=True):
        if state:
            callback.load_state_dict(state)
