"""Failure classes: what an exception says about a run, its machine, or another rank."""

import sys
import traceback
from pathlib import Path

import torch.distributed as dist

from lightning_bench.bench.run.callbacks import Diverged
from lightning_bench.bench.run.cuda_device import NoDevice
from lightning_bench.bench.run.loading import DataProblem
from lightning_bench.bench.store.access import StoreAccessError
from lightning_bench.bench.store.record import Failure, FailureClass
from lightning_bench.common.memory import is_out_of_memory

#: Of an exception's text, at most so many characters are looked at, and printed to the log.
_MOST_CLASSIFIED, _MOST_PRINTED = 10_000, 200_000

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
    interrupted = isinstance(error, SystemExit) and isinstance(error.__context__, KeyboardInterrupt)
    if interrupted and error.__context__ is not None:
        error = error.__context__  # which Lightning turns into an exit
    kind: FailureClass = "code"
    if is_out_of_memory(error):
        kind = "out-of-memory"
    elif isinstance(error, Diverged):
        kind = "divergence"
    elif isinstance(error, DataProblem):
        kind = "data"
    elif isinstance(error, StoreAccessError | NoDevice) or _is_of_the_machine(error):
        kind = "infrastructure"
    text = " ".join(_message(error).split())
    return Failure(kind=kind, message=f"{type(error).__name__}: {text}"[:500], log=str(log))


def print_bounded(error: BaseException) -> None:
    """Print the traceback of an exception, with no more than the beginning of a long message."""
    try:
        lines = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - the exception itself can't be printed
        lines = "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__
    cut = lines if len(lines) <= _MOST_PRINTED else f"{lines[:_MOST_PRINTED]} … (cut)"
    sys.stderr.write(cut.encode("utf-8", "backslashreplace").decode() + "\n")


def _message(error: BaseException) -> str:
    """The beginning of an exception's message, whatever it is made of."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - it is a model's
        return "its message can't be printed"
    return text[:_MOST_CLASSIFIED].encode("utf-8", "backslashreplace").decode()


def is_lost_connection(error: BaseException) -> bool:
    """Whether an exception only says that the connection to another rank is lost."""
    # NCCL passes on what CUDA told it, too.
    if is_out_of_memory(error) or _is_of_the_machine(error):
        return False
    signs = ("gloo", "connection closed", "connection reset", "nccl")
    return isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError) and any(sign in _message(error).lower() for sign in signs)
    )


def _is_of_the_machine(error: BaseException) -> bool:
    # torch's own; another exception's text may be about anything.
    if not isinstance(error, RuntimeError | AssertionError):
        return False
    text = _message(error).lower()
    return any(words in text for words in _OF_THE_MACHINE)
