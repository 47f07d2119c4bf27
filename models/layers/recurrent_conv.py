"""The recurrent convolution layer (Liang and Hu, 2015, equations 1 to 4)."""

import torch.nn.functional as F
from torch import Tensor, nn


class RecurrentConv(nn.Module):
    """x(0) = norm(relu(u)), x(t) = norm(relu(u + W_r * x(t-1))), where u = W_f * input + b.

    The same W_r in each of the t steps, so that a kernel sees a region that grows with t at no
    further weights. The norm is local response normalisation over K/8 + 1 maps.
    """

    def __init__(self, width: int, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.forward_conv = nn.Conv2d(width, width, 3, padding=1)
        self.recurrent_conv = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.LocalResponseNorm(width // 8 + 1, alpha=1e-3, beta=0.75)

    def forward(self, x: Tensor) -> Tensor:
        """Map B×K×H×W to B×K×H×W."""
        u = self.forward_conv(x)
        state = self.norm(F.relu(u))
        for _ in range(self.steps):
            state = self.norm(F.relu(u + self.recurrent_conv(state)))
        return state
