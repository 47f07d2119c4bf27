"""Linear maps along the channels and along the sequence, by the fastest kernel at hand.

On a CPU in float32 torch multiplies matrices with MKL, which on AMD's processors reaches half of
the speed of oneDNN; and oneDNN is what torch convolves with. A linear map of the channels *is* a
convolution of 1×1, and one of the sequence a convolution in which the positions are the channels.
So large products go that way, on views, without a copy: the same numbers but for rounding,
about twice as fast (measured on Zen 5: 20.5 instead of 43.6 ms for 512 to 2,048 channels,
forward and backward; see `benchmarks/models.py`). Elsewhere, in reduced precision and for small
products, whose cost is the call's, the plain product is faster.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LARGE = 2**24  # multiply-adds; below about this many the plain product is faster
# A kernel of one tap has nothing to dilate. But with one thread torch leaves 1×1 convolutions to
# a slower kernel of its own (`use_mkldnn` in ATen's Convolution.cpp), unless they are dilated.
ONE_TAP = 2
# Images of fewer numbers than this, one at a time, never get there (ibidem).
ENOUGH = 20_480


class Linear(nn.Linear):
    """y = x Wᵀ + b on the channels of B×S×C."""

    def forward(self, x: Tensor) -> Tensor:
        """Map B×S×C to B×S×out."""
        return along_channels(self.weight, self.bias, x)


def along_channels(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    """Return x Wᵀ + b, for x of B×S×C and W of out×C."""
    if not _convolve(x, weight):
        return F.linear(x, weight, bias)
    image = x.unsqueeze(0).permute(0, 3, 1, 2)  # 1×C×B×S, channels last in memory
    y = F.conv2d(image, weight[:, :, None, None], bias, dilation=ONE_TAP)
    return y.permute(0, 2, 3, 1).squeeze(0)


def along_sequence(weight: Tensor, bias: Tensor, x: Tensor) -> Tensor:
    """Return W x + b, for x of B×S×C, W of rows×S and b of rows."""
    if not _convolve(x, weight):
        return torch.baddbmm(bias[:, None], weight.expand(x.shape[0], -1, -1), x)
    return F.conv1d(x, weight[:, :, None], bias, dilation=ONE_TAP)


def _convolve(x: Tensor, weight: Tensor) -> bool:
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and x.numel() > ENOUGH
        and x.numel() * weight.shape[0] >= LARGE
    )
