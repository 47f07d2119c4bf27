"""One run inside its own process: data, model, Lightning, and what came out."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from lightning_bench.bench.execute.job import Strategy
from lightning_bench.bench.run import initial_weights as starts
from lightning_bench.bench.run.callbacks import Ending, Reporter, check_scored, prober
from lightning_bench.bench.run.checkpoint import State
from lightning_bench.bench.run.control import Conductor, Control, Pruned
from lightning_bench.bench.run.distributed import ALONE, Rank
from lightning_bench.bench.run.fsdp import InStep
from lightning_bench.bench.run.initial_weights import Origin
from lightning_bench.bench.run.loading import load, load_model, make_task, revision
from lightning_bench.bench.run.trainer import make_trainer, quieten, seed_everything
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.record import DataFacts, Epoch, Start
from lightning_bench.bench.study.compatibility import unfit_devices
from lightning_bench.data.modules.contract import DataModule
from lightning_bench.models.tasks.freezing import freeze_body
from lightning_bench.models.tasks.synchronised_batch_norm import synchronised

#: What stands in a checkpoint where nothing has gone before.
_BEFORE: State = {"curve": [], "validation_s": 0.0, "train_s": 0.0, "total_s": 0.0, "attempts": []}


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
    if problem := unfit_devices(spec.recipe, device=device, devices=rank.world, strategy=strategy):
        raise ValueError(problem)
    quieten()
    seed_everything(spec.seed)
    data = load(spec, rank)
    loaded(data)
    model, begun, checkpoints = load_model(spec, data, origin)
    if spec.model.args.get("encoder"):
        from lightning_bench.bench.run import (
            encoder_cache,  # here, since few runs need transformers
        )

        encoder_cache.remember(model, data, device)
    if spec.recipe.freeze:
        freeze_body(model)  # before it is counted
    counts = [(p.numel(), p.requires_grad) for p in model.parameters()]
    if rank.world > 1:
        model = synchronised(model, device)
        # Each rank drops out something else.
        seed_everything((spec.seed + rank.index * 1_000_003) % 2**32)
    if compiled:
        # Texts come in many lengths, images in one size: so each graph is made once, and does not
        # depend on which batch came first, as on going on from a checkpoint.
        model.compile(dynamic=data.entry.kind == "text")
    task = make_task(model, data.entry, spec.recipe)
    probe = prober(spec, data)
    loader = data.train_dataloader() if spec.recipe.epochs else None
    task.progress.total_steps = spec.recipe.epochs * len(loader) if loader else 0
    resumed = control.checkpoints.newest(rank) if control.checkpoints else None
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

    cut = strategy == "fsdp" and rank.world > 1

    def in_step(evaluated: Any) -> Any:
        return InStep(evaluated) if cut else evaluated

    callbacks: list[pl.Callback] = [reporter]
    if loader:
        validation = in_step(data.val_dataloader())
        state = resumed.state if resumed else None
        conductor = Conductor(loader, control, extra, state, len(validation))
        callbacks += [conductor, ending]
    trainer = make_trainer(spec.recipe, rank, device, strategy, callbacks)
    pruned = False
    try:
        if loader:
            trainer.fit(task, conductor.bites(task), validation)
    except Pruned:
        pruned = True
    train_s = time.perf_counter() - started
    metrics: dict[str, float] = {}
    found: dict[str, torch.Tensor] = {}
    tested = 0
    if spec.tested and not pruned:
        trainer.test(task, [in_step(split) for split in data.test_dataloader()], verbose=False)
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
            revision=revision(data.entry),
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
