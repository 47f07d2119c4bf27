"""Predictions: per-example results of a split, gathered over all ranks."""

import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_bench.models.tasks.class_probabilities import ClassProbabilities


class Predictions(Metric):
    """Each scored example's index, target, prediction and perhaps loss, sorted by index.

    Where `probabilities` are collected, too, rank 0 alone has them in the end.
    """

    full_state_update = False
    index: list[Tensor]
    target: list[Tensor]
    predicted: list[Tensor]
    loss: list[Tensor]
    probabilities: ClassProbabilities | None

    def __init__(self) -> None:
        super().__init__()
        self.probabilities = None
        for name in ("index", "target", "predicted", "loss"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(
        self, index: Tensor, target: Tensor, predicted: Tensor, loss: Tensor | None = None
    ) -> None:
        """Add a batch."""
        self.index.append(index)
        self.target.append(target)
        self.predicted.append(predicted)
        if loss is not None:
            self.loss.append(loss)

    def compute(self) -> dict[str, Tensor]:
        """All ranks' examples, in the split's own order; `loss` only where it was given."""
        index = _joined(self.index)
        order = torch.argsort(index)
        results = {
            "index": index[order],
            "target": _joined(self.target)[order],
            "predicted": _joined(self.predicted)[order],
        }
        if len(self.loss):
            results["loss"] = _joined(self.loss)[order]
        return results


def _joined(parts: Tensor | list[Tensor]) -> Tensor:
    """Synchronised states are one tensor, local ones are lists."""
    return parts if isinstance(parts, Tensor) else torch.cat(parts)
