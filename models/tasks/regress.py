"""Regress: trains any model of one output to predict a number, as STS-B asks for."""

import torch.nn.functional as F
from torch import Tensor

from lightning_bench.models.tasks.task import Task


class Regress(Task):
    """Mean squared error, as BERT and its followers train on STS-B."""

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean squared error of the batch."""
        return F.mse_loss(output.squeeze(-1), target)

    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        """Each example's squared error."""
        return F.mse_loss(output.squeeze(-1), target, reduction="none")

    def predict(self, output: Tensor) -> Tensor:
        """The output itself."""
        return output.squeeze(-1).float()
