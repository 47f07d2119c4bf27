"""Sharded tensors (FSDP's DTensors), of each of which a rank holds a part."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor


def sharded(model: nn.Module) -> bool:
    """Whether this rank holds only parts of the model's parameters."""
    return any(isinstance(p, DTensor) for p in model.parameters())


def local_part(value: Any) -> Any:
    """What this rank holds of a sharded tensor, in its own memory; anything else as it is."""
    if not isinstance(value, DTensor):
        return value
    with torch.no_grad():
        return value.to_local()


def sharded_like(mine: Tensor, tensor: DTensor) -> DTensor:
    """This rank's part of what is sharded as `tensor` is."""
    mesh, places = tensor.device_mesh, tensor.placements
    return DTensor.from_local(
        mine, mesh, places, run_check=False, shape=tensor.shape, stride=tensor.stride()
    )


@contextmanager
def gathered(model: nn.Module) -> Iterator[None]:
    """The model with whole parameters for a while, in calls and after them."""
    units = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for unit in units:
        unit.unshard()
        unit.set_reshard_after_forward(False, recurse=False)
    try:
        yield
    finally:
        for unit in units:
            unit.set_reshard_after_forward(True, recurse=False)
            unit.reshard()
