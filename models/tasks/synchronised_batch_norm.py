"""Batch norm over the batches of all ranks, on a CPU too, where torch's own has no kernel."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce

BatchNorm = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d


class SynchronisedBatchNorm(nn.Module):
    """A batch norm's parameters and buffers, under their old names, with everybody's moments.

    As torch computes them: the biased variance normalises, the unbiased one is kept. Ranks may
    have batches of different sizes.
    """

    weight: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, norm: BatchNorm) -> None:
        super().__init__()
        self.weight, self.bias = norm.weight, norm.bias
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(norm, name))
        self.eps, self.momentum = norm.eps, norm.momentum
        # timm's have dropout and activation inside.
        inside = [getattr(norm, name) for name in ("drop", "act") if hasattr(norm, name)]
        self.after = nn.Sequential(*inside)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise by the moments of the global batch, or in evaluation by those kept."""
        shape = (1, -1, *[1] * (x.ndim - 2))
        if self.training or self.running_mean is None:
            mean, var = self._moments(x.float())
        else:
            mean, var = self.running_mean, self.running_var
        scale = (var + self.eps).rsqrt()
        y = (x - mean.view(shape)) * scale.view(shape)
        if self.weight is not None:
            y = y * self.weight.view(shape) + self.bias.view(shape)
        return self.after(y.to(x.dtype))

    def _moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        others = [dimension for dimension in range(x.ndim) if dimension != 1]
        count = torch.tensor(float(x.numel() // x.shape[1]), device=x.device)
        dist.all_reduce(count)
        mean = all_reduce(x.sum(others)) / count
        # A second pass, since E[x²] - E[x]² cancels.
        centred = x - mean.view(1, -1, *[1] * (x.ndim - 2))
        var = all_reduce(centred.square().sum(others)) / count
        if self.running_mean is not None:
            with torch.no_grad():
                self.num_batches_tracked.add_(1)
                momentum = self.momentum
                if momentum is None:
                    momentum = 1.0 / self.num_batches_tracked.item()
                self.running_mean.lerp_(mean, momentum)
                self.running_var.lerp_(var * count / (count - 1).clamp_min(1), momentum)
        return mean, var


def synchronised(model: nn.Module, device: str) -> nn.Module:
    """The model with every batch norm over all ranks; torch's own on a GPU."""
    if device == "cuda":
        from timm.layers import convert_sync_batchnorm  # here, since timm takes seconds to import

        return convert_sync_batchnorm(model)
    if isinstance(model, BatchNorm):
        return SynchronisedBatchNorm(model)
    for name, child in model.named_children():
        setattr(model, name, synchronised(child, device))
    return model
