"""Optimiser and learning-rate schedule, the same for every model."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn, optim


@dataclass(frozen=True, kw_only=True)
class Optimisation:
    """What to step with. `warmup` is the fraction of all steps that climb linearly to `lr`."""

    optimizer: Literal["sgd", "adam", "adamw"] = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9
    beta1: float = 0.9
    beta2: float = 0.999
    schedule: Literal["constant", "linear", "cosine"] = "cosine"
    warmup: float = 0.0

    def configure(self, model: nn.Module, total_steps: int) -> dict[str, Any]:
        """Return what Lightning's `configure_optimizers` returns."""
        optimizer = self._optimizer(model)
        schedule = optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: self.factor(step, total_steps)
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

    def factor(self, step: int, total_steps: int) -> float:
        """The learning rate at a step as a fraction of `lr`; the first step is already above 0."""
        warmup_steps = round(self.warmup * total_steps)
        if step < warmup_steps:
            return (step + 1) / (warmup_steps + 1)
        progress = (step - warmup_steps) / max(1, total_steps - warmup_steps)
        match self.schedule:
            case "constant":
                return 1.0
            case "linear":
                return max(0.0, 1.0 - progress)
            case "cosine":
                return 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))

    def _optimizer(self, model: nn.Module) -> optim.Optimizer:
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        # Biases, norms and scalars have one dimension or none; decay is for matrices.
        groups = [
            {"params": [p for p in trained if p.ndim > 1], "weight_decay": self.weight_decay},
            {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        betas = (self.beta1, self.beta2)
        match self.optimizer:
            case "sgd":
                return optim.SGD(groups, lr=self.lr, momentum=self.momentum, fused=True)
            case "adam":
                return optim.Adam(groups, lr=self.lr, betas=betas, fused=True)
            case "adamw":
                return optim.AdamW(groups, lr=self.lr, betas=betas, fused=True)
