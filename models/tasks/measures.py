"""Measures: a page's metrics by name, computed once on a whole split's predictions."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
import torchmetrics
from torch import Tensor

from lightning_bench.models.errors import ModelError
from lightning_bench.models.tasks.metric_names import OURS, MetricName, parse
from lightning_bench.models.tasks.own_callable import own_callable
from lightning_bench.models.tasks.scores import SCORES

#: What a callable's first parameter is called that is given probabilities.
_PROBABILITIES = {"probabilities", "probs", "scores"}


class Measure:
    """One metric: a number of all predictions and targets of a split.

    `outputs` is the number of classes, of labels, or of targets.
    """

    def __init__(self, spelled: str, *, task: str, outputs: int) -> None:
        self.name: MetricName = parse(spelled)
        self.of_probabilities = self.name.of_probabilities
        if self.name.own:
            self._compute = self._own()
        elif self.name.name in OURS:
            self._compute = SCORES[self.name.name]
        else:
            self._compute = partial(_fresh, self._torchmetrics(task, outputs))

    def __call__(self, predictions: Mapping[str, Tensor]) -> float:
        """The metric of a split."""
        given = predictions["scores" if self.of_probabilities else "predicted"]
        value = self._compute(given, predictions["target"])
        try:
            return float(value)
        except (TypeError, ValueError, RuntimeError):
            raise ModelError(
                f"{self.name.spelled} is no single number but {_shape(value)}: "
                "a metric is one number of a split"
            ) from None

    def _torchmetrics(self, task: str, outputs: int) -> Callable[[], torchmetrics.Metric]:
        kind = getattr(torchmetrics, self.name.name)
        arguments: dict[str, Any] = dict(self.name.arguments)
        if task == "regress":
            known = inspect.signature(kind.__init__).parameters
            if outputs > 1 and "num_outputs" in known:
                arguments.setdefault("num_outputs", outputs)
        elif task == "multilabel":
            arguments = {"task": "multilabel", "num_labels": outputs, **arguments}
        elif arguments.setdefault("task", "multiclass") == "multiclass":
            arguments.setdefault("num_classes", outputs)
        make = partial(kind, **arguments)
        try:
            make()
        except (TypeError, ValueError) as error:
            raise ModelError(f"{self.name.spelled}: {error}") from None
        self._binary = arguments.get("task") == "binary"
        return make

    def _own(self) -> Callable[[Tensor, Tensor], Any]:
        found = own_callable(self.name.name)
        if isinstance(found, type) and issubclass(found, torchmetrics.Metric):
            return partial(_fresh, partial(found, **self.name.arguments))
        first = next(iter(inspect.signature(found).parameters), "")
        self.of_probabilities = first in _PROBABILITIES
        return partial(found, **self.name.arguments)


def _fresh(make: Callable[[], torchmetrics.Metric], predicted: Tensor, target: Tensor) -> Any:
    """The value of a metric that has seen this split alone."""
    metric = make()
    if getattr(metric, "num_classes", None) is None and predicted.ndim == 2 and target.ndim == 1:
        predicted = predicted[:, 1]  # of a binary metric: what class 1 is given
    values = torch.as_tensor(metric(predicted, target), dtype=torch.float64)
    # Of several targets the mean, as R2Score has it by itself.
    return values.mean() if values.ndim == 1 else values


def _shape(value: object) -> str:
    return f"a tensor {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
