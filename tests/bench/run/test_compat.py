"""What is not documented of Lightning and torch still works as the harness needs it."""

from collections.abc import Iterator
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from lightning_bench.bench.run import compat

QUIET: dict[str, Any] = {
    "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
    "enable_model_summary": False, "accelerator": "cpu",
}  # fmt: skip


class Logged(pl.LightningModule):
    """Notes what Lightning fetches, and what it trains on."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.log_ = nn.Linear(1, 1), list[str]()

    def training_step(self, batch: Tensor, number: int) -> Tensor:
        self.log_.append(f"epoch {self.current_epoch}: train {int(batch)}")
        return self.layer(batch).sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Batches:
    """Three batches, without a length."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __iter__(self) -> Iterator[Tensor]:
        for number in range(3):
            self.log.append(f"fetch {number}")
            yield torch.tensor([float(number)])


def test_a_fit_begins_with_the_epoch_that_is_set() -> None:
    class Resume(pl.Callback):
        def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            compat.set_current_epoch(trainer, 2)
            assert trainer.current_epoch == 2

    task = Logged()
    trainer = pl.Trainer(max_epochs=3, callbacks=[Resume()], **QUIET)
    trainer.fit(task, Batches([]))
    assert task.log_ == [f"epoch 2: train {number}" for number in range(3)]
    assert trainer.current_epoch == 3


def test_lightning_fetches_a_chunk_before_it_trains_on_the_one_before() -> None:
    task = Logged()
    pl.Trainer(max_epochs=1, **QUIET).fit(task, Batches(task.log_))
    trained = [f"epoch 0: train {number}" for number in range(3)]
    assert task.log_ == [
        "fetch 0", "fetch 1", trained[0], "fetch 2", trained[1], trained[2],
    ]  # fmt: skip


def test_the_compiler_has_the_setting_of_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import config

    monkeypatch.setattr(config, "compile_threads", 1)  # an AttributeError where there is none
    compat.set_compile_threads(3)
    assert config.compile_threads == 3
