"""What the harness adds to a training step; ratios measured in one run.

    python -m benchmarks.harness             about 4 minutes on two cores
    python -m benchmarks.harness --only digits

A training step under Lightning as `bench run` takes it (with requests looked for, without
checkpoints, which may cost 2 % of the time) over a step of a loop written by hand over the same
model, optimiser and loader, in turns, from the start of an epoch to the end of its last batch.
Targets: at most 1.02 on Mixer-S/16 at batch 32, at most 1.3 on quickstart's MLP at batch 64. The
third figure is for one step a call of Lightning's loop.
"""

import argparse
import logging
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from bench.conductor import Conductor, Control
from bench.loading import load, make_task, optimisation
from bench.spec import DataSpec, ModelSpec, Recipe, RunSpec
from bench.store import Store
from bench.trainer import quieten
from data.augment import Augmentation
from data.images import ImageLoader
from data.loader import Order
from models.registry import create
from models.tasks.classify import Classify
from models.tasks.task import Task

Make = Callable[[], tuple[Task, Any]]


class Clock(pl.Callback):
    """Seconds of each epoch's training."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def on_train_epoch_start(self, *_: object) -> None:
        """Start."""
        self.started = time.perf_counter()

    def on_train_batch_end(self, *_: object) -> None:
        """A call is over, perhaps the last one."""
        self.ended = time.perf_counter()

    def on_train_epoch_end(self, trainer: pl.Trainer, task: Any) -> None:
        """Count the epoch, and have the next one start."""
        self.found.append(self.ended - self.started)
        task.progress.end_epoch()


def by_hand(make: Make, epochs: int) -> list[float]:
    """Milliseconds a step of each epoch, of a loop with nothing in it."""
    task, loader = make()
    model, loss_of = task.model.train(), task.loss
    optimizer = task.optimisation.optimizer_of(model)
    found = []
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        started = time.perf_counter()
        for batch in loader:
            loss = loss_of(model(*batch.inputs), batch.target)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        found.append(time.perf_counter() - started)
    return [1e3 * seconds / len(loader) for seconds in found]


def by_harness(make: Make, epochs: int, folder: Path, **options: Any) -> list[float]:
    """The same under Lightning, as `bench.training` has it."""
    task, loader = make()
    task.progress.total_steps = epochs * len(loader)
    clock = Clock()
    control = Control(request=partial(Store(folder).requested, folder), **options)
    conductor = Conductor(loader, control, dict)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=epochs,
        deterministic="warn",
        callbacks=[conductor, clock],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    trainer.fit(task, conductor.bites(task))
    return [1e3 * seconds / len(loader) for seconds in clock.found]


def digits() -> tuple[Task, Any]:
    """Quickstart's MLP and its data."""
    arguments = {"depth": 2, "width": 106}
    spec = RunSpec(model=ModelSpec(name="mlp", args=arguments), data=DataSpec(name="digits"))
    data = load(spec)
    model = create("mlp", **data.facts(), **arguments)
    return make_task(model, data.entry, spec.recipe), data.train_dataloader()


def mixer() -> tuple[Task, Any]:
    """Mixer-S/16 and random images of its size, two batches of them."""
    drawn = np.random.default_rng(0).integers(256, size=(64, 3, 224, 224), dtype=np.uint8)
    loader = ImageLoader(
        torch.from_numpy(drawn),
        torch.arange(64) % 1000,
        mean=torch.full((3,), 0.5),
        std=torch.full((3,), 0.25),
        classes=1000,
        augmentation=Augmentation(),
        batch_size=32,
        order=Order(64, seed=0, shuffle=True),
    )
    task = Classify(create("mixer-s16"), label_smoothing=0.0, optimisation=optimisation(Recipe()))
    return task, loader


def compare(
    name: str, make: Make, *, rounds: int, seconds: float, epochs: int, skip: int, target: float
) -> None:
    """Print the ratio of medians; `skip` epochs of each round warm up.

    After so many seconds no round begins, the first one excepted.
    """
    ways: dict[str, list[float]] = {"by hand": [], "harness": [], "one a call": []}
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            began = time.monotonic()
            if number and began > deadline:
                break
            ways["by hand"] += by_hand(make, epochs)[skip:]
            ways["harness"] += by_harness(make, epochs, Path(folder))[skip:]
            ways["one a call"] += by_harness(make, epochs, Path(folder), most_steps=1)[skip:]
            hand, ours, single = (median(found) for found in ways.values())
            print(
                f"{name}, round {number + 1} ({time.monotonic() - began:.0f} s): "
                f"{ours / hand:.3f} so far",
                flush=True,
            )
    ratio = ours / hand
    print(
        f"{name}: by hand {hand:.3f} ms a step, harness {ours:.3f} ({ratio:.3f}), one step a call "
        f"{single:.3f} ({single / hand:.3f}), medians of {len(ways['harness'])} epochs; "
        f"target {target}: {'met' if ratio <= target else 'MISSED'}",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["digits", "mixer"])
    parser.add_argument("--rounds", type=int, default=8)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    quieten()
    if chosen.only != "mixer":
        kept = {"epochs": 60, "skip": 5, "target": 1.3}
        compare("MLP, batch 64", digits, rounds=chosen.rounds, seconds=40, **kept)
    if chosen.only != "digits":
        kept = {"epochs": 2, "skip": 1, "target": 1.02}
        compare("Mixer-S/16, batch 32", mixer, rounds=chosen.rounds, seconds=150, **kept)
