"""The training step: gradients, clipping, update; on one device or as one of several ranks."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import pytorch_lightning as pl
import torch
from torch import Tensor, nn, optim

from lightning_bench.models.tasks.optimisation import Optimisation
from lightning_bench.models.tasks.weight_average import Average


class Batch(Protocol):
    """What a data module yields: `model(*inputs)` is to predict `target`.

    `global_size` counts the examples of the global batch, of which this is one rank's share.
    """

    inputs: tuple[Tensor, ...]
    target: Tensor
    indices: Tensor
    global_size: int

    def _replace(self, **changes: Any) -> Self:
        """The batch with other tensors."""


@dataclass
class Progress:
    """Where training stands. No part of the module, whose attributes are slow to set."""

    total_steps: int = 1
    step: int = 0  # of the optimiser
    batch: int = 0  # of this epoch, each a step
    loss_sum: Tensor = field(default_factory=lambda: torch.zeros(()))  # of this epoch's batches

    def start_epoch(self, device: torch.device) -> None:
        """Start adding up, unless the epoch was begun before a restart."""
        if not self.batch:
            self.loss_sum = torch.zeros((), device=device)

    def mean_loss(self) -> Tensor:
        """Over the epoch's batches, which are of equal size."""
        return self.loss_sum / max(1, self.batch)

    def end_epoch(self) -> None:
        """Have the next epoch start from nothing."""
        self.batch = 0


class Learner(pl.LightningModule):
    """What steps need to know of a task."""

    model: nn.Module
    optimisation: Optimisation
    progress: Progress
    average: Average | None

    def batch_loss(self, batch: Batch) -> Tensor:
        """The mean loss of a training batch, or several such means to be added up."""
        raise NotImplementedError

    def terms(self, target: Tensor) -> Tensor | int:
        """How many terms the loss is the mean of, or each of them."""
        return len(target)

    def all_terms(self, batch: Batch) -> Tensor | int:
        """The same of the global batch, of which this rank has a share."""
        return batch.global_size


class Steps:
    """Takes steps; whatever stays the same from one to the next is looked up once."""

    def __init__(self, task: Learner) -> None:
        trainer, precision = task.trainer, task.trainer.precision_plugin
        self.task, self.recipe, self.progress = task, task.optimisation, task.progress
        self.average = task.average
        self.ranks = trainer.world_size
        self.parts = self.recipe.accumulate
        optimizer = task.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, optim.Optimizer)
        self.optimizer = optimizer
        self.scaler = getattr(precision, "scaler", None)
        self.context: Callable[[], AbstractContextManager[Any]] = nullcontext
        if precision.precision != "32-true":
            self.context = precision.forward_context
        # Lightning scales and synchronises in `manual_backward`; alone there is neither.
        alone = self.ranks == 1 and self.scaler is None
        self.backward: Callable[[Tensor], None] = (
            torch.Tensor.backward if alone else task.manual_backward
        )

    def take(self, batches: Iterable[Batch]) -> None:
        """Take a step for each batch, which the data's `Feed` has on the device."""
        progress, recipe = self.progress, self.recipe
        for batch in batches:
            recipe.set_rate(self.optimizer, progress.step, progress.total_steps)
            if self.ranks == self.parts == 1:
                self._add(batch)
            else:
                self._add_parts(batch)
            if self._update():
                if self.average is not None:
                    self.average.update(self.task.model)
                progress.step += 1
            progress.batch += 1

    def _add(self, batch: Batch, weight: Tensor | float = 1.0) -> None:
        """Add a batch's gradients and loss, by its weight in the step's."""
        with self.context():
            loss = weighted(self.task.batch_loss(batch), weight)
        self.progress.loss_sum += loss.detach()
        self.backward(loss)

    def _add_parts(self, batch: Batch) -> None:
        task, total = self.task, self.task.all_terms(batch)
        parts = split(batch, self.parts)
        for number, part in enumerate(parts, start=1):
            # Ranks take the mean of their gradients: so a part counts by its terms, times ranks.
            weight = task.terms(part.target) * self.ranks / total
            with nullcontext() if number == len(parts) else self._apart():
                self._add(part, weight)

    def _apart(self) -> AbstractContextManager[None]:
        """Where gradients stay on this rank for now."""
        strategy: Any = self.task.trainer.strategy
        return strategy.block_backward_sync() if self.ranks > 1 else nullcontext()

    def _update(self) -> bool:
        """Clip, step and forget the gradients; False where they overflowed and made no step."""
        optimizer, scaler = self.optimizer, self.scaler
        if self.recipe.clip_norm is not None:
            if scaler is not None:
                scaler.unscale_(optimizer)
            groups = optimizer.param_groups
            trained = [parameter for group in groups for parameter in group["params"]]
            nn.utils.clip_grad_norm_(trained, self.recipe.clip_norm)
        stepped = True
        if scaler is None:
            optimizer.step()
        else:
            scale = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            stepped = scaler.get_scale() >= scale  # it is lowered where a step was skipped
        optimizer.zero_grad()
        return stepped


def weighted(loss: Tensor, weight: Tensor | float) -> Tensor:
    """A mean by its weight, or the sum of several, each by its own."""
    if not (isinstance(weight, float) and weight == 1.0):
        loss = loss * weight
    return loss.sum() if loss.ndim else loss


def split(batch: Batch, count: int) -> list[Batch]:
    """Cut a batch into so many parts of about one size."""
    if count == 1:
        return [batch]
    inputs = zip(*(tensor.tensor_split(count) for tensor in batch.inputs), strict=True)
    cut = zip(
        inputs, batch.target.tensor_split(count), batch.indices.tensor_split(count), strict=True
    )
    return [batch._replace(inputs=x, target=y, indices=i) for x, y, i in cut]
