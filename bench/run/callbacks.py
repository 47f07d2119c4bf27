"""Reporter: what is read of a training at each epoch's end, and at its own."""

import importlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytorch_lightning as pl
import torch

from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.record import Epoch
from lightning_bench.data.modules.contract import DataModule
from lightning_bench.models.probes import PROBES
from lightning_bench.models.tasks.fsdp_tensors import gathered
from lightning_bench.models.tasks.task import Task


class Diverged(ArithmeticError):
    """The loss is no finite number any more."""


@dataclass
class Reporter(pl.Callback):
    """Reads an epoch's results once, stops a diverged run and keeps the learning curve."""

    tell: Callable[[Epoch], None]
    val_size: int
    curve: list[Epoch] = field(default_factory=list)
    validation_s: float = 0.0
    probe: Callable[[Task], dict[str, float]] = lambda task: {}

    def on_validation_start(self, *_: Any) -> None:
        """Validation is no part of the training speed."""
        self._validation_started = time.perf_counter()

    def on_validation_end(self, *_: Any) -> None:
        """Stop the clock of the validation."""
        self.validation_s += time.perf_counter() - self._validation_started

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Add a point to the curve."""
        assert isinstance(pl_module, Task)
        results = pl_module.epoch_results()
        check_scored(pl_module.val_index, self.val_size, "validation")
        epoch = Epoch(
            epoch=trainer.current_epoch + 1,
            step=pl_module.progress.step,
            train_loss=results.pop("train_loss"),
            val_loss=results.pop("val_loss"),
            metrics=results | self.probe(pl_module),
        )
        if not math.isfinite(epoch.train_loss):
            raise Diverged(f"the training loss is {epoch.train_loss} in epoch {epoch.epoch}")
        self.curve.append(epoch)
        self.tell(epoch)


@dataclass
class Ending(pl.Callback):
    """Ends the training, and takes the final weights along where they are to be kept."""

    keep: bool
    weights: dict[str, torch.Tensor] | None = None

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Lightning skips a training that an earlier attempt had finished, and its end."""
        if trainer.fit_loop.done:
            self.on_train_end(trainer, pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """All ranks take part, since a sharded model is gathered from them."""
        assert isinstance(pl_module, Task)
        pl_module.finish()
        if self.keep:
            state = trainer.strategy.lightning_module_state_dict()
            self.weights = {
                name.removeprefix("model."): value.detach().cpu().clone()
                for name, value in state.items()
                if name.startswith("model.")
            }


def check_scored(index: torch.Tensor, size: int, split: str = "test") -> None:
    """Every example of a split exactly once, or the run is worth nothing."""
    if not torch.equal(index.cpu(), torch.arange(size)):
        unique = len(torch.unique(index))
        raise AssertionError(
            f"scored {len(index)} {split} examples, {unique} of them different, instead of {size}"
        )


def prober(spec: RunSpec, data: DataModule) -> Callable[[Task], dict[str, float]]:
    """What measures the model as evaluation sees it, on the first validation batch."""
    measures = [importlib.import_module(PROBES[name].module).measure for name in spec.probes]

    def probe(task: Task) -> dict[str, float]:
        found: dict[str, float] = {}
        if measures:
            inputs = tuple(x.to(task.device) for x in next(iter(data.val_dataloader())).inputs)
            with task.evaluated(), gathered(task.model):
                for measure in measures:
                    found |= measure(task.model, inputs)
        return found

    return probe
