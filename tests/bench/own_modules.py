"""LightningModules as their users have them, one of each kind that needs something."""

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import nn
from torchmetrics import MaxMetric
from torchmetrics.classification import MulticlassAccuracy


class Automatic(pl.LightningModule):
    """As the popular templates: a network, partials, metrics, a scheduler, the best so far."""

    def __init__(self, net=None, optimizer=None, scheduler=None, num_classes=10, lr=1e-2):
        super().__init__()
        self.net = net or nn.Sequential(
            nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, num_classes)
        )
        self.optimizer, self.scheduler, self.lr = optimizer, scheduler, lr
        self.val_acc = MulticlassAccuracy(num_classes, average="micro")
        self.test_acc = MulticlassAccuracy(num_classes, average="micro")
        self.val_best = MaxMetric()
        self.calls = 0

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train/loss", loss)
        self.calls += 1
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.val_acc(self(x), y)
        self.log("val/acc", self.val_acc)

    def on_validation_epoch_end(self):
        self.val_best(self.val_acc.compute())
        self.log("val/best", self.val_best.compute())

    def test_step(self, batch, batch_idx):
        x, y = batch
        self.test_acc(self(x), y)
        self.log("test/acc", self.test_acc)

    def configure_optimizers(self):
        make = self.optimizer or torch.optim.Adam
        optimizer = (
            make(self.parameters()) if self.optimizer else make(self.parameters(), lr=self.lr)
        )
        make = self.scheduler or (lambda o: torch.optim.lr_scheduler.StepLR(o, 1, 0.7))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": make(optimizer)}}


class Predicts(Automatic):
    """It predicts, and logs nothing in a test."""

    test_step = pl.LightningModule.test_step

    def predict_step(self, batch, batch_idx):
        return self(batch[0])


class TwoOptimisers(Automatic):
    """Manual optimisation of two optimisers that take turns, by a count of its own."""

    def __init__(self, num_classes=10):
        super().__init__(num_classes=num_classes)
        self.automatic_optimization = False
        self.turn = 0

    def training_step(self, batch, batch_idx):
        x, y = batch
        first, second = self.optimizers()
        chosen = (first, second)[self.turn % 3 == 2]
        self.turn += 1
        self.toggle_optimizer(chosen)
        self.manual_backward(F.cross_entropy(self(x), y))
        chosen.step()
        chosen.zero_grad()
        self.untoggle_optimizer(chosen)

    def configure_optimizers(self):
        body, head = self.net[1], self.net[4]
        return torch.optim.Adam(body.parameters(), 1e-2), torch.optim.SGD(head.parameters(), 0.1)


class RankZero(Predicts):
    """It logs on rank 0 alone."""

    def validation_step(self, batch, batch_idx):
        x, y = batch
        accuracy = (self(x).argmax(1) == y).float().mean()
        self.log("val/acc", accuracy, rank_zero_only=True)

    def on_validation_epoch_end(self):
        pass


class Untrained(pl.LightningModule):
    """It has no steps."""


class Unscored(Automatic):
    """It logs nothing that a page could name."""

    def validation_step(self, batch, batch_idx):
        pass

    def on_validation_epoch_end(self):
        pass


class Raises(Automatic):
    """Its training step fails."""

    def training_step(self, batch, batch_idx):
        raise ArithmeticError("never called before")


def made_by_a_function():
    """It doesn't say what it makes."""
    return Automatic()


class OfRows(nn.Module):
    """A network that reads B×F, and nothing else."""

    def __init__(self, in_channels, num_classes):
        super().__init__()
        self.linear = nn.Linear(in_channels, num_classes)

    def forward(self, x):
        assert x.ndim == 2
        return self.linear(x)
