"""MaskedLM: trains any text model with one row of logits a token to fill in masked tokens."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lightning_bench.common.targets import IGNORED
from lightning_bench.models.tasks.task import Task
from lightning_bench.models.tasks.training_steps import Batch


class MaskedLM(Task):
    """Cross-entropy of the masked tokens alone; every masked token weighs the same.

    A smoothed loss would be no perplexity, so that labels are never smoothed. The predictions kept
    of a text are how many of its tokens were masked, how many of these were right, and their loss.
    """

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean over the batch's masked tokens."""
        masked = target != IGNORED
        # Picking first spares the softmax of the 85 % that don't count.
        return F.cross_entropy(output[masked].float(), target[masked])

    def terms(self, target: Tensor) -> Tensor:
        """The number of masked tokens."""
        return (target != IGNORED).sum()

    def all_terms(self, batch: Batch) -> Tensor:
        """The masked tokens of all ranks."""
        count = self.terms(batch.target)
        if self.trainer.world_size > 1:
            torch.distributed.all_reduce(count)
        return count

    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss of each masked token."""
        masked = target != IGNORED
        return F.cross_entropy(output[masked].float(), target[masked], reduction="none")

    def predict(self, output: Tensor) -> Tensor:
        """The likeliest token at each place."""
        return output.argmax(-1)

    def scores(self, predictions: dict[str, Tensor]) -> dict[str, float]:
        """The perplexity of masked tokens, exp of their mean loss, and the share of right ones."""
        masked = predictions["target"].double().sum()
        loss = predictions["loss"].double().sum() / masked
        return {
            "perplexity": math.exp(min(loss.item(), 700.0)),
            "masked_accuracy": (predictions["predicted"].double().sum() / masked).item(),
        }

    def _evaluate(self, batch: Batch, loss: Any, predictions: Any) -> None:
        output = self.output(batch)
        losses = self.losses(output, batch.target)
        loss.update(losses)
        predictions.update(batch.indices, *self.by_text(output, batch.target, losses))

    def by_text(
        self, output: Tensor, target: Tensor, losses: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """How many tokens of each text were masked, how many are right, and their loss."""
        masked = target != IGNORED
        texts = torch.nonzero(masked)[:, 0]
        summed = torch.zeros(len(masked), device=losses.device).index_add_(0, texts, losses.float())
        right = (self.predict(output) == target) & masked
        return masked.sum(1), right.sum(1), summed
