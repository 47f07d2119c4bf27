"""The metrics of a split from its predictions: what GLUE, ReaL and the image data sets rank by."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import torch
from torch import Tensor
from torchmetrics.functional import matthews_corrcoef, pearson_corrcoef, spearman_corrcoef
from torchmetrics.functional.classification import binary_f1_score

from lightning_bench.common.targets import NO_LABEL


def accuracy(predicted: Tensor, target: Tensor) -> float:
    """The share of right predictions.

    Where the target has several columns, each of them is right, and a row whose first is no class
    (more than any prediction can be, as ReaL's images without labels) is not counted.
    """
    if target.ndim == 1:
        return (predicted == target).double().mean().item()
    labelled = target[:, 0] != NO_LABEL
    right = (predicted[:, None] == target).any(1)
    return right[labelled].double().mean().item()


def f1(predicted: Tensor, target: Tensor) -> float:
    """F1 of the class 1, as GLUE has it for MRPC and QQP."""
    return binary_f1_score(predicted, target).item()


def matthews(predicted: Tensor, target: Tensor) -> float:
    """Matthews' correlation; 0 where all predictions are the same, as scikit-learn has it."""
    if _constant(predicted) or _constant(target):
        return 0.0
    classes = int(torch.maximum(predicted.max(), target.max())) + 1
    return matthews_corrcoef(predicted, target, "multiclass", num_classes=classes).item()


def correlation(
    measure: Callable[[Tensor, Tensor], Tensor], predicted: Tensor, target: Tensor
) -> float:
    """A correlation of torchmetrics; 0 where all predictions are the same."""
    if _constant(predicted) or _constant(target):
        return 0.0
    return measure(predicted.double(), target.double()).item()


SCORES: Mapping[str, Callable[[Tensor, Tensor], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews": matthews,
    "pearson": partial(correlation, pearson_corrcoef),
    "spearman": partial(correlation, spearman_corrcoef),
}


def score(names: Iterable[str], predictions: Mapping[str, Tensor]) -> dict[str, float]:
    """The metrics of these names."""
    predicted, target = predictions["predicted"], predictions["target"]
    return {name: SCORES[name](predicted, target) for name in names}


def _constant(values: Tensor) -> bool:
    return bool((values == values[0]).all())
