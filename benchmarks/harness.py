"""What the harness adds to a training step; ratios measured in one run.

    python -m benchmarks.harness             about 4 minutes on two cores
    python -m benchmarks.harness --only digits

A training step under Lightning as `bench run` takes it (with requests looked for, without
checkpoints, which may cost 2 % of the time) over a step of a loop written by hand over the same
model, optimiser and loader: an epoch by hand, then one of the harness, from its start to the end of
its last batch, and so on. Targets: at most 1.02 on Mixer-S/16 at batch 32, at most 1.3 on
quickstart's MLP at batch 64. Two further lines of the MLP are for one step a call of Lightning's
loop, and for Lightning as most use it. `--only own` is a LightningModule of the user's own as a run
trains it over Lightning's Trainer alone, with the same module, loaders and validation: processor
time of whole trainings in turns, at most 1.05.
"""

import argparse
import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger
from scipy.stats import binom
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.common import verdict
from lightning_bench.bench.run.callbacks import HeartbeatCallback
from lightning_bench.bench.run.control import Control, ControlCallback
from lightning_bench.bench.run.distributed import ALONE
from lightning_bench.bench.run.loading import load, make_task, optimisation
from lightning_bench.bench.run.own_training import OwnBatches, OwnTraining
from lightning_bench.bench.run.trainer import silence_warnings
from lightning_bench.bench.run.training import History
from lightning_bench.bench.spec import DataSpec, ModelSpec, Recipe, RunSpec
from lightning_bench.bench.store.store import Store
from lightning_bench.data.loader import EpochOrder
from lightning_bench.data.modules.image_data import ImageLoader
from lightning_bench.data.transforms.augment import Augmentation
from lightning_bench.models.registry.registry import create
from lightning_bench.models.tasks.classify import Classify
from lightning_bench.models.tasks.task import Task

Make = Callable[[], tuple[Task, Any]]
Pairs = list[tuple[float, float]]
Way = Callable[[Make, int, Path], Pairs]


class Turns(pl.Callback):
    """An epoch by hand before each of the harness's; milliseconds a step of both."""

    def __init__(self, by_hand: Iterator[float], steps: int) -> None:
        self.by_hand, self.steps = by_hand, steps
        self.found: list[tuple[float, float]] = []

    def on_train_epoch_start(self, *_: object) -> None:
        """Let the other one go first, then start the clock."""
        self.other = next(self.by_hand)
        self.started = time.perf_counter()

    def on_train_batch_end(self, *_: object) -> None:
        """A call is over, perhaps the last one."""
        self.ended = time.perf_counter()

    def on_train_epoch_end(self, trainer: pl.Trainer, task: Any) -> None:
        """Count the epoch, and have our task begin the next one."""
        self.found.append((self.other, 1e3 * (self.ended - self.started) / self.steps))
        if isinstance(task, Task):
            task.progress.end_epoch()


class Plain(pl.LightningModule):
    """A module as everybody writes it."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.model, self.optimizer_of = task.model, task.optimisation.optimizer_of

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        """The loss, logged."""
        x, y = batch
        loss = F.cross_entropy(self.model(x), y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The same optimiser."""
        return self.optimizer_of(self.model)


class Validated(Plain):
    """The same with a validation."""

    def validation_step(self, batch: list[torch.Tensor], number: int) -> None:
        """The loss, logged."""
        x, y = batch
        self.log("val_loss", F.cross_entropy(self.model(x), y))


def by_hand(make: Make) -> Iterator[float]:
    """Milliseconds a step of one epoch after the other, of a loop with nothing in it."""
    task, loader = make()
    model, loss_of = task.model.train(), task.loss
    optimizer = task.optimisation.optimizer_of(model)
    for epoch in count():
        loader.sampler.set_epoch(epoch)
        started = time.perf_counter()
        for batch in loader:
            loss = loss_of(model(*batch.inputs), batch.target)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        yield 1e3 * (time.perf_counter() - started) / len(loader)


def harness(make: Make, epochs: int, folder: Path, **options: Any) -> Pairs:
    """Milliseconds a step by hand and under Lightning, as `bench.training` has it."""
    task, loader = make()
    task.progress.total_steps = epochs * len(loader)
    turns = Turns(by_hand(make), len(loader))
    control = Control(request=partial(Store(folder).requested, folder), **options)
    control_callback = ControlCallback(loader, control, dict)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=epochs,
        deterministic="warn",
        callbacks=[control_callback, turns],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    trainer.fit(task, control_callback.step_chunks(task))
    return turns.found


def plain(make: Make, epochs: int, folder: Path) -> Pairs:
    """The same of Lightning as most use it: a DataLoader, a logger, the loss logged.

    In its favour without progress bar and checkpoints, and the images are normalised already.
    """
    task, loader = make()
    batches = list(loader)
    examples = TensorDataset(
        torch.cat([batch.inputs[0] for batch in batches]),
        torch.cat([batch.target for batch in batches]),
    )
    turns = Turns(by_hand(make), len(loader))
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=epochs,
        callbacks=[turns],
        logger=CSVLogger(folder),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    size = len(batches[0].target)
    trainer.fit(Plain(task), DataLoader(examples, batch_size=size, shuffle=True))
    return turns.found


def own_module(seconds: float, epochs: int = 12) -> None:
    """Print the ratio of processor times of a LightningModule's trainings, ours over Lightning's.

    Two trainings of each warm up.
    """
    spec = RunSpec(
        model=ModelSpec(name="benchmarks.harness:Plain"),
        data=DataSpec(name="digits"),
        recipe=Recipe(epochs=epochs),
    )
    data = load(spec)

    def alone(folder: Path) -> float:
        module, trained, validated = _parts_of(data)
        trainer = pl.Trainer(
            accelerator="cpu", devices=1, max_epochs=epochs, deterministic="warn", logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
            num_sanity_val_steps=0, use_distributed_sampler=False, default_root_dir=folder,
        )  # fmt: skip
        started = time.process_time()
        trainer.fit(module, OwnBatches(trained, "image"), OwnBatches(validated, "image"))
        return 1e3 * (time.process_time() - started) / trainer.global_step

    def ours(folder: Path) -> float:
        module, trained, validated = _parts_of(data)
        control = Control(request=partial(Store(folder).requested, folder))
        history = History(None, time.perf_counter(), lambda _: None, 0, lambda _: {})
        training = OwnTraining(
            spec, module, ALONE, "cpu", control, history, None, [HeartbeatCallback()]
        )
        started = time.process_time()
        training.fit(trained, validated, "image")
        return 1e3 * (time.process_time() - started) / training.trainer.global_step

    pairs: Pairs = []
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < deadline or len(pairs) < 8:
            sides = {
                way: way(Path(folder)) for way in ((alone, ours), (ours, alone))[len(pairs) % 2]
            }
            pairs.append((sides[alone], sides[ours]))
    _print("own LightningModule, batch 64", "processor time", pairs[2:], "Lightning alone", 1.05)


def _parts_of(data: Any) -> tuple[Any, Any, Any]:
    model = create("mlp", **data.facts(), depth=2, width=106)
    task = make_task(model, data.entry, Recipe())
    return Validated(task), data.train_dataloader(), data.val_dataloader()


def digits() -> tuple[Task, Any]:
    """Quickstart's MLP and its data."""
    arguments = {"depth": 2, "width": 106}
    spec = RunSpec(model=ModelSpec(name="mlp", args=arguments), data=DataSpec(name="digits"))
    data = load(spec)
    model = create("mlp", **data.facts(), **arguments)
    return make_task(model, data.entry, spec.recipe), data.train_dataloader()


def mixer() -> tuple[Task, Any]:
    """Mixer-S/16 and random images of its size, a batch of them."""
    drawn = np.random.default_rng(0).integers(256, size=(32, 3, 224, 224), dtype=np.uint8)
    loader = ImageLoader(
        torch.from_numpy(drawn),
        torch.arange(32),
        mean=torch.full((3,), 0.5),
        std=torch.full((3,), 0.25),
        classes=1000,
        augmentation=Augmentation(),
        batch_size=32,
        order=EpochOrder(32, seed=0, shuffle=True),
    )
    task = Classify(create("mixer-s16"), label_smoothing=0.0, optimisation=optimisation(Recipe()))
    return task, loader


def compare(
    name: str,
    make: Make,
    ways: Mapping[str, Way],
    *,
    seconds: float,
    epochs: int,
    skip: int,
    target: float,
) -> None:
    """Print the median ratio of neighbouring epochs of each way, with its interval.

    Rounds of so many epochs, of which `skip` warm up, until the time is over. The target is for
    the first way.
    """
    found: dict[str, Pairs] = {way: [] for way in ways}
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < deadline:
            for label, way in ways.items():
                found[label] += way(make, epochs, Path(folder))[skip:]
    for way, pairs in found.items():
        first = way == next(iter(ways))
        _print(name, way, pairs, "by hand", target if first else None)


def _print(name: str, way: str, pairs: Pairs, other: str, target: float | None) -> None:
    """The median ratio of pairs, with its interval."""
    ratios = sorted(ours / hand for hand, ours in pairs)
    # Between these order statistics lies the median of all, with 95 % confidence or a bit more.
    first = int(binom.ppf(0.025, len(ratios), 0.5))
    low, high = ratios[max(0, first - 1)], ratios[min(len(ratios) - first, len(ratios) - 1)]
    hand, ours = (median(side) for side in zip(*pairs, strict=True))
    ratio = median(ratios)
    print(
        f"{name}, {way}: {ratio:.3f} ({low:.3f} to {high:.3f}; {ours:.3f} ms a step, {other} "
        f"{hand:.3f}), {len(ratios)} pairs"
        + ("" if target is None else f"; {verdict(ratio, target)}"),
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["digits", "mixer", "own"])
    parser.add_argument("--seconds", type=float, default=60, help="for the MLP; thrice for Mixer")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    silence_warnings()
    if chosen.only in {None, "own"}:
        own_module(chosen.seconds)
    if chosen.only in {None, "digits"}:
        kept = {"seconds": chosen.seconds, "epochs": 60, "skip": 5, "target": 1.3}
        ways = {
            "harness": harness,
            "one step a call": partial(harness, most_steps=1),
            "plain Lightning": plain,
        }
        compare("MLP, batch 64", digits, ways, **kept)
    if chosen.only in {None, "mixer"}:
        # Its steps are long: a call takes one of them as it is.
        kept = {"seconds": 3 * chosen.seconds, "epochs": 24, "skip": 1, "target": 1.02}
        compare("Mixer-S/16, batch 32", mixer, {"harness": harness}, **kept)
