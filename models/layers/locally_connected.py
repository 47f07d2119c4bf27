"""A locally connected layer: a convolution that doesn't share its weights."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LocallyConnected(nn.Module):
    """Each of H·W positions has `units` neurons of its own, on the k×k pixels around it.

    H·W·units·C·k² weights: at 200×200 with 10 units and fields of 10×10, 40 million.
    """

    def __init__(self, channels: int, image_size: int, units: int, field: int) -> None:
        super().__init__()
        self.field = field
        before = (field - 1) // 2
        after = field - 1 - before
        self.padding = (before, after, before, after)
        fan_in = channels * field**2
        self.weight = nn.Parameter(torch.empty(image_size**2, fan_in, units))
        nn.init.uniform_(self.weight, -(fan_in**-0.5), fan_in**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Map B×C×H×W to B×units×H·W."""
        fields = F.unfold(F.pad(x, self.padding), self.field)  # B × C·k² × H·W
        return torch.bmm(fields.permute(2, 0, 1), self.weight).permute(1, 2, 0)
