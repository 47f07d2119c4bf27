"""The process group of one contender on several devices: they warm up, start and stop together."""

from datetime import timedelta
from typing import Literal

import torch
import torch.distributed as dist
from torch import nn

_TIMEOUT = timedelta(minutes=5)


class SingleProcess:
    """The process group of one, which waits for nobody."""

    rank = 0

    def all_agree(self, value: bool) -> bool:
        """Whether every process says so."""
        return value

    def all_max(self, value: float) -> float:
        """The largest of all processes' numbers."""
        return value

    def barrier(self) -> None:
        """Wait until all ranks are here."""

    def data_parallel(self, model: nn.Module) -> nn.Module:
        """The model, its gradients averaged over all processes."""
        return model

    def destroy(self) -> None:
        """Leave the group, as a process must before it ends."""


class ProcessGroup(SingleProcess):
    """Ranks of a process group: gloo between CPUs, NCCL between GPUs."""

    def __init__(self, device: Literal["cpu", "cuda"], rank: int, size: int, meeting: str) -> None:
        self.rank = rank
        self._device = torch.device(device, rank) if device == "cuda" else torch.device("cpu")
        if device == "cuda":
            torch.cuda.set_device(self._device)
        dist.init_process_group(
            "nccl" if device == "cuda" else "gloo",
            init_method=f"file://{meeting}",
            rank=rank,
            world_size=size,
            timeout=_TIMEOUT,
        )

    def all_agree(self, value: bool) -> bool:
        """Whether every process says so."""
        return -self.all_max(-float(value)) > 0

    def all_max(self, value: float) -> float:
        """The largest of all processes' numbers."""
        largest = torch.tensor(value, dtype=torch.float64, device=self._device)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return largest.item()

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        self.all_max(0.0)

    def data_parallel(self, model: nn.Module) -> nn.Module:
        """The model, its gradients averaged over all processes."""
        ids = [self._device.index] if self._device.type == "cuda" else None
        shared: nn.Module = nn.parallel.DistributedDataParallel(model, device_ids=ids)
        return shared

    def destroy(self) -> None:
        """Leave the group; gloo aborts where a process ends as a member."""
        dist.destroy_process_group()
