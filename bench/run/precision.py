"""Precision and determinism of torch's kernels, the same where models train and are measured.

By torch's own default convolutions and recurrent layers round to TF32 on a GPU and matrix products
don't, so that one table would compare ConvNets in TF32 with Transformers in fp32.
"""

from collections.abc import Sequence

import torch
from torch.utils import deterministic

from lightning_bench.bench.spec import Precision
from lightning_bench.bench.store.measurements import Kernels


def set_float32_precision(precision: Precision, device: str) -> None:
    """Have matrix products, convolutions and recurrent layers compute float32 alike on a GPU.

    TF32 where the precision is tf32, IEEE where it is any other: what autocast leaves in float32
    is meant to be exact. To be called before the first of them.
    """
    if device != "cuda":
        return
    tf32 = precision == "tf32"
    # Both of torch's interfaces, since it raises where the older one is read (by Lightning, by
    # torch.compile) and the newer one says otherwise.
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    kind = "tf32" if tf32 else "ieee"
    torch.backends.cuda.matmul.fp32_precision = kind
    torch.backends.cudnn.fp32_precision = kind  # convolutions, rnn


def kernels(nondeterministic: Sequence[str] = ()) -> Kernels:
    """Which kernels torch takes in this process, apart from operations that have no such form."""
    return Kernels(
        nondeterministic=list(nondeterministic),
        deterministic=torch.are_deterministic_algorithms_enabled(),
        fills_memory=bool(deterministic.fill_uninitialized_memory),  # type: ignore[attr-defined]
        cudnn_benchmark=torch.backends.cudnn.benchmark,
        float32="tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee",
    )
