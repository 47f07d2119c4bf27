"""Task: what all the LightningModules share that train a model and score it once."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, Self

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torchmetrics import MeanMetric

from models.tasks.freezing import freeze_body, train_head
from models.tasks.optimisation import Optimisation
from models.tasks.predictions import Predictions
from models.tasks.scores import score


class Batch(Protocol):
    """What a data module yields: `model(*inputs)` is to predict `target`."""

    inputs: tuple[Tensor, ...]
    target: Tensor
    index: Tensor


class Task(pl.LightningModule, ABC):
    """Training, validation and the one test of a model; a subclass says what loss that is.

    Nothing is logged a step, since `self.log` costs more than a small model's step: the losses
    add up in tensors and are read once an epoch, by whoever asks (`epoch_results`). `tests` names
    the test splits in the order of their loaders; metrics and predictions of all but the first
    carry the split's name.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        optimisation: Optimisation,
        metrics: Sequence[str],
        tests: Sequence[str] = ("test",),
    ) -> None:
        super().__init__()
        self.model = model
        self.optimisation = optimisation
        self.metrics = tuple(metrics)
        self.tests = tuple(tests)
        self.head_only = False
        self.train_loss = _mean()
        self.val_loss = _mean()
        self.val_predictions = Predictions()
        self.test_losses = nn.ModuleList(_mean() for _ in self.tests)
        self.test_predictions = nn.ModuleList(Predictions() for _ in self.tests)

    @abstractmethod
    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """The mean loss of a training batch."""

    @abstractmethod
    def losses(self, output: Tensor, target: Tensor) -> Tensor:
        """The loss of each example in evaluation."""

    @abstractmethod
    def predict(self, output: Tensor) -> Tensor:
        """The prediction for each example."""

    def freeze_body(self) -> None:
        """Train the head alone from now on."""
        freeze_body(self.model)
        self.head_only = True

    def train(self, mode: bool = True) -> Self:
        """Put into training what is trained; a frozen body stays in evaluation."""
        super().train(mode)
        if mode and self.head_only:
            train_head(self.model)
        return self

    def configure_optimizers(self) -> Any:
        """The recipe's optimiser and schedule over all steps of the run."""
        return self.optimisation.configure(self.model, int(self.trainer.estimated_stepping_batches))

    def on_train_epoch_start(self) -> None:
        """Start adding up the losses of an epoch."""
        self._loss_sum = torch.zeros((), device=self.device)
        self._steps = 0

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The batch's loss; batches of an epoch are of equal size."""
        loss = self.loss(self.model(*batch.inputs), batch.target)
        self._loss_sum += loss.detach()
        self._steps += 1
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Add a batch to the validation."""
        self._evaluate(batch, self.val_loss, self.val_predictions)

    def test_step(self, batch: Batch, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Add a batch to one of the tests."""
        self._evaluate(
            batch, self.test_losses[dataloader_idx], self.test_predictions[dataloader_idx]
        )

    def epoch_results(self) -> dict[str, float]:
        """This epoch's `train_loss`, `val_loss` and metrics; all ranks must call it."""
        self.train_loss.update(self._loss_sum / max(1, self._steps), self._steps)
        results = {
            "train_loss": self.train_loss.compute().item(),
            "val_loss": self.val_loss.compute().item(),
            **self.scores(self.val_predictions.compute()),
        }
        for metric in (self.train_loss, self.val_loss, self.val_predictions):
            metric.reset()
        return results

    def test_results(self) -> tuple[dict[str, float], dict[str, Tensor]]:
        """The test metrics and the predictions they come from; all ranks must call it."""
        metrics: dict[str, float] = {}
        predictions: dict[str, Tensor] = {}
        for i, (name, loss, found) in enumerate(self._tests()):
            computed = found.compute()
            scores = {**self.scores(computed), "loss": loss.compute().item()}
            metrics |= {f"{key}_{name}" if i else key: value for key, value in scores.items()}
            predictions |= {f"{name}_{key}" if i else key: v for key, v in computed.items()}
        return metrics, predictions

    def scores(self, predictions: dict[str, Tensor]) -> dict[str, float]:
        """The metrics of a split."""
        return score(self.metrics, predictions)

    def _tests(self) -> Iterable[tuple[str, Any, Any]]:
        return zip(self.tests, self.test_losses, self.test_predictions, strict=True)

    def _evaluate(self, batch: Batch, loss: Any, predictions: Any) -> None:
        output = self.model(*batch.inputs)
        loss.update(self.losses(output, batch.target))
        predictions.update(batch.index, batch.target, self.predict(output))


def _mean() -> MeanMetric:
    return MeanMetric(nan_strategy="disable")
