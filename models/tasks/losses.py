"""Losses: what is minimised, by name or the user's own, of each example of a batch.

Class weights multiply each example's loss, and the mean is over examples, as it is without them:
so a batch means the same however it is cut into parts or over devices. (torch divides by the sum of
the batch's weights, which differs from batch to batch.)
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.tasks.own_callable import own_callable


class Loss(nn.Module):
    """The loss of each example; `weights` are of classes, or of labels' positives."""

    weights: Tensor | None

    def __init__(
        self,
        name: str,
        *,
        arguments: Mapping[str, Any],
        label_smoothing: float = 0.0,
        weights: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.name, self.arguments, self.label_smoothing = name, dict(arguments), label_smoothing
        given = None if weights is None else torch.tensor(weights, dtype=torch.float32)
        self.register_buffer("weights", given, persistent=False)
        self._weighted = False
        self._own = own_callable(name) if ":" in name else None
        if isinstance(self._own, type) and issubclass(self._own, nn.Module):
            self._own, self.arguments = self._own(**self.arguments), {}
        if self._own is not None and self.weights is not None:
            takes = inspect.signature(self._own).parameters
            if "weights" not in takes:
                raise ModelError(f"{name} takes no `weights`: class_weights would do nothing")
            self._weighted = True

    def forward(self, output: Tensor, target: Tensor, *, training: bool) -> Tensor:
        """The mean loss of a training batch, or the loss of each example in evaluation."""
        losses = self._losses(output, target, self.label_smoothing if training else 0.0)
        if not training:
            # A loss that is one number of the batch counts for each of its examples.
            return losses.expand(len(target)) if losses.ndim == 0 else _of_examples(losses)
        return losses.mean()

    def _losses(self, output: Tensor, target: Tensor, smoothing: float) -> Tensor:
        if self._own is not None:
            more = {"weights": self.weights} if self._weighted else {}
            return self._own(output, target, **self.arguments, **more)
        match self.name:
            case "cross-entropy":
                return F.cross_entropy(
                    output, target, self.weights, reduction="none", label_smoothing=smoothing
                )
            case "focal":
                return self._focal(output, target, **self.arguments)
            case "binary":
                wanted = _indicators(target, output)
                return F.binary_cross_entropy_with_logits(
                    output, wanted, reduction="none", pos_weight=self.weights
                )
            case "mse":
                return F.mse_loss(_like(output, target), target, reduction="none")
            case "mae":
                return F.l1_loss(_like(output, target), target, reduction="none")
            case "huber":
                return F.huber_loss(
                    _like(output, target), target, reduction="none", **self.arguments
                )
        raise ModelError(f"there is no loss {self.name!r}")

    def _focal(self, output: Tensor, target: Tensor, gamma: float = 2.0) -> Tensor:
        """Lin et al. (2017): -(1 - p)^gamma log p of the right class, or of each label."""
        if target.ndim == 2 and target.is_floating_point() and self._of_labels:
            losses = F.binary_cross_entropy_with_logits(output, target, reduction="none")
            weighted = F.binary_cross_entropy_with_logits(
                output, target, reduction="none", pos_weight=self.weights
            )
            return (1 - torch.exp(-losses)) ** gamma * weighted
        logs = output.log_softmax(-1)
        wanted = _indicators(target, output)
        terms = -wanted * (1 - logs.exp()) ** gamma * logs
        return (terms if self.weights is None else terms * self.weights).sum(-1)

    #: Whether the targets are several labels of an example, each by itself.
    _of_labels = False

    def of_labels(self) -> "Loss":
        """The loss of several labels of an example."""
        self._of_labels = True
        return self


def _of_examples(losses: Tensor) -> Tensor:
    return losses.flatten(1).mean(1) if losses.ndim > 1 else losses


def _like(output: Tensor, target: Tensor) -> Tensor:
    """Outputs in the targets' shape: one number an example has no axis of its own."""
    return output.squeeze(-1) if output.ndim > target.ndim else output


def _indicators(target: Tensor, output: Tensor) -> Tensor:
    """Each class's share of the target, 1 for the right one; several labels as they are."""
    if target.ndim == output.ndim:
        return target.to(output.dtype)
    return F.one_hot(target, output.shape[-1]).to(output.dtype)


def balanced(target: Tensor, outputs: int, *, labels: bool) -> list[float]:
    """Weights by which every class counts alike: n / (classes · its examples).

    Of several labels each positive counts as many times as there are negatives for one.
    """
    if labels:
        positives = target.double().sum(0)
        negatives = len(target) - positives
        weights = torch.where(positives > 0, negatives / positives.clamp(min=1), 1.0)
    else:
        counts = torch.bincount(target.long(), minlength=outputs).double()
        weights = torch.where(counts > 0, len(target) / (outputs * counts.clamp(min=1)), 0.0)
    return weights.tolist()
