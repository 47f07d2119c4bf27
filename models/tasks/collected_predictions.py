"""Predictions: per-example results of a split, gathered over all ranks."""

import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_bench.models.tasks.class_probabilities import ClassProbabilities


class Predictions(Metric):
    """Each scored example's index, target, prediction and perhaps loss, sorted by index.

    Where `probabilities` are collected, too, rank 0 alone has them in the end. What is `scored`
    keeps what each class is given on all ranks, for the metrics of it.
    """

    full_state_update = False
    index: list[Tensor]
    target: list[Tensor]
    predicted: list[Tensor]
    loss: list[Tensor]
    scores: list[Tensor]
    probabilities: ClassProbabilities | None

    def __init__(self, *, scored: bool = False) -> None:
        super().__init__()
        self.probabilities = None
        self.scored = scored
        for name in ("index", "target", "predicted", "loss", *(("scores",) if scored else ())):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(
        self,
        index: Tensor,
        target: Tensor,
        predicted: Tensor,
        loss: Tensor | None = None,
        scores: Tensor | None = None,
    ) -> None:
        """Add a batch."""
        self.index.append(index)
        self.target.append(target)
        self.predicted.append(predicted)
        if loss is not None:
            self.loss.append(loss)
        if scores is not None:
            self.scores.append(scores)

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
        if self.scored:
            results["scores"] = _joined(self.scores)[order]
        return results


def _joined(parts: Tensor | list[Tensor]) -> Tensor:
    """Synchronised states are one tensor, local ones are lists."""
    return parts if isinstance(parts, Tensor) else torch.cat(parts)
