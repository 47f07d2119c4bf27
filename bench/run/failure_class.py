"""Failure classes: what an exception says about a run, its machine, or another rank."""

from pathlib import Path

import torch.distributed as dist

from lightning_bench.bench.run.callbacks import Diverged
from lightning_bench.bench.run.cuda_device import NoDevice
from lightning_bench.bench.run.loading import DataProblem
from lightning_bench.bench.store.record import Failure, FailureClass
from lightning_bench.common.memory import is_out_of_memory

#: What CUDA and its libraries say where the machine is at fault, and another one may do. An illegal
#: address or a failed assertion of a kernel is the program's.
_OF_THE_MACHINE = (
    "busy or unavailable",
    "cublas_status_not_initialized",
    "cuda driver initialization failed",
    "cuda error: initialization error",
    "cuda error: unknown error",
    "cuda unknown error",
    "cudnn_status_not_initialized",
    "driver on your system is too old",
    "driver version is insufficient",
    "ecc error",
    "found no nvidia driver",
    "gpu has fallen off the bus",
    "gpu is lost",
    "hardware stack error",
    "invalid device ordinal",
    "launch timed out",
    "no cuda gpus are available",
    "no cuda-capable device",
    "no kernel image is available",
    "nvlink error",
    "system not yet initialized",
    "torch not compiled with cuda enabled",
)


def classify_failure(error: BaseException, log: Path) -> Failure:
    """The failure class of an exception, and its message in one line."""
    text = " ".join(str(error).split())
    kind: FailureClass = "code"
    if is_out_of_memory(error):
        kind = "out-of-memory"
    elif isinstance(error, Diverged):
        kind = "divergence"
    elif isinstance(error, DataProblem):
        kind = "data"
    elif isinstance(error, OSError | NoDevice) or _is_of_the_machine(error):
        kind = "infrastructure"
    return Failure(kind=kind, message=f"{type(error).__name__}: {text}"[:500], log=str(log))


def is_lost_connection(error: BaseException) -> bool:
    """Whether an exception only says that the connection to another rank is lost."""
    # NCCL passes on what CUDA told it, too.
    if is_out_of_memory(error) or _is_of_the_machine(error):
        return False
    text = str(error).lower()
    return isinstance(error, dist.DistError) or any(
        sign in text for sign in ("gloo", "connection closed", "connection reset", "nccl")
    )


def _is_of_the_machine(error: BaseException) -> bool:
    text = str(error).lower()
    return any(words in text for words in _OF_THE_MACHINE)
