"""MultiLabel: trains any model whose output is a logit a label, of which an example has several."""

import torch.nn.functional as F
from torch import Tensor

from lightning_bench.models.tasks.task import Task


class MultiLabel(Task):
    """Binary cross-entropy of each label by itself; targets are rows of zeros and ones."""

    measured_as = "multilabel"

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean over examples and labels."""
        if self.criterion is not None:
            return self.criterion(output, target, training=True)
        return F.binary_cross_entropy_with_logits(output, target.to(output.dtype))

    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        """Each example's mean over its labels."""
        if self.criterion is not None:
            return self.criterion(output, target, training=False)
        each = F.binary_cross_entropy_with_logits(output, target.to(output.dtype), reduction="none")
        return each.mean(1)

    def predict(self, output: Tensor) -> Tensor:
        """The labels that are likelier than not."""
        return (output > 0).long()

    def class_scores(self, output: Tensor) -> Tensor:
        """What each label is given, by itself."""
        return output.detach().float().sigmoid()

    def scores(self, predictions: dict[str, Tensor]) -> dict[str, float]:
        """The metrics of a split; targets are whole numbers to all of them."""
        return super().scores({**predictions, "target": predictions["target"].long()})
