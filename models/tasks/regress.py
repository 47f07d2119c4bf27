"""Regress: trains any model to predict a number, as STS-B asks for, or several of an example."""

import torch.nn.functional as F
from torch import Tensor

from lightning_bench.models.tasks.task import Task


class Regress(Task):
    """Mean squared error, as BERT and its followers train on STS-B; of several targets the mean."""

    measured_as = "regress"

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean squared error of the batch."""
        if self.criterion is not None:
            return self.criterion(output, target, training=True)
        return F.mse_loss(_like(output, target), target)

    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        """Each example's squared error."""
        if self.criterion is not None:
            return self.criterion(output, target, training=False)
        errors = F.mse_loss(_like(output, target), target, reduction="none")
        return errors if errors.ndim == 1 else errors.mean(1)

    def predict(self, output: Tensor) -> Tensor:
        """The output itself, with an axis of its own where there are several targets."""
        numbers = output.float()
        return numbers.squeeze(-1) if numbers.shape[-1] == 1 else numbers


def _like(output: Tensor, target: Tensor) -> Tensor:
    return output.squeeze(-1) if output.ndim > target.ndim else output
