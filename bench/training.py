"""One run inside its own process: data, model, Lightning, and what came out."""

import importlib
import math
import random
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities import disable_possible_user_warnings

from bench import fitting
from bench.record import DataFacts, Epoch
from bench.sources import dataset_of, task_module
from bench.spec import WEIGHTS, Recipe, RunSpec, Scalar
from data import repository
from data.dataset import DataSet
from data.errors import DataError
from data.examples import Example
from models import registry
from models.tasks.optimisation import Optimisation
from models.tasks.task import Task

_PRECISION: dict[str, Literal["32-true", "bf16-mixed", "16-mixed"]] = {
    "fp32": "32-true",
    "bf16": "bf16-mixed",
    "fp16": "16-mixed",
}


class Diverged(ArithmeticError):
    """The loss is no finite number any more."""


class DataProblem(Exception):
    """The data could not be loaded or is not what the catalogue promises."""


class DataModule(Protocol):
    """What every data module offers beyond Lightning's own."""

    entry: DataSet
    fingerprint: str

    @property
    def sizes(self) -> dict[str, int]:
        """The number of examples of each split."""

    def setup(self, stage: str | None = None) -> None:
        """Load the data."""

    def examples(self) -> list[Example]:
        """A few training examples, for people to look at."""

    def facts(self) -> dict[str, int]:
        """The model arguments that the data decides."""


@dataclass(frozen=True)
class Outcome:
    """What training and the one test left, before it becomes a record."""

    metrics: dict[str, float]
    scored: int
    predictions: dict[str, np.ndarray]
    curve: list[Epoch]
    data: DataFacts
    parameters: int
    trainable_parameters: int
    train_s: float
    train_examples_per_s: float


@dataclass
class Reporter(pl.Callback):
    """Reads an epoch's results once, stops a diverged run and keeps the learning curve."""

    tell: Callable[[Epoch], None]
    curve: list[Epoch] = field(default_factory=list)
    validation_s: float = 0.0

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
        epoch = Epoch(
            epoch=trainer.current_epoch + 1,
            step=trainer.global_step,
            train_loss=results.pop("train_loss"),
            val_loss=results.pop("val_loss"),
            metrics=results,
        )
        if not math.isfinite(epoch.train_loss):
            raise Diverged(f"the training loss is {epoch.train_loss} in epoch {epoch.epoch}")
        self.curve.append(epoch)
        self.tell(epoch)


def train(
    spec: RunSpec,
    *,
    device: str,
    tell: Callable[[Epoch], None],
    loaded: Callable[[DataModule], None] = lambda data: None,
) -> Outcome:
    """Train as the spec says, then score the test split once; `loaded` is shown the data."""
    _quieten()
    seed_everything(spec.seed)
    data = load(spec)
    loaded(data)
    model = registry.create(spec.model.name, **data.facts(), **_arguments(spec))
    task = make_task(model, data.entry, spec.recipe)
    reporter = Reporter(tell)
    trainer = pl.Trainer(
        accelerator="gpu" if device == "cuda" else device,
        devices=1,
        max_epochs=spec.recipe.epochs,
        precision=_PRECISION[spec.recipe.precision],
        gradient_clip_val=spec.recipe.clip_norm,
        # Ops without a deterministic form are rare and worth a warning, not a failure.
        deterministic="warn",
        callbacks=[reporter],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
    )
    started = time.perf_counter()
    trainer.fit(task, datamodule=data)  # type: ignore[arg-type]
    train_s = time.perf_counter() - started
    trainer.test(task, datamodule=data, verbose=False)  # type: ignore[arg-type]
    metrics, predictions = task.test_results()
    for name in task.tests:
        prefix = "" if name == task.tests[0] else f"{name}_"
        check_scored(predictions[f"{prefix}index"], data.sizes[name])
    tested = sum(data.sizes[name] for name in task.tests)
    seen = trainer.global_step * spec.recipe.batch_size
    return Outcome(
        metrics=metrics,
        scored=tested,
        predictions={name: value.cpu().numpy() for name, value in predictions.items()},
        curve=reporter.curve,
        data=DataFacts(
            fingerprint=data.fingerprint,
            train=data.sizes["train"],
            val=data.sizes["val"],
            test=tested,
        ),
        parameters=sum(p.numel() for p in model.parameters()),
        trainable_parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
        train_s=train_s,
        train_examples_per_s=seen / (train_s - reporter.validation_s),
    )


def check_scored(index: torch.Tensor, size: int) -> None:
    """Every test example exactly once, or the run is worth nothing."""
    if not torch.equal(index.cpu(), torch.arange(size)):
        unique = len(torch.unique(index))
        raise AssertionError(
            f"scored {len(index)} test examples, {unique} of them different, instead of {size}"
        )


def optimisation(recipe: Recipe) -> Optimisation:
    """The part of a recipe that the optimiser needs."""
    names = Optimisation.__dataclass_fields__
    return Optimisation(**{name: getattr(recipe, name) for name in names})


def seed_everything(seed: int) -> None:
    """Seed every generator that a model's initialisation or training may draw from."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def load(spec: RunSpec) -> DataModule:
    """Load the data of a run with the module that its kind of data set has."""
    try:
        entry = dataset_of(spec.data)
        if useless := fitting.without_effect(entry, spec.recipe):
            raise DataError(f"{entry.name}: nothing here is done with {', '.join(useless)}")
        module = importlib.import_module(entry.module)
        data: DataModule = module.make(
            entry,
            recipe=spec.recipe.model_dump(),
            batch_size=spec.recipe.batch_size,
            seed=spec.seed,
            sample=spec.data.sample,
        )
        data.setup()
    except Exception as error:
        raise DataProblem(str(error)) from error
    return data


def _arguments(spec: RunSpec) -> dict[str, Scalar]:
    """The model's arguments, with repositories of weights as their folders on this machine."""
    found = dict(spec.model.args)
    try:
        for name in WEIGHTS & found.keys():
            if not Path(str(found[name])).is_dir():
                files = repository.files(str(found[name]), repository.WEIGHTS, kind="model")
                found[name] = str(files[0].parent)
    except DataError as error:
        raise DataProblem(str(error)) from error
    return found


def make_task(model: torch.nn.Module, entry: DataSet, recipe: Recipe) -> Task:
    """The LightningModule of a data set's task."""
    module = importlib.import_module(task_module(entry))
    task: Task = module.make(
        model,
        label_smoothing=recipe.label_smoothing,
        optimisation=optimisation(recipe),
        metrics=entry.metrics,
        tests=entry.tests,
    )
    return task


def _quieten() -> None:
    """Silence what Lightning says of choices that were made on purpose."""
    disable_possible_user_warnings()
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
