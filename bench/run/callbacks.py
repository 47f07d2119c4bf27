"""Lightning callbacks that read a training: learning curve, final weights, probes."""

import importlib
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from lightning_bench.bench.run.distributed import Parting, Terminated
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.record import Epoch
from lightning_bench.common import heartbeat
from lightning_bench.data.modules.contract import DataModule
from lightning_bench.models.probes import PROBES
from lightning_bench.models.tasks.fsdp_tensors import gathered
from lightning_bench.models.tasks.task import Task
from lightning_bench.models.tasks.training_steps import Batch

#: Where Lightning has a batch's number among what it gives a hook: trainer, module, outputs, batch.
_BATCH_IDX = 4
#: Of an array that is kept for figures.
_MOST_ROWS = 512


class Diverged(ArithmeticError):
    """The loss is no finite number any more."""


@dataclass
class LearningCurve(pl.Callback):
    """Keeps the learning curve: reads each epoch's results once, and stops a diverged run."""

    on_epoch: Callable[[Epoch], None]
    val_size: int
    epochs: list[Epoch] = field(default_factory=list)
    validation_s: float = 0.0
    probe: Callable[[Task], dict[str, float]] = lambda task: {}

    def on_validation_start(self, *_: Any) -> None:
        """Validation is no part of the training speed."""
        _synchronise()
        self._validation_started = time.perf_counter()

    def on_validation_end(self, *_: Any) -> None:
        """Stop the clock of the validation."""
        _synchronise()
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
        self.epochs.append(epoch)
        self.on_epoch(epoch)


@dataclass
class FinalWeights(pl.Callback):
    """Ends the training, and keeps the final weights where they are to be kept."""

    keep: bool
    weights: dict[str, torch.Tensor] | None = None

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Lightning skips a training that an earlier attempt had finished, and its end."""
        if trainer.current_epoch >= (trainer.max_epochs or 0):
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


@dataclass
class TestResults(pl.Callback):
    """Reads the results of the test while the model is on its device yet.

    Lightning's teardown takes it to the CPU: there a probe would run on other kernels, and what a
    process group of GPUs is to gather would be in the wrong place.
    """

    sizes: Mapping[str, int]
    probe: Callable[[Task], dict[str, float]]
    training: Callable[[Task], Iterable[Batch] | None] = lambda task: None
    arrays_of: Callable[[Task], dict[str, np.ndarray]] = lambda task: {}
    metrics: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    predictions: dict[str, np.ndarray] = field(default_factory=dict)
    scored: int = 0

    def on_test_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Gather the results of all ranks, and check that every example was scored once."""
        assert isinstance(pl_module, Task)
        task, (self.metrics, predictions) = pl_module, pl_module.test_results()
        for name in task.tests:
            prefix = "" if name == task.tests[0] else f"{name}_"
            check_scored(predictions[f"{prefix}index"], self.sizes[name])
        self.predictions = {name: value.cpu().numpy() for name, value in predictions.items()}
        self.scored = sum(self.sizes[name] for name in task.tests)
        if (sample := self.training(task)) is not None:
            with trainer.precision_plugin.forward_context():
                self.metrics |= task.training_results(sample)
        with torch.inference_mode(False), torch.enable_grad():  # probes take gradients
            self.metrics |= self.probe(task)
            self.arrays = self.arrays_of(task)


@dataclass
class FailureCallback(pl.Callback):
    """Reports a failure before Lightning's teardown, which moves the model and so may hang."""

    report: Callable[[BaseException], None]

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Report what is no ending that was agreed on."""
        if not isinstance(exception, Parting | Terminated):
            self.report(exception)


class HeartbeatCallback(pl.Callback):
    """Shows that the run gets on: steps, batches of a validation or test, what goes on between.

    With several ranks also whether this one waits for the others, as it does in a backward pass,
    where gradients are averaged.
    """

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any
    ) -> None:
        """Some steps have been taken."""
        step = pl_module.progress.step if isinstance(pl_module, Task) else trainer.global_step
        heartbeat.beat(f"step {step}")

    def on_before_backward(self, trainer: pl.Trainer, *_: Any) -> None:
        """The other ranks' gradients are waited for from here."""
        if trainer.world_size > 1:
            heartbeat.wait(True)

    def on_after_backward(self, trainer: pl.Trainer, *_: Any) -> None:
        """They have come."""
        if trainer.world_size > 1:
            heartbeat.wait(False)

    def on_validation_batch_end(self, *hook: Any) -> None:
        """A batch of the validation has been scored."""
        heartbeat.beat(f"batch {hook[_BATCH_IDX] + 1} of a validation")

    def on_test_batch_end(self, *hook: Any) -> None:
        """A batch of a test has been scored."""
        heartbeat.beat(f"batch {hook[_BATCH_IDX] + 1} of the test")

    def on_predict_batch_end(self, *hook: Any) -> None:
        """A batch of a test has been predicted, by a module of the user's own."""
        heartbeat.beat(f"batch {hook[_BATCH_IDX] + 1} of the predictions")

    def on_train_epoch_end(self, *_: Any) -> None:
        """Curve, probes and checkpoints come next."""
        heartbeat.beat("the end of an epoch")


def _synchronise() -> None:
    """Wait until a GPU has done what was asked of it."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def check_scored(index: torch.Tensor, size: int, split: str = "test") -> None:
    """Check that every example of a split was scored exactly once."""
    if not torch.equal(index.cpu(), torch.arange(size)):
        unique = len(torch.unique(index))
        raise AssertionError(
            f"scored {len(index)} {split} examples, {unique} of them different, instead of {size}"
        )


def make_probe(spec: RunSpec, data: DataModule) -> Callable[[Task], dict[str, float]]:
    """A function that runs the probes of a spec on the model, on the first validation batch."""
    measures = [importlib.import_module(PROBES[name].module).measure for name in spec.probes]

    def probe(task: Task) -> dict[str, float]:
        values: dict[str, float] = {}
        for found in _probed(measures, task, data):
            values |= found
        return values

    return probe


def make_array_probe(spec: RunSpec, data: DataModule) -> Callable[[Task], dict[str, np.ndarray]]:
    """A function that returns what probes keep for figures, as `probe/title`, in half precision."""
    names = [name for name in spec.probes if PROBES[name].arrays]
    kept = [importlib.import_module(PROBES[name].module).arrays for name in names]

    def probe(task: Task) -> dict[str, np.ndarray]:
        return {
            f"{name}/{title}": _at_half(values)
            for name, found in zip(names, _probed(kept, task, data), strict=True)
            for title, values in found.items()
        }

    return probe


def _probed(measures: list[Callable[..., Any]], task: Task, data: DataModule) -> list[Any]:
    """What each of some measures finds on the first validation batch."""
    if not measures:
        return []
    inputs = tuple(x.to(task.device) for x in next(iter(data.val_dataloader())).inputs)
    with task.evaluated(), gathered(task.model):
        return [measure(task.model, inputs) for measure in measures]


def _at_half(values: torch.Tensor) -> np.ndarray:
    """A matrix over its largest value, which half precision can hold, thinned if it is large."""
    step = -(-max(values.shape) // _MOST_ROWS)
    thinned = values[::step, ::step].double()
    return (thinned / thinned.abs().max().clamp_min(1e-300)).numpy().astype(np.float16)


class StrictTraining(pl.Callback):
    """Has only deterministic operations in training steps; evaluation is warned of others.

    So what happens after hours, in a validation or the test, can be no error.
    """

    def on_train_batch_start(self, *_: Any) -> None:
        """Refuse what is not deterministic."""
        torch.use_deterministic_algorithms(True)

    def on_train_batch_end(self, *_: Any) -> None:
        """Warn of it, as the trainer does."""
        torch.use_deterministic_algorithms(True, warn_only=True)
