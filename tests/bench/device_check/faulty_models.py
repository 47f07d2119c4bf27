"""Models with a fault each, that a step of the device check is to find."""

import os
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lightning_bench.bench.device_check.check_models import Failing, Paced


class Faulty(nn.Module):
    def __init__(self, fault: Callable[[Tensor], Tensor], pixels: int, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(pixels, classes)
        self.fault = fault

    def forward(self, images: Tensor) -> Tensor:
        logits = self.head(images.flatten(1))
        return logits if logits.is_meta else self.fault(logits)


def random(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Add noise that no seed decides."""

    def noisy(logits: Tensor) -> Tensor:
        noise = torch.Generator().manual_seed(int.from_bytes(os.urandom(4)))
        return logits + 1e-3 * torch.randn(logits.shape, generator=noise)

    return Faulty(noisy, channels * image_size**2, classes)


def lonely(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Compute something else where there are other ranks."""
    alone = not dist.is_initialized()
    return Faulty(lambda x: x if alone else 1.1 * x, channels * image_size**2, classes)


def coarse(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Compute something else under autocast."""

    def rounded(logits: Tensor) -> Tensor:
        return 3 * logits if torch.is_autocast_enabled("cpu") else logits

    return Faulty(rounded, channels * image_size**2, classes)


def stands_still(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Compute for ever."""

    def sleep(logits: Tensor) -> Tensor:
        time.sleep(600)
        return logits

    return Faulty(sleep, channels * image_size**2, classes)


class Counting(nn.Module):
    """Counts its steps where no checkpoint sees it."""

    def __init__(self, pixels: int, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(pixels, classes)
        self.steps = 0

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(images.flatten(1))
        if not logits.is_meta and self.training:
            self.steps += 1
        return logits * (1 + 0.01 * self.steps)


def forgetful(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Forget how many steps there were before an interruption."""
    return Paced(Counting(channels * image_size**2, classes))


def leaves_a_process(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Fail and leave a process behind, with the log of its rank."""

    def start(logits: Tensor) -> None:
        words = [sys.executable, "-c", "import time; time.sleep(60)"]
        subprocess.Popen(words, start_new_session=True)
        raise RuntimeError("and there it goes on")

    return Failing(start, channels * image_size**2, classes)
