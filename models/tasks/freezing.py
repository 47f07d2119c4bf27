"""Freezing: train the head of a model alone, on the features of a body that stays as it is."""

from torch import nn

from lightning_bench.models.weights.heads import head_modules


def freeze_body(model: nn.Module) -> None:
    """Take every parameter but the head's out of the training."""
    model.requires_grad_(False)
    for head in head_modules(model):
        head.requires_grad_(True)


def train_head(model: nn.Module) -> None:
    """Put the head into training and all else into evaluation.

    So batch norms keep their statistics, and a dropout of the body is off.
    """
    model.eval()
    for head in head_modules(model):
        head.train()
