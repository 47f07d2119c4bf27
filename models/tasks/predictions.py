"""Predictions: per-example results of a split, gathered over all ranks."""

import torch
from torch import Tensor
from torchmetrics import Metric


class Predictions(Metric):
    """Each scored example's index, target and predicted class; `compute` sorts them by index."""

    full_state_update = False

    def __init__(self) -> None:
        super().__init__()
        for name in ("index", "target", "predicted"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, index: Tensor, target: Tensor, predicted: Tensor) -> None:
        """Add a batch."""
        self.index.append(index)
        self.target.append(target)
        self.predicted.append(predicted)

    def compute(self) -> dict[str, Tensor]:
        """All ranks' examples, in the split's own order."""
        index = _joined(self.index)
        order = torch.argsort(index)
        return {
            "index": index[order],
            "target": _joined(self.target)[order],
            "predicted": _joined(self.predicted)[order],
        }


def _joined(parts: Tensor | list[Tensor]) -> Tensor:
    """Synchronised states are one tensor, local ones are lists."""
    return parts if isinstance(parts, Tensor) else torch.cat(parts)
