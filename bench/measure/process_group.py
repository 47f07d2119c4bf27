"""The process group of one contender on several devices: they warm up, start and stop together."""

from typing import Literal

import torch
import torch.distributed as dist
from torch import nn

from lightning_bench.bench.run import collectives


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
    """Ranks of a process group like that of a run; what they agree on lies on the CPU."""

    def __init__(self, device: Literal["cpu", "cuda"], rank: int, size: int, meeting: str) -> None:
        self.rank = rank
        self._ids = [torch.cuda.current_device()] if device == "cuda" else None
        store = dist.FileStore(meeting, size)  # type: ignore[attr-defined]
        collectives.join(device, store, rank, size)

    def all_agree(self, value: bool) -> bool:
        """Whether every process says so."""
        return -self.all_max(-float(value)) > 0

    def all_max(self, value: float) -> float:
        """The largest of all processes' numbers."""
        largest = torch.tensor(value, dtype=torch.float64)
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        return largest.item()

    def barrier(self) -> None:
        """Wait until all ranks are here."""
        self.all_max(0.0)

    def data_parallel(self, model: nn.Module) -> nn.Module:
        """The model, its gradients averaged over all processes."""
        shared: nn.Module = nn.parallel.DistributedDataParallel(model, device_ids=self._ids)
        return shared

    def destroy(self) -> None:
        """Leave the group when all do; gloo aborts where a process ends as a member."""
        self.barrier()
        dist.destroy_process_group()
