"""The recurrent convolution layer (Liang and Hu, 2015, equations 1 to 4)."""

import torch.nn.functional as F
from torch import Tensor, nn


class LocalResponseNorm(nn.Module):
    """x / (1 + α/N Σ x²)^β, summed over the maps from N/2 before to N/2 behind, as Liang and Hu do.

    For odd N it is torch's; for even N that one leaves out the last map, and is off centre.
    """

    def __init__(self, size: int, *, alpha: float, beta: float) -> None:
        super().__init__()
        self.size, self.alpha, self.beta = size, alpha, beta

    def forward(self, x: Tensor) -> Tensor:
        """Map B×K×H×W to B×K×H×W."""
        half = self.size // 2
        squares = F.pad(x.square()[:, None], (0, 0, 0, 0, half, half))
        window = 2 * half + 1
        sums = F.avg_pool3d(squares, (window, 1, 1), stride=1)[:, 0] * window
        return x / (1 + self.alpha / self.size * sums) ** self.beta


class RecurrentConv(nn.Module):
    """x(0) = norm(relu(u)), x(t) = norm(relu(u + W_r * x(t-1))), where u = W_f * input + b.

    The same W_r in each of the t steps, so that a kernel sees a region that grows with t at no
    further weights. The norm is local response normalisation over N = K/8 + 1 maps.
    """

    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.forward_conv = nn.Conv2d(width, width, 3, padding=1)
        self.recurrent_conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = LocalResponseNorm(width // 8 + 1, alpha=1e-3, beta=0.75)

    def forward(self, x: Tensor) -> Tensor:
        """Map B×K×H×W to B×K×H×W."""
        u = self.forward_conv(x)
        state = self.norm(F.relu(u))
        for _ in range(self.steps):
            state = self.norm(F.relu(u + self.recurrent_conv(state)))
        return state
