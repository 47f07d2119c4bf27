"""Classify: trains any model whose output is one row of logits an example."""

import torch.nn.functional as F
from torch import Tensor

from lightning_bench.common.targets import NO_LABEL
from lightning_bench.models.tasks import probability_scores
from lightning_bench.models.tasks.task import Task


class Classify(Task):
    """Cross-entropy training; targets are classes, or in training probabilities of them.

    A test target of several columns holds the classes that are all right (ReaL).
    """

    measured_as = "classify"

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean cross-entropy, of smoothed labels if the recipe says so."""
        if self.criterion is not None:
            return self.criterion(output, target, training=True)
        return F.cross_entropy(output, target, label_smoothing=self.label_smoothing)

    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        """Each example's cross-entropy; of several right classes the first one's."""
        if target.ndim == 1:
            if self.criterion is not None:
                return self.criterion(output, target, training=False)
            return F.cross_entropy(output, target, reduction="none")
        first = target[:, 0]
        return F.cross_entropy(output, first, reduction="none", ignore_index=NO_LABEL)[
            first != NO_LABEL
        ]

    def predict(self, output: Tensor) -> Tensor:
        """The likeliest class."""
        return output.argmax(-1)

    def class_scores(self, output: Tensor) -> Tensor:
        """The softmax probabilities, in float32."""
        return output.detach().float().softmax(-1)

    def test_scores(self, predictions: dict[str, Tensor]) -> dict[str, float]:
        """The metrics of class probabilities, as far as these are kept, and macro F1."""
        return probability_scores.scores({k: v.cpu().numpy() for k, v in predictions.items()})
