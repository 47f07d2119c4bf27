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


class _Counter(TorchDispatchMode):
    """Adds up what has a formula, refuses what multiplies without one."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = self.activations = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        packet = func.overloadpacket
        formula = flop_registry.get(packet)
        if formula is not None:
            self.flops += formula(*args, **(kwargs or {}), out_val=out)
            self.activations += (out[0] if isinstance(out, tuple) else out).numel()
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
    return Products(counter.flops, counter.activations)
