"""What Lightning's own counters say of a task, as `models.tasks` tells whoever knows Lightning."""

from collections.abc import Iterator
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from lightning_bench.data.batch import Batch
from lightning_bench.models.tasks.classify import Classify
from lightning_bench.models.tasks.optimisation import Optimisation


class Portions:
    """Batches in portions of 3, 3 and 1, as the harness hands them on."""

    def __iter__(self) -> Iterator[list[Batch]]:
        for size in (3, 3, 1):
            yield [Batch((torch.randn(4, 5),), torch.arange(4) % 3, torch.arange(4), 4)] * size


class Counters(pl.Callback):
    """What a callback is told after each call of `training_step`."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, int, int]] = []

    def on_train_batch_end(
        self, trainer: pl.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.heard.append((batch_idx, trainer.global_step, module.progress.step))


def test_progress_counts_steps_where_lightning_counts_calls() -> None:
    task, counters = Classify(nn.Linear(5, 3), optimisation=Optimisation()), Counters()
    task.progress.total_steps = 14
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=2,
        logger=False,
        callbacks=[counters],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
    )
    trainer.fit(task, Portions())
    calls, global_steps, steps = zip(*counters.heard, strict=True)
    assert calls == (0, 1, 2) * 2
    assert steps == (3, 6, 7, 10, 13, 14)
    assert set(global_steps) == {0}
    assert task.progress.step == 14


def test_training_examples_are_scored_as_in_evaluation_and_leave_nothing_behind() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(5, 3))
    task = Classify(model, optimisation=Optimisation())
    x, target = torch.randn(8, 5), torch.arange(8) % 3
    batches = [Batch((x[i : i + 4],), target[i : i + 4], torch.arange(i, i + 4), 4) for i in (0, 4)]
    task.train()
    with torch.no_grad():
        found = task.training_results(batches)
        logits = model[1](x)
    assert found == {
        "accuracy_train": (logits.argmax(-1) == target).double().mean().item(),
        "loss_train": pytest.approx(nn.functional.cross_entropy(logits, target).item()),
    }
    assert not task.val_predictions.index
