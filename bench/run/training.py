"""The training of one run, in its own process: from a spec to what its record needs."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch
from torch import nn

from lightning_bench.bench.execute.job import Strategy
from lightning_bench.bench.plan import source_digests
from lightning_bench.bench.run import initial_weights, user_callbacks
from lightning_bench.bench.run.callbacks import (
    FailureCallback,
    FinalWeights,
    HeartbeatCallback,
    LearningCurve,
    StrictTraining,
    TestResults,
    make_array_probe,
    make_probe,
)
from lightning_bench.bench.run.checkpoint import Resumed, State
from lightning_bench.bench.run.control import Control, ControlCallback, Pruned
from lightning_bench.bench.run.determinism import (
    begins_strict,
    nondeterministic_operation,
    nondeterministic_operations,
    use_deterministic_algorithms,
    use_deterministic_attention,
)
from lightning_bench.bench.run.distributed import ALONE, Rank
from lightning_bench.bench.run.fsdp import PaddedBatches
from lightning_bench.bench.run.initial_weights import WeightsFile
from lightning_bench.bench.run.loading import load, load_model, make_task, revision
from lightning_bench.bench.run.precision import set_float32_precision
from lightning_bench.bench.run.trainer import make_trainer, seed_everything, silence_warnings
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.record import DataFacts, Epoch, Start
from lightning_bench.bench.study import class_metrics
from lightning_bench.bench.study.compatibility import unfit_devices
from lightning_bench.common import heartbeat
from lightning_bench.data.modules.contract import DataModule
from lightning_bench.models.registry import catalogue
from lightning_bench.models.registry.user_model import lightning_package
from lightning_bench.models.tasks.freezing import freeze_body
from lightning_bench.models.tasks.synchronised_batch_norm import synchronised
from lightning_bench.models.tasks.task import Task

#: Training examples on which the final weights are scored, too; each takes a third of a step.
_LEAST_SAMPLE, _LARGEST_SAMPLE = 256, 10_000


@dataclass(frozen=True)
class Outcome:
    """The results of training and of the one test, before they become a record.

    A pruned run and a trial have no metrics. The seconds are of all attempts that it resumed.
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
    nondeterministic: list[str] = field(default_factory=list)  # operations
    too_many_probabilities: str = ""  # why not all were kept of classes
    arrays: dict[str, np.ndarray] = field(default_factory=dict)  # of probes, for figures


def train(spec: RunSpec, *, device: str, **settings: Any) -> Outcome:
    """Train as `train_once` does, with deterministic operations alone as far as there are any."""
    with nondeterministic_operations() as operations:
        strict = begins_strict(device)
        while True:
            try:
                outcome = train_once(spec, device=device, strict=strict, **settings)
            except RuntimeError as error:
                operation = nondeterministic_operation(error) if strict else ""
                if not operation:
                    raise
                print(  # noqa: T201 - to the attempt's log
                    f"{operation} has no deterministic form here; training starts again", flush=True
                )
                operations.append(operation)
                strict = False
            else:
                return replace(outcome, nondeterministic=operations)
            gc.collect()  # the model that was given up


def train_once(
    spec: RunSpec,
    *,
    device: str,
    strict: bool = False,
    on_epoch: Callable[[Epoch], None],
    on_data: Callable[[DataModule], None] = lambda data: None,
    rank: Rank = ALONE,
    strategy: Strategy = "ddp",
    compiled: bool = False,
    control: Control | None = None,
    find_weights: Callable[[RunSpec], WeightsFile | None] = initial_weights.find,
    keep_weights: bool = False,
    keep_probabilities: bool = True,
) -> Outcome:
    """Train as the spec says, then score the test split once, unless the run is a trial.

    All ranks of a process group call this, and get the same. `on_data` is called with the data,
    `on_epoch` with each point of the learning curve, those of resumed attempts too. Where training
    is `strict`, an operation without a deterministic form is a RuntimeError.
    """
    if problem := unfit_devices(spec.recipe, device=device, devices=rank.world, strategy=strategy):
        raise ValueError(problem)
    control = control or Control()
    silence_warnings()
    set_float32_precision(spec.recipe.precision, device)
    use_deterministic_algorithms()
    if strict:
        use_deterministic_attention()
    seed_everything(spec.seed_of("weights"))

    heartbeat.beat("loading the data")
    data = load(spec, rank)
    on_data(data)
    heartbeat.beat("making the model")
    model, start, checkpoints = load_model(spec, data, find_weights)
    if isinstance(model, pl.LightningModule) or lightning_package(type(model)):
        if compiled or strategy != "ddp":
            raise ValueError("a LightningModule of one's own is neither compiled nor sharded")
        own: list[pl.Callback] = [HeartbeatCallback(), *([StrictTraining()] if strict else [])]
        own.append(FailureCallback(partial(_report, control, strict)))
        return _train_own(
            spec, model, data, rank, device, control, on_epoch, own,
            keep_weights=keep_weights, keep_probabilities=keep_probabilities,
        )  # fmt: skip
    if spec.model.args.get("encoder"):
        _cache_encoder(spec.model.name, model, data, device)
    if spec.recipe.freeze:
        freeze_body(model)
    size = Size.of(model)
    if spec.source_seeds:
        # Else the numbers that dropout draws would follow those of the initial weights.
        seed_everything((spec.seed_of("dropout") * 1_000_003 + 1) % 2**32)
    model = _distribute(model, spec, rank, device)
    if compiled:
        # Texts come in many lengths, images in one size: so each graph is made once, and does not
        # depend on which batch came first, as on going on from a checkpoint.
        model.compile(dynamic=data.entry.kind == "text")
    task = make_task(
        model,
        data.entry,
        spec.recipe,
        metrics=spec.metrics,
        labels=lambda: data.train_dataloader().target,
    )
    too_many = class_metrics.too_many(data.entry, data.sizes) if keep_probabilities else ""
    if keep_probabilities:
        task.keep_probabilities(class_metrics.tests_kept(data.entry), classes_only=bool(too_many))
    probe = make_probe(spec, data)
    loader = data.train_dataloader() if spec.recipe.epochs else None
    epochs, task.progress.total_steps = spec.recipe.length(len(loader)) if loader else (0, 0)

    resumed = control.checkpoints.newest(rank) if control.checkpoints else None
    history = History(resumed, control.started, on_epoch, data.sizes.get("val", 0), probe)

    def evaluated(batches: Any) -> Any:
        return PaddedBatches(batches) if strategy == "fsdp" and rank.world > 1 else batches

    def trained(task: Task) -> Any:
        """A sample of the training examples, whose evaluation takes about 1 % of the training."""
        if not loader:
            return None
        size = max(_LEAST_SAMPLE, task.progress.total_steps * spec.recipe.batch_size // 33)
        return evaluated(data.training_sample(min(size, _LARGEST_SAMPLE)))

    test = TestResults(data.sizes, probe, trained, make_array_probe(spec, data))
    callbacks: list[pl.Callback] = [HeartbeatCallback(), history.curve, test]
    callbacks += [StrictTraining()] if strict else []
    own = user_callbacks.make(spec.callbacks)
    callbacks += own
    callbacks.append(FailureCallback(partial(_report, control, strict)))
    final = FinalWeights(keep_weights)
    if loader:
        validation = evaluated(data.val_dataloader())
        state = resumed.state if resumed else None
        if own and state:
            user_callbacks.restore(own, state["own_callbacks"])
        history.own_callbacks = own
        pacing = ControlCallback(loader, control, history.state, state, len(validation))
        callbacks += [pacing, final]
    trainer = make_trainer(spec.recipe, epochs, rank, device, strategy, callbacks)
    data.feed.attach(trainer.strategy.root_device)
    pruned = False
    try:
        if loader:
            trainer.fit(task, pacing.step_chunks(task), validation)
    except Pruned:
        pruned = True
    finally:
        data.feed.stop()
    train_s = history.train_s

    if spec.tested and not pruned:
        splits = [evaluated(split) for split in data.test_dataloader()]
        trainer.test(task, splits, verbose=False)
    sizes = {"train": 0, "val": 0, **data.sizes}
    seen = task.progress.step * min(spec.recipe.batch_size, sizes["train"])
    return Outcome(
        pruned=pruned,
        metrics=test.metrics,
        scored=test.scored,
        predictions=test.predictions,
        curve=history.curve.epochs,
        data=_facts(data, test.scored),
        parameters=size.parameters,
        trainable_parameters=size.trainable,
        train_s=train_s,
        train_examples_per_s=seen / (train_s - history.curve.validation_s) if seen else 0.0,
        resumed_from=history.attempts,
        earlier_s=history.earlier_s,
        weights=final.weights,
        start=start,
        checkpoints=checkpoints,
        too_many_probabilities=too_many,
        arrays=test.arrays,
    )


def _train_own(
    spec: RunSpec,
    module: nn.Module,
    data: DataModule,
    rank: Rank,
    device: str,
    control: Control,
    on_epoch: Callable[[Epoch], None],
    callbacks: list[pl.Callback],
    *,
    keep_weights: bool,
    keep_probabilities: bool,
) -> Outcome:
    """Train a LightningModule of the user's own by its own steps, then test it once."""
    from lightning_bench.bench.run.own_training import OwnTraining  # few runs need it

    size = Size.of(module)
    module.train()
    loader = data.train_dataloader()
    resumed = control.checkpoints.newest(rank) if control.checkpoints else None
    history = History(resumed, control.started, on_epoch, data.sizes.get("val", 0), lambda _: {})
    state = resumed.state if resumed else None
    training = OwnTraining(spec, module, rank, device, control, history, state, callbacks)
    data.feed.attach(training.trainer.strategy.root_device)
    pruned = False
    try:
        training.fit(loader, data.val_dataloader(), data.entry.kind)
    except Pruned:
        pruned = True
    finally:
        data.feed.stop()
    train_s = history.train_s
    weights = training.weights() if keep_weights and rank.first else None
    metrics: dict[str, float] = {}
    predictions: dict[str, np.ndarray] = {}
    tests: dict[str, Any] = {}
    if spec.tested and not pruned:
        tests = dict(zip(data.entry.tests, data.test_dataloader(), strict=True))
        kept = class_metrics.tests_kept(data.entry) if keep_probabilities else []
        if class_metrics.too_many(data.entry, data.sizes):
            kept = []
        metrics, predictions = training.test(data.entry, tests, data.sizes, kept)
    sizes = {"train": 0, "val": 0, **data.sizes}
    scored = sum(sizes[name] for name in tests)
    seen = training.reading.batches * min(spec.recipe.batch_size, sizes["train"])
    return Outcome(
        pruned=pruned,
        metrics=metrics,
        scored=scored,
        predictions=predictions,
        curve=history.curve.epochs,
        data=_facts(data, scored),
        parameters=size.parameters,
        trainable_parameters=size.trainable,
        train_s=train_s,
        train_examples_per_s=seen / max(1e-9, train_s - history.curve.validation_s),
        resumed_from=history.attempts,
        earlier_s=history.earlier_s,
        weights=weights,
    )


def _facts(data: DataModule, scored: int) -> DataFacts:
    """What a record tells of the data, of which so many test examples were scored."""
    return DataFacts(
        fingerprint=data.fingerprint,
        train=data.sizes.get("train", 0),
        val=data.sizes.get("val", 0),
        test=scored,
        revision=revision(data.entry),
        preprocessing=data.preprocessing,
    )


def _report(control: Control, strict: bool, error: BaseException) -> None:
    """Report a failure, unless it only ends the strict training."""
    if not (strict and nondeterministic_operation(error)):
        control.on_failure(error)


class Size(NamedTuple):
    """The parameters of a model."""

    parameters: int
    trainable: int

    @classmethod
    def of(cls, model: nn.Module) -> "Size":
        """Count them, before a strategy cuts them up."""
        counts = [(p.numel(), p.requires_grad) for p in model.parameters()]
        return cls(sum(n for n, _ in counts), sum(n for n, trained in counts if trained))


class History:
    """The learning curve and the seconds of a run, over all attempts that it resumes."""

    def __init__(
        self,
        resumed: Resumed | None,
        started: float,  # of this attempt
        on_epoch: Callable[[Epoch], None],
        val_size: int,
        probe: Callable[[Task], dict[str, float]],
    ) -> None:
        before: State = {"curve": [], "validation_s": 0.0, "train_s": 0.0, "total_s": 0.0}
        before |= {"attempts": []} | (resumed.state if resumed else {})
        epochs = [Epoch.model_validate_json(line) for line in before["curve"]]
        self.curve = LearningCurve(on_epoch, val_size, epochs, before["validation_s"], probe)
        self.attempts: list[int] = [*before["attempts"], *([resumed.attempt] if resumed else [])]
        self.earlier_s: float = before["total_s"]
        self.own_callbacks: list[pl.Callback] = []
        for epoch in epochs:
            on_epoch(epoch)
        # As if there had been no interruption.
        self._train_started: float = time.perf_counter() - before["train_s"]
        self._started = started - self.earlier_s

    @property
    def train_s(self) -> float:
        """Seconds of training up to now."""
        return time.perf_counter() - self._train_started

    def state(self) -> State:
        """The part of the checkpoint state that a later attempt begins its history with."""
        own = {"own_callbacks": user_callbacks.states(self.own_callbacks)}
        return (own if self.own_callbacks else {}) | {
            "curve": [epoch.model_dump_json() for epoch in self.curve.epochs],
            "validation_s": self.curve.validation_s,
            "train_s": self.train_s,
            "total_s": time.perf_counter() - self._started,
            "attempts": self.attempts,
        }


def _cache_encoder(name: str, model: nn.Module, data: DataModule, device: str) -> None:
    """Compute the states of a frozen encoder once for all runs that import the same modules."""
    from lightning_bench.bench.run import encoder_cache  # few runs need transformers

    others = {} if catalogue.find(name).ours else source_digests.of_model(name)
    encoder_cache.attach(model, data, device, others)


def _distribute(model: nn.Module, spec: RunSpec, rank: Rank, device: str) -> nn.Module:
    """Make the model one rank's: batch norm over all ranks, dropout of its own."""
    if rank.world == 1:
        return model
    model = synchronised(model, device)
    seed_everything((spec.seed_of("dropout") + rank.index * 1_000_003) % 2**32)
    return model
