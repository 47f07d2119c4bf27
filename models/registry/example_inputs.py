"""Made-up inputs of the right shape, for counting, checking and measuring a model."""

from typing import Any

import torch
from torch import Tensor

from lightning_bench.models.registry.arguments import Value
from lightning_bench.models.registry.model_variant import Variant


def example(variant: Variant, batch: int, **arguments: Value) -> tuple[Tensor, ...]:
    """Return what a model made with these arguments reads: images, or tokens.

    Made on the current default device, so that the meta device costs nothing.
    """
    default = {name: argument.default for name, argument in variant.arguments.items()}
    value: dict[str, Any] = default | arguments
    if variant.kind != "text" and "vocab_size" not in arguments:
        size = value["image_size"]
        return (torch.randn(batch, value["channels"], size, size),)
    return (torch.randint(value["vocab_size"], (batch, value["length"])),)
