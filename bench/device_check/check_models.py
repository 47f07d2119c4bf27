"""Models of the device check: those that take their time, and those that fail on the last rank.

Specs name them as `lightning_bench.bench.device_check.check_models:raises`.
"""

import os
import signal
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lightning_bench.bench.device_check.networks import FAILS_AT
from lightning_bench.models.registry import registry

_STEP_S = 0.02
#: The step of training that fails: the first one has shown that all is well.
_FAILING_STEP = 2
#: More than any address space holds.
_TOO_MANY_BYTES = 2**50


class Paced(nn.Module):
    """A model with dropout before it that takes some time for a training step, on any device."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.dropout = nn.Dropout(0.1)

    def forward(self, images: Tensor) -> Tensor:
        """The model's logits."""
        if self.training and not images.is_meta:
            time.sleep(_STEP_S)
        logits: Tensor = self.model(self.dropout(images))
        return logits


def paced_resnet(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> Paced:
    """A small ResNet, with batch norm, that takes its time."""
    sizes = {"channels": channels, "image_size": image_size, "classes": classes}
    return Paced(registry.create("resnet-small", layers=8, width=8, **sizes))


def paced_vit(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> Paced:
    """A small ViT, with attention, that takes its time."""
    sizes = {"channels": channels, "image_size": image_size, "classes": classes}
    return Paced(registry.create("vit", patch=2, width=32, depth=2, heads=2, hidden=80, **sizes))


class Failing(nn.Module):
    """A linear layer whose second training step fails on the last rank, and nowhere else."""

    def __init__(self, fail: Callable[[Tensor], object], pixels: int, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(pixels, classes)
        self.fail, self.steps = fail, 0

    def forward(self, images: Tensor) -> Tensor:
        """The logits, unless it is time to fail."""
        logits: Tensor = self.head(images.flatten(1))
        if self.training and not logits.is_meta:
            self.steps += 1
            if self.steps == _FAILING_STEP and _is_last_rank():
                sys.stderr.write(f"{FAILS_AT}{time.time()!r}\n")
                sys.stderr.flush()
                self.fail(logits)
        return logits


def raises(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> Failing:
    """Raise an exception."""
    return Failing(_raise, channels * image_size**2, classes)


def killed(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> Failing:
    """Be killed, without a word."""
    return Failing(_be_killed, channels * image_size**2, classes)


def out_of_memory(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> Failing:
    """Ask the device for more memory than there is."""
    return Failing(_allocate_too_much, channels * image_size**2, classes)


def _raise(logits: Tensor) -> None:
    raise RuntimeError("raised on purpose by bench check-device")


def _be_killed(logits: Tensor) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _allocate_too_much(logits: Tensor) -> Tensor:
    return torch.empty(_TOO_MANY_BYTES, dtype=torch.uint8, device=logits.device)


def _is_last_rank() -> bool:
    return not dist.is_initialized() or dist.get_rank() == dist.get_world_size() - 1
