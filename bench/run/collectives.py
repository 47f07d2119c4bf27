"""The process group of ranks, in training and in measuring: its backends and its patience."""

from datetime import timedelta

import torch.distributed as dist

#: A rank that waits longer than this for the others gives up.
TIMEOUT = timedelta(minutes=10)
#: Objects and what is on the CPU go by gloo: NCCL has no way for them.
_BACKENDS = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}


def join(device: str, store: "dist.Store", rank: int, world: int) -> None:  # type: ignore[name-defined]
    """Join the process group whose ranks meet in a store."""
    dist.init_process_group(
        _BACKENDS[device], store=store, rank=rank, world_size=world, timeout=TIMEOUT
    )
