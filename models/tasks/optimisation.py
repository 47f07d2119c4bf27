"""Optimiser and learning-rate schedule, the same for every model."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn, optim

from lightning_bench.models.errors import ModelError
from lightning_bench.models.tasks import optimizers
from lightning_bench.models.tasks.fsdp_tensors import sharded
from lightning_bench.models.tasks.layer_decay import layers
from lightning_bench.models.tasks.schedules import Factor, schedule


@dataclass(frozen=True, kw_only=True)
class Optimisation:
    """What to step with. `warmup` is the fraction of all steps that climb linearly to `lr`.

    `layer_decay` multiplies the learning rate from each layer to the one below; the head has `lr`.
    A batch is cut into `accumulate` parts, whose gradients add up to one step.
    """

    optimizer: str = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.0
    momentum: float = 0.9
    beta1: float = 0.9
    beta2: float = 0.999
    schedule: str = "cosine"
    warmup: float = 0.0
    layer_decay: float = 1.0
    clip_norm: float | None = None
    accumulate: int = 1
    optimizer_args: Mapping[str, Any] = field(default_factory=dict)
    schedule_args: Mapping[str, Any] = field(default_factory=dict)
    groups: Sequence[Mapping[str, Any]] = ()
    _schedules: dict[tuple[int, int], Factor] = field(
        default_factory=dict, repr=False, compare=False
    )

    def set_rate(self, optimizer: optim.Optimizer, step: int, total_steps: int) -> None:
        """Give each group of the optimiser its learning rate at a step."""
        factor = self.factor(step, total_steps)
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor

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
        length = warmup_steps, total_steps
        if length not in self._schedules:
            self._schedules[length] = schedule(self.schedule, self.schedule_args, *length)
        return self._schedules[length](min(1.0, progress))

    def optimizer_of(self, model: nn.Module) -> optim.Optimizer:
        """The optimiser of whatever is trained of a model."""
        optimizer = self._optimizer(self._groups(model), sharded=sharded(model))
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]
        return optimizer

    def _optimizer(self, groups: list[dict[str, Any]], *, sharded: bool) -> optim.Optimizer:
        betas = (self.beta1, self.beta2)
        match self.optimizer:
            case "sgd":
                # torch has no fused form of it for shards.
                return optim.SGD(groups, lr=self.lr, momentum=self.momentum, fused=not sharded)
            case "adam":
                return optim.Adam(groups, lr=self.lr, betas=betas, fused=True)
            case "adamw":
                return optim.AdamW(groups, lr=self.lr, betas=betas, fused=True)
            case "adagrad":
                return optim.Adagrad(groups, lr=self.lr)
            case "lamb":
                from timm.optim import Lamb  # here, since timm takes seconds to import

                # As You et al., 2020, algorithm 2: no clipping of its own (that is `clip_norm`),
                # and the trust ratio for every parameter, those without decay too.
                return Lamb(groups, lr=self.lr, betas=betas, max_grad_norm=None, always_adapt=True)
        return optimizers.make(
            self.optimizer,
            groups,
            lr=self.lr,
            weight_decay=self.weight_decay,
            arguments=self.optimizer_args,
        )

    def _groups(self, model: nn.Module) -> list[dict[str, Any]]:
        """Parameters by weight decay and layer; each layer has its own learning rate."""
        trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        if self.layer_decay == 1.0:
            layer_of, last = dict.fromkeys((name for name, _ in trained), 0), 0
        else:
            layer_of = layers(model)
            last = max(layer_of.values())
        if pattern := optimizers.unmatched(model, self.groups):
            raise ModelError(
                f"groups: no parameter that is trained has {pattern!r} in its name; "
                f"there are {', '.join(name for name, _ in trained[:8])}, …"
            )
        groups: dict[tuple[int, bool, int], list[nn.Parameter]] = {}
        for name, parameter in trained:
            own = optimizers.group_of(name, self.groups)
            # Biases, norms and scalars have one dimension or none; decay is for matrices.
            place = layer_of[name], parameter.ndim <= 1, -1 if own is None else own
            groups.setdefault(place, []).append(parameter)
        return [
            {
                "params": parameters,
                "weight_decay": (0.0 if plain else self.weight_decay)
                * (1.0 if own < 0 else self.groups[own]["weight_decay"]),
                "lr": self.lr
                * self.layer_decay ** (last - layer)
                * (1.0 if own < 0 else self.groups[own]["lr"]),
            }
            for (layer, plain, own), parameters in sorted(groups.items(), key=lambda item: item[0])
        ]
