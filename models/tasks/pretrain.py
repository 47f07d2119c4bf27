"""Pretrain: BERT's joint objective, masked words and whether the second part follows the first."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics import Metric

from lightning_bench.common.targets import IGNORED
from lightning_bench.models.tasks.masked_lm import MaskedLM
from lightning_bench.models.tasks.training_steps import Batch

#: Both heads' logits: B×S×words and B×2.
Output = tuple[Tensor, Tensor]


class Pretrain(MaskedLM):
    """The sum of two means: of the masked tokens' cross-entropy, and of the pairs'.

    A target is B×S: the pair's class in the place of [CLS], which is never masked, then the masked
    tokens. The predictions kept of a text have two columns, one for each head.
    """

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__(model, **options)
        self.val_loss = SumOfMeans()
        self.test_losses = nn.ModuleList(SumOfMeans() for _ in self.tests)

    def loss(self, output: Output, target: Tensor) -> Tensor:  # type: ignore[override]
        """Both means, which a step adds up."""
        words, pairs = output
        label, tokens = apart(target)
        return torch.stack([super().loss(words, tokens), F.cross_entropy(pairs.float(), label)])

    def terms(self, target: Tensor) -> Tensor:
        """The number of masked tokens and that of pairs."""
        label, tokens = apart(target)
        return torch.stack([super().terms(tokens), torch.tensor(len(label), device=target.device)])

    def scores(self, predictions: dict[str, Tensor]) -> dict[str, float]:
        """Perplexity and accuracy of the masked tokens, accuracy of the pairs."""
        words = {name: values[:, 0] for name, values in predictions.items() if values.ndim > 1}
        right = predictions["predicted"][:, 1] == predictions["target"][:, 1]
        return {**super().scores(words), "nsp_accuracy": right.double().mean().item()}

    def _evaluate(self, batch: Batch, loss: Any, predictions: Any) -> None:
        words, pairs = self.output(batch)
        label, tokens = apart(batch.target)
        of_tokens = self.losses(words, tokens)
        of_pairs = F.cross_entropy(pairs.float(), label, reduction="none")
        loss.update(of_tokens, of_pairs)
        masked, right, summed = self.by_text(words, tokens, of_tokens)
        predictions.update(
            batch.indices,
            torch.stack([masked, label], 1),
            torch.stack([right, pairs.argmax(-1)], 1),
            torch.stack([summed, of_pairs], 1),
        )


class SumOfMeans(Metric):
    """The mean of the tokens' losses plus the mean of the pairs'."""

    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("total", "count"):
            self.add_state(name, torch.zeros(2, dtype=torch.double), dist_reduce_fx="sum")

    def update(self, *losses: Tensor) -> None:
        """Add a batch."""
        self.total = self.total + torch.stack([values.double().sum() for values in losses])
        self.count = self.count + torch.tensor([len(v) for v in losses], device=self.count.device)

    def compute(self) -> Tensor:
        """Of all batches."""
        return (self.total / self.count).sum()


def apart(target: Tensor) -> tuple[Tensor, Tensor]:
    """The pairs' classes, and what is wanted of the tokens, nothing of the first."""
    tokens = target.clone()
    tokens[:, 0] = IGNORED
    return target[:, 0], tokens
