"""One run inside its own process: data, model, Lightning, and what came out."""

import importlib
import math
import random
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pytorch_lightning as pl
import torch
import torch.distributed as dist
from pytorch_lightning.plugins.precision import FSDPPrecision, MixedPrecision
from pytorch_lightning.utilities import disable_possible_user_warnings

from bench import fitting
from bench import start as starts
from bench.checkpoint import State
from bench.conductor import Conductor, Control, Loader, Pruned
from bench.order import Strategy, unfit
from bench.ranks import ALONE, Environment, Rank
from bench.record import DataFacts, Epoch, Start
from bench.sources import dataset_of, task_module
from bench.spec import Recipe, RunSpec
from bench.start import Origin
from data import repository
from data.dataset import DataSet
from data.errors import DataError
from data.examples import Example
from models import registry
from models.heads import add_pair_head
from models.probes import PROBES
from models.tasks.freezing import freeze_body
from models.tasks.optimisation import Optimisation
from models.tasks.synchronised import synchronised
from models.tasks.task import Task

#: What stands in a checkpoint where nothing has gone before.
_BEFORE: State = {"curve": [], "validation_s": 0.0, "train_s": 0.0, "total_s": 0.0, "attempts": []}


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

    def train_dataloader(self) -> Loader:
        """This rank's training batches."""

    def val_dataloader(self) -> Any:
        """This rank's validation batches."""

    def test_dataloader(self) -> Any:
        """This rank's batches of each test split."""


@dataclass(frozen=True)
class Outcome:
    """What training and the one test left, before it becomes a record.

    A pruned run and a trial have no metrics. The seconds are of all attempts that it went on from.
    """

    pruned: bool
    metrics: dict[str, float]
    scored: int
    predictions: dict[str, np.ndarray]
    curve: list[Epoch]
    data: DataFacts
    parameters: int
    trainable_parameters: int
    train_s: float
    train_examples_per_s: float
    resumed_from: list[int]
    earlier_s: float  # of those attempts, as far as this one goes on from them
    weights: dict[str, torch.Tensor] | None = None  # the final ones, if they are to be kept
    start: Start | None = None
    checkpoints: dict[str, str] = field(default_factory=dict)


class _Resumed(NamedTuple):
    """An earlier attempt, and where it stood."""

    attempt: int
    state: State


class Mixed(MixedPrecision):
    """Mixed precision in the forward pass alone: a call takes several steps, backward and all."""

    @contextmanager
    def train_step_context(self) -> Generator[None, None, None]:
        """Nothing: the task enters the context itself."""
        yield


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


def train(
    spec: RunSpec,
    *,
    device: str,
    tell: Callable[[Epoch], None],
    loaded: Callable[[DataModule], None] = lambda data: None,
    rank: Rank = ALONE,
    strategy: Strategy = "ddp",
    compiled: bool = False,
    control: Control | None = None,
    origin: Callable[[RunSpec], Origin | None] = starts.find,
    keep_weights: bool = False,
) -> Outcome:
    """Train as the spec says, then score the test split once, unless the run is a trial.

    `loaded` is shown the data; `origin` finds the weights that the run starts from. Several
    ranks, which have met, each call this and get the same.
    """
    control = control or Control()
    if strategy == "fsdp" and rank.world > 1:
        print("resume: a sharded run (fsdp) leaves no checkpoints", flush=True)  # noqa: T201 - the log
        control = replace(control, checkpoints=None)
    if problem := unfit(spec.recipe, device=device, devices=rank.world, strategy=strategy):
        raise ValueError(problem)
    quieten()
    seed_everything(spec.seed)
    data = load(spec, rank)
    loaded(data)
    model, begun, checkpoints = _model(spec, data, origin)
    if spec.model.args.get("encoder"):
        from bench import contextual  # here, since few runs need transformers

        contextual.remember(model, data, device)
    if spec.recipe.freeze:
        freeze_body(model)  # before it is counted
    counts = [(p.numel(), p.requires_grad) for p in model.parameters()]
    if rank.world > 1:
        model = synchronised(model, device)
        # Each rank drops out something else.
        seed_everything((spec.seed + rank.index * 1_000_003) % 2**32)
    if compiled:
        model.compile()
    task = make_task(model, data.entry, spec.recipe)
    probe = _prober(spec, data)
    loader = data.train_dataloader() if spec.recipe.epochs else None
    task.progress.total_steps = spec.recipe.epochs * len(loader) if loader else 0
    resumed = _resumed(control, rank)
    earlier = resumed.state if resumed else _BEFORE
    reporter = Reporter(
        tell,
        data.sizes.get("val", 0),
        curve=[Epoch.model_validate_json(line) for line in earlier["curve"]],
        validation_s=earlier["validation_s"],
        probe=probe,
    )
    ending = Ending(keep_weights)
    for epoch in reporter.curve:
        tell(epoch)
    started = time.perf_counter() - earlier["train_s"]
    attempts = [*earlier["attempts"], *([resumed.attempt] if resumed else [])]

    def extra() -> dict[str, Any]:
        now = time.perf_counter()
        return {
            "curve": [epoch.model_dump_json() for epoch in reporter.curve],
            "validation_s": reporter.validation_s,
            "train_s": now - started,
            "total_s": now - control.started + earlier["total_s"],
            "attempts": attempts,
        }

    callbacks: list[pl.Callback] = [reporter]
    if loader:
        conductor = Conductor(loader, control, extra, state=resumed.state if resumed else None)
        callbacks += [conductor, ending]
    trainer = pl.Trainer(
        accelerator="gpu" if device == "cuda" else device,
        devices=rank.world // rank.nodes,
        num_nodes=rank.nodes,
        strategy=_strategy(rank, strategy),
        plugins=_plugins(rank, strategy, spec.recipe, device),
        max_epochs=spec.recipe.epochs,
        # Ops without a deterministic form are rare and worth a warning, not a failure.
        deterministic="warn",
        callbacks=callbacks,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
    )
    pruned = False
    try:
        if loader:
            trainer.fit(task, conductor.bites(task), data.val_dataloader())
    except Pruned:
        pruned = True
    train_s = time.perf_counter() - started
    metrics: dict[str, float] = {}
    found: dict[str, torch.Tensor] = {}
    tested = 0
    if spec.tested and not pruned:
        trainer.test(task, data.test_dataloader(), verbose=False)
        metrics, found = task.test_results()
        for name in task.tests:
            prefix = "" if name == task.tests[0] else f"{name}_"
            check_scored(found[f"{prefix}index"], data.sizes[name])
            tested += data.sizes[name]
        metrics |= probe(task)
    sizes = {"train": 0, "val": 0, **data.sizes}
    seen = task.progress.step * min(spec.recipe.batch_size, sizes["train"])
    return Outcome(
        pruned=pruned,
        metrics=metrics,
        scored=tested,
        predictions={name: value.cpu().numpy() for name, value in found.items()},
        curve=reporter.curve,
        data=DataFacts(
            fingerprint=data.fingerprint,
            train=sizes["train"],
            val=sizes["val"],
            test=tested,
            revision=_revision(data.entry),
        ),
        parameters=sum(count for count, _ in counts),
        trainable_parameters=sum(count for count, trained in counts if trained),
        train_s=train_s,
        train_examples_per_s=seen / (train_s - reporter.validation_s) if seen else 0.0,
        resumed_from=attempts,
        earlier_s=earlier["total_s"],
        weights=ending.weights,
        start=begun,
        checkpoints=checkpoints,
    )


def _revision(entry: DataSet) -> str:
    if entry.repository is None:
        return ""
    return repository.commit(entry.repository, list(entry.files.values()), revision=entry.revision)


def check_scored(index: torch.Tensor, size: int, split: str = "test") -> None:
    """Every example of a split exactly once, or the run is worth nothing."""
    if not torch.equal(index.cpu(), torch.arange(size)):
        unique = len(torch.unique(index))
        raise AssertionError(
            f"scored {len(index)} {split} examples, {unique} of them different, instead of {size}"
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


def load(spec: RunSpec, rank: Rank = ALONE) -> DataModule:
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
            rank=rank.index,
            world_size=rank.world,
            sample=spec.data.sample,
        )
        data.setup(None if spec.recipe.epochs else "test")
    except Exception as error:
        raise DataProblem(str(error)) from error
    return data


def _model(
    spec: RunSpec, data: DataModule, origin: Callable[[RunSpec], Origin | None]
) -> tuple[torch.nn.Module, Start | None, dict[str, str]]:
    """The model with the weights that it starts from, whose they are, and digests of others."""
    try:
        arguments, digests = starts.arguments(spec)
        model = registry.create(spec.model.name, **data.facts(), **arguments)
        if data.entry.task == "pretrain":
            add_pair_head(model)
        found = origin(spec)
        return model, starts.load(model, found, spec) if found else None, digests
    except DataError as error:
        raise DataProblem(str(error)) from error


def _prober(spec: RunSpec, data: DataModule) -> Callable[[Task], dict[str, float]]:
    """What measures the model as evaluation sees it, on the first validation batch."""
    measures = [importlib.import_module(PROBES[name].module).measure for name in spec.probes]

    def probe(task: Task) -> dict[str, float]:
        found: dict[str, float] = {}
        if measures:
            inputs = tuple(x.to(task.device) for x in next(iter(data.val_dataloader())).inputs)
            with task.evaluated():
                for measure in measures:
                    found |= measure(task.model, inputs)
        return found

    return probe


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
    if recipe.freeze:
        task.freeze_body()
    if recipe.ema:
        task.average_weights(recipe.ema)
    # transformers hands out its models in evaluation, and Lightning leaves that as it is.
    task.train()
    return task


def _strategy(rank: Rank, strategy: Strategy) -> str | pl.strategies.Strategy:
    """Lightning's strategy for so many ranks."""
    if rank.world == 1:
        return "auto"
    if strategy == "fsdp":
        from bench.sharded import Sharded

        return Sharded()
    # Buffers are equal on all ranks as it is, and sending them would need as many batches of
    # validation on each.
    return pl.strategies.DDPStrategy(forward_sync_buffers=False)


def _plugins(rank: Rank, strategy: Strategy, recipe: Recipe, device: str) -> list[Any]:
    """What tells Lightning of the ranks and the precision."""
    plugins: list[Any] = [Environment(rank)]
    if strategy == "fsdp" and rank.world > 1:
        if recipe.precision == "bf16":
            plugins.append(FSDPPrecision("bf16-mixed"))
    elif recipe.precision != "fp32":
        plugins.append(Mixed("bf16-mixed" if recipe.precision == "bf16" else "16-mixed", device))
    return plugins


def _resumed(control: Control, rank: Rank) -> "_Resumed | None":
    """Where an earlier attempt stood, as rank 0 finds it."""
    if control.checkpoints is None:
        return None
    found = [control.checkpoints.newest() if rank.first else None]
    if rank.world > 1:
        dist.broadcast_object_list(found)
    return found[0] and _Resumed(*found[0])


def quieten() -> None:
    """Silence what Lightning says of choices that were made on purpose."""
    disable_possible_user_warnings()
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
