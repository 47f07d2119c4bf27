"""FLOPs of one forward pass: two a multiply-add, of matrix products and convolutions alone.

Counted on eager code with the formulas of torch's FlopCounterMode, without its bookkeeping by
module. What has no formula counts as zero there; for an addition that is the convention, for
attention or a recurrent layer it would be a lie (on a CPU, nn.LSTM and the fast path of
nn.MultiheadAttention are such). So an operation that multiplies and is not counted is an error
here. On the meta device, where nothing is fused, everything falls apart into counted products.
"""

import re
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import flop_registry

from lightning_bench.models.compat import TorchDispatchMode
from lightning_bench.models.errors import ModelError

#: Names of operations that multiply matrices.
_MULTIPLIES = re.compile(
    r"attention|attn|(?:^|_)(?:\w*mm|matmul|mv|addmv|dot|vdot|inner|linear|bilinear|trilinear"
    r"|conv(?:olution)?\w*|rnn|lstm|gru|encoder_layer|decoder_only_layer)(?:_|$)"
)


@dataclass(frozen=True)
class Products:
    """The FLOPs of a forward pass, and the numbers that its products put out."""

    flops: int
    activations: int
    convolved: int = 0  # of the FLOPs, those of convolutions
    outputs: int = 0  # the numbers that all operations put out, products or not
    operations: int = 0  # those that put out new numbers: kernels that are launched


class _Counter(TorchDispatchMode):
    """Adds up what has a formula, refuses what multiplies without one."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = self.activations = 0
        self.convolved = self.outputs = self.operations = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        packet = func.overloadpacket
        first = out[0] if isinstance(out, tuple | list) else out
        numbers = first.numel() if isinstance(first, Tensor) else 0
        if numbers and not func.is_view:
            self.outputs += numbers
            self.operations += 1
        formula = flop_registry.get(packet)
        if formula is not None:
            flops = formula(*args, **(kwargs or {}), out_val=out)
            self.flops += flops
            self.convolved += flops if "conv" in packet.__name__ else 0
            self.activations += numbers
        elif _MULTIPLIES.search(packet.__name__):
            raise ModelError(
                f"the FLOPs can't be counted: {packet} multiplies, but has no formula "
                "(torch.utils.flop_counter.register_flop_formula gives it one)"
            )
        return out


def count(model: nn.Module, inputs: tuple[Tensor, ...]) -> Products:
    """Count one forward pass in evaluation; a ModelError where a product would go uncounted."""
    # Not in inference mode, which would hand composite operations over whole.
    with torch.no_grad(), _Counter() as counter:
        model.eval()(*inputs)
    return Products(
        counter.flops,
        counter.activations,
        counter.convolved,
        counter.outputs,
        counter.operations,
    )
