"""Classify: trains any model whose output is one row of logits an example."""

from typing import Any, Protocol

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics import MeanMetric

from models.tasks.optimisation import Optimisation
from models.tasks.predictions import Predictions


class Batch(Protocol):
    """What a data module yields: `model(*inputs)` is to predict `target`."""

    inputs: tuple[Tensor, ...]
    target: Tensor
    index: Tensor


class Classify(pl.LightningModule):
    """Cross-entropy training with accuracy on validation and per-example test predictions.

    Nothing is logged a step, since `self.log` costs more than a small model's step: the losses
    add up in tensors and are read once an epoch, by whoever asks (`epoch_results`).
    """

    def __init__(
        self, model: nn.Module, *, label_smoothing: float, optimisation: Optimisation
    ) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        self.optimisation = optimisation
        self.train_loss = MeanMetric(nan_strategy="disable")
        self.val_loss = MeanMetric(nan_strategy="disable")
        self.val_accuracy = MeanMetric(nan_strategy="disable")
        self.test_loss = MeanMetric(nan_strategy="disable")
        self.predictions = Predictions()

    def configure_optimizers(self) -> Any:
        """The recipe's optimiser and schedule over all steps of the run."""
        return self.optimisation.configure(self.model, int(self.trainer.estimated_stepping_batches))

    def on_train_epoch_start(self) -> None:
        """Start adding up the losses of an epoch."""
        self._loss_sum = torch.zeros((), device=self.device)
        self._steps = 0

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The batch's loss; batches of an epoch are of equal size."""
        logits = self.model(*batch.inputs)
        loss = F.cross_entropy(logits, batch.target, label_smoothing=self.label_smoothing)
        self._loss_sum += loss.detach()
        self._steps += 1
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Add a batch to the validation's loss and accuracy."""
        logits = self.model(*batch.inputs)
        self.val_loss.update(F.cross_entropy(logits, batch.target, reduction="none"))
        self.val_accuracy.update((logits.argmax(-1) == batch.target).float())

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Add a batch to the test's loss and keep its predictions."""
        logits = self.model(*batch.inputs)
        self.test_loss.update(F.cross_entropy(logits, batch.target, reduction="none"))
        self.predictions.update(batch.index, batch.target, logits.argmax(-1))

    def epoch_results(self) -> dict[str, float]:
        """This epoch's `train_loss`, `val_loss` and `accuracy`; all ranks must call it."""
        self.train_loss.update(self._loss_sum / max(1, self._steps), self._steps)
        results = {
            "train_loss": self.train_loss.compute().item(),
            "val_loss": self.val_loss.compute().item(),
            "accuracy": self.val_accuracy.compute().item(),
        }
        for metric in (self.train_loss, self.val_loss, self.val_accuracy):
            metric.reset()
        return results

    def test_results(self) -> tuple[dict[str, float], dict[str, Tensor]]:
        """The test metrics and the predictions they come from; all ranks must call it."""
        predictions = self.predictions.compute()
        correct = predictions["predicted"] == predictions["target"]
        metrics = {
            "accuracy": correct.double().mean().item(),
            "loss": self.test_loss.compute().item(),
        }
        return metrics, predictions
