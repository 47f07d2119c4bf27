"""Task: what all the LightningModules share that train a model and score it once."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, Self

import pytorch_lightning as pl
import torch
from torch import Tensor, nn, optim
from torchmetrics import MeanMetric

from models.tasks.average import Average
from models.tasks.freezing import freeze_body, train_head
from models.tasks.optimisation import Optimisation
from models.tasks.predictions import Predictions
from models.tasks.scores import score


class Batch(Protocol):
    """What a data module yields: `model(*inputs)` is to predict `target`."""

    inputs: tuple[Tensor, ...]
    target: Tensor
    index: Tensor
    together: int

    def _replace(self, **changes: Any) -> Self:
        """The batch with other tensors."""


class Task(pl.LightningModule, ABC):
    """Training, validation and the one test of a model; a subclass says what loss that is.

    Nothing is logged a step, since `self.log` costs more than a small model's step: the losses
    add up in tensors and are read once an epoch, by whoever asks (`epoch_results`). `tests` names
    the test splits in the order of their loaders; metrics and predictions of all but the first
    carry the split's name. Before training, `total_steps` is to be set.

    `step`, `batch` and `loss_sum` are where training stands; set before an epoch starts, it goes
    on from there.
    """

    #: A split may have fewer examples than there are ranks.
    allow_zero_length_dataloader_with_multiple_devices = True

    def __init__(
        self,
        model: nn.Module,
        *,
        optimisation: Optimisation,
        metrics: Sequence[str],
        tests: Sequence[str] = ("test",),
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model = model
        self.optimisation = optimisation
        self.metrics = tuple(metrics)
        self.tests = tuple(tests)
        self.head_only = False
        self.average: Average | None = None
        self.total_steps = 1
        self.step = 0  # of the optimiser
        self.batch = 0  # of this epoch, each a step
        self.loss_sum = torch.zeros(())  # over this epoch's batches
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

    def average_weights(self, decay: float) -> None:
        """Evaluate with averages of the weights from now on."""
        self.average = Average(self.model, decay)

    def finish(self) -> None:
        """End the training: the averages, if there are any, are the model's weights now."""
        if self.average is not None:
            self.average.copy_to(self.model)

    def evaluated(self) -> AbstractContextManager[None]:
        """Where the model has the weights that evaluation uses."""
        return self.average.inside(self.model) if self.average is not None else nullcontext()

    def output(self, batch: Batch) -> Any:
        """What evaluation is of."""
        if self.average is None:
            return self.model(*batch.inputs)
        return self.average.apply_to(self.model, batch.inputs)

    def train(self, mode: bool = True) -> Self:
        """Put into training what is trained; a frozen body stays in evaluation."""
        super().train(mode)
        if mode and self.head_only:
            train_head(self.model)
        return self

    def terms(self, target: Tensor) -> Tensor | int:
        """How many terms the loss is the mean of."""
        return len(target)

    def all_terms(self, batch: Batch) -> Tensor | int:
        """The same of the global batch, of which this rank has a share."""
        return batch.together

    def configure_optimizers(self) -> optim.Optimizer:
        """The recipe's optimiser; its learning rate is set at every step."""
        return self.optimisation.optimizer_of(self.model)

    def on_train_epoch_start(self) -> None:
        """Start adding up the losses, unless the epoch was begun before a restart."""
        if not self.batch:
            self.loss_sum = torch.zeros((), device=self.device)

    def training_step(self, bite: Iterable[Batch], batch_idx: int) -> None:
        """Take a step for each of these batches.

        They may be several, since Lightning's own work for a call costs more than a small model's
        step; where one call ends and the next begins changes no number.
        """
        optimizer = self.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, optim.Optimizer)
        for batch in bite:
            if self.device.type != "cpu":
                batch = self.transfer_batch_to_device(batch, self.device, 0)
            self.optimisation.set_rate(optimizer, self.step, self.total_steps)
            self._backward(batch)
            self._update(optimizer)
            if self.average is not None:
                self.average.update(self.model)
            self.step += 1
            self.batch += 1

    def add_loss(self, batch: Batch, weight: Tensor | float = 1.0) -> Tensor:
        """The batch's loss, by its weight in the step's, which is added to the epoch's."""
        with self._precision():
            loss = self.loss(self.model(*batch.inputs), batch.target)
        if not (isinstance(weight, float) and weight == 1.0):
            loss = loss * weight
        self.loss_sum += loss.detach()
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
        """This epoch's `train_loss`, `val_loss` and metrics, which ends it; all ranks must call."""
        self.train_loss.update(self.loss_sum / max(1, self.batch), self.batch)
        results = {
            "train_loss": self.train_loss.compute().item(),
            "val_loss": self.val_loss.compute().item(),
            **self.scores(self.val_predictions.compute()),
        }
        for metric in (self.train_loss, self.val_loss, self.val_predictions):
            metric.reset()
        self.batch = 0
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

    def _backward(self, batch: Batch) -> None:
        """Add up the gradients of a batch, in as many parts as the recipe says."""
        count, ranks = self.optimisation.accumulate, self.trainer.world_size
        if count == ranks == 1:
            self.manual_backward(self.add_loss(batch))
            return
        total = self.all_terms(batch)
        parts = split(batch, count)
        for number, part in enumerate(parts, start=1):
            # Ranks take the mean of their gradients: so a part counts by its terms, times ranks.
            weight = self.terms(part.target) * ranks / total
            with nullcontext() if number == len(parts) else self._alone():
                self.manual_backward(self.add_loss(part, weight))

    def _alone(self) -> AbstractContextManager[None]:
        """Where gradients stay on this rank for now."""
        strategy = self.trainer.strategy
        return strategy.block_backward_sync() if self.trainer.world_size > 1 else nullcontext()

    def _update(self, optimizer: optim.Optimizer) -> None:
        """Clip, step and forget the gradients."""
        scaler = getattr(self.trainer.precision_plugin, "scaler", None)
        clip_norm = self.optimisation.clip_norm
        if clip_norm is not None:
            if scaler is not None:
                scaler.unscale_(optimizer)
            # A sharded model has a method of its own for it.
            whole = getattr(self.model, "clip_grad_norm_", None)
            if whole is not None:
                whole(clip_norm)
            else:
                parameters = [p for group in optimizer.param_groups for p in group["params"]]
                nn.utils.clip_grad_norm_(parameters, clip_norm)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad()

    def _precision(self) -> AbstractContextManager[Any]:
        """What the forward pass of training runs in."""
        if self._trainer is None:
            return nullcontext()
        return self.trainer.precision_plugin.forward_context()

    def _evaluate(self, batch: Batch, loss: Any, predictions: Any) -> None:
        output = self.output(batch)
        loss.update(self.losses(output, batch.target))
        predictions.update(batch.index, batch.target, self.predict(output))


def split(batch: Batch, count: int) -> list[Batch]:
    """Cut a batch into so many parts of about one size."""
    if count == 1:
        return [batch]
    inputs = zip(*(tensor.tensor_split(count) for tensor in batch.inputs), strict=True)
    cut = zip(
        inputs, batch.target.tensor_split(count), batch.index.tensor_split(count), strict=True
    )
    return [batch._replace(inputs=x, target=y, index=i) for x, y, i in cut]


def _mean() -> MeanMetric:
    return MeanMetric(nan_strategy="disable")
