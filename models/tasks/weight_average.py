"""The exponential moving average (EMA) of a model's weights, which evaluation uses."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim.swa_utils import get_ema_multi_avg_fn

from lightning_bench.models.tasks.fsdp_tensors import local_part, sharded


class Average(nn.Module):
    """w̄ ← d w̄ + (1 - d) w after each step, from the initial weights on.

    Of what is trained, and of the statistics of batch norms. The averages are buffers, so that
    they are in every checkpoint; of a sharded model each rank averages its parts.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.sharded = sharded(model)
        self.names = list(_averaged(model))
        for i, value in enumerate(_averaged(model).values()):
            self.register_buffer(f"average{i}", value.detach().clone())

    def update(self, model: nn.Module) -> None:
        """Take in the weights after a step."""
        own, theirs = list(self.buffers()), _averaged(model)
        get_ema_multi_avg_fn(self.decay)(own, [theirs[name] for name in self.names], None)

    def apply_to(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
        """The model's output with the averaged weights."""
        if self.sharded:  # it gathers its own
            with self.inside(model):
                return model(*inputs)
        return functional_call(model, dict(zip(self.names, self.buffers(), strict=True)), inputs)

    def copy_to(self, model: nn.Module) -> None:
        """Give the model the averaged weights."""
        self._set(model, list(self.buffers()))

    @contextmanager
    def inside(self, model: nn.Module) -> Iterator[None]:
        """The model with the averaged weights for a while."""
        theirs = _averaged(model)
        own = [theirs[name].detach().clone() for name in self.names]
        self.copy_to(model)
        try:
            yield
        finally:
            self._set(model, own)

    def _set(self, model: nn.Module, values: list[Tensor]) -> None:
        theirs = _averaged(model)
        with torch.no_grad():
            for name, value in zip(self.names, values, strict=True):
                theirs[name].copy_(value)


def _averaged(model: nn.Module) -> dict[str, Tensor]:
    kept = model.state_dict().keys()
    tensors: dict[str, Tensor] = {
        n: local_part(p) for n, p in model.named_parameters() if p.requires_grad
    }
    tensors |= {n: b for n, b in model.named_buffers() if n in kept and b.is_floating_point()}
    return tensors
