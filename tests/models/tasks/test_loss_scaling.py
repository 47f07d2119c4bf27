"""With a loss scaler, a step that overflows is none: schedule, average and count stay."""

from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.precision import MixedPrecision
from torch import nn
from torch.utils.data import DataLoader

from lightning_bench.data.batch import Batch
from lightning_bench.models.tasks.classify import Classify
from lightning_bench.models.tasks.optimisation import Optimisation


class Overflowing(nn.Linear):
    """Has no finite gradient in its second step."""

    steps = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        return super().forward(x) * (torch.inf if self.steps == 2 else 1.0)


def test_a_skipped_step_moves_nothing() -> None:
    torch.manual_seed(0)
    optimisation = Optimisation(schedule="linear", lr=0.1)
    task = Classify(Overflowing(3, 2), optimisation=optimisation)
    task.average_weights(0.5)
    task.progress.total_steps = 4
    batch = Batch((torch.randn(4, 3),), torch.zeros(4, dtype=torch.long), torch.arange(4), 4)
    rates: list[float] = []

    class Rates(pl.Callback):
        def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
            rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    quiet: dict[str, Any] = {
        "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
        "enable_model_summary": False, "accelerator": "cpu",
    }  # fmt: skip
    scaled = MixedPrecision("16-mixed", "cpu")
    trainer = pl.Trainer(max_epochs=1, plugins=[scaled], callbacks=[Rates()], **quiet)
    trainer.fit(task, DataLoader([[batch]] * 4, batch_size=None))
    assert (task.progress.batch, task.progress.step) == (4, 3)
    expected = [0.1 * optimisation.factor(step, 4) for step in (0, 1, 1, 2)]
    assert rates == expected
    assert task.average is not None
    assert all(torch.isfinite(value).all() for value in task.state_dict().values())
