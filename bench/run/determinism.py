"""Determinism: strict while a GPU trains, and the names of the operations that have no such form.

Under torch's `warn_only` the fused kernels of attention keep their non-deterministic backward pass,
though they have a deterministic one. So training asks for it strictly first. Where an operation has
no deterministic form at all, the training starts again with warnings alone, and its record says so.
"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import deterministic

_MESSAGE = re.compile(
    r"(?P<operation>\S.*?) (?:does not have a deterministic implementation"
    r"|defaults to a non-deterministic algorithm)"
)
_OF_CUBLAS = "is not deterministic because it uses CuBLAS"


def use_deterministic_algorithms(*, strict: bool = False) -> None:
    """Have operations take their deterministic form; `strict`: or raise, where they have none.

    Torch would also fill all new memory, for whoever reads it unwritten, at some per cent of the
    time of a convolutional network.
    """
    torch.use_deterministic_algorithms(True, warn_only=not strict)
    deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False


def begins_strict(device: str) -> bool:
    """Whether training is to begin with deterministic operations alone."""
    return device == "cuda"


def use_deterministic_attention() -> None:
    """Leave out cuDNN's attention, which has no deterministic backward pass."""
    torch.backends.cuda.enable_cudnn_sdp(False)


def nondeterministic_operation(message: object) -> str:
    """The operation that an error or a warning of torch calls non-deterministic; empty if none."""
    text = str(message)
    found = _MESSAGE.search(text)
    return found["operation"] if found else "cuBLAS" if _OF_CUBLAS in text else ""


@contextmanager
def nondeterministic_operations() -> Iterator[list[str]]:
    """Collect the operations that torch warns of."""
    operations: list[str] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("default", message=".*deterministic")
        show = warnings.showwarning

        def note(message: Warning | str, *rest: Any, **more: Any) -> None:
            operation = nondeterministic_operation(message)
            if operation and operation not in operations:
                operations.append(operation)
            show(message, *rest, **more)

        warnings.showwarning = note
        yield operations
