"""The receptive field: which pixels the output in the middle depends on, and how much.

Measured by the gradient of the middle of the last map, in a random direction of its channels, with
respect to the image (Luo et al., 2016,
"Understanding the effective receptive field"), and by the formula r = 1 + Σ (k - 1) Π strides
before, over all convolutions and pools in the order in which they are carried out: so a recurrent
convolution of t steps counts t + 1 times.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

#: How many images the gradient is averaged over.
_IMAGES = 16
_WINDOWS = (nn.Conv2d, nn.MaxPool2d, nn.AvgPool2d)


def measure(model: nn.Module, inputs: tuple[Tensor, ...]) -> dict[str, float]:
    """The sides of the field in pixels; of models without a map or a sequence, nothing.

    `field_box` is the smallest square that holds every pixel with a gradient, `field_effective`
    is 4σ of the gradient's size, the square that holds 95 % of a Gaussian each way. Both end at
    the image's edge. `field_formula` is left out where not only windows that follow each other
    carry what is seen: where a shortcut has a stride of its own, where tokens are mixed.
    """
    found = gradient(model, inputs[0][:_IMAGES])
    if found is None:
        return {}
    sizes, formula = found
    measured = {"field_box": box(sizes), "field_effective": effective(sizes)}
    return measured if formula is None else measured | {"field_formula": formula}


def arrays(model: nn.Module, inputs: tuple[Tensor, ...]) -> dict[str, Tensor]:
    """The mean size of the gradient at each pixel, of which all measures are made."""
    found = gradient(model, inputs[0][:_IMAGES])
    return {} if found is None else {"field": found[0].detach().cpu()}


def gradient(model: nn.Module, images: Tensor) -> tuple[Tensor, float | None] | None:
    """The mean size of the gradient at each pixel, and what the formula says."""
    if images.ndim != 4:
        return None
    maps: list[Tensor] = []
    windows: list[tuple[int, int]] = []

    def see(module: nn.Module, _: Any, output: Any) -> None:
        if isinstance(module, _WINDOWS):
            windows.append(_window(module))
        if isinstance(output, Tensor) and output.ndim in {3, 4}:
            maps.append(output)

    was_training = {module for module in model.modules() if module.training}
    hooks = [module.register_forward_hook(see) for module in model.modules()]
    try:
        # In evaluation, since batch norms of training join what is far apart.
        model.eval()
        images = images.detach().clone().requires_grad_(True)
        with torch.enable_grad():
            model(images)
            last = next(
                (middle for m in reversed(maps) if (middle := _middle(m)) is not None), None
            )
            if last is None:
                return None
            (slope,) = torch.autograd.grad((last[0] * _direction(last[0])).sum(), images)
    finally:
        for hook in hooks:
            hook.remove()
        for module in was_training:
            module.training = True
    return slope.abs().mean((0, 1)), formula(windows, images.shape[-1], last[1])


def _direction(middle: Tensor) -> Tensor:
    """A random direction of the channels, always the same one.

    Their sum would not do: behind a layer norm it is constant, and its gradient rounding noise.
    """
    generator = torch.Generator().manual_seed(0)
    return torch.randn(middle.shape[-1], generator=generator).to(middle)


def formula(windows: list[tuple[int, int]], size: int, side: int) -> float | None:
    """1 + Σ (k - 1) Π strides of (kernel, stride); None where they don't lead to a map's side."""
    field, jump = 1, 1
    for kernel, stride in windows:
        field += (kernel - 1) * jump
        jump *= stride
    # Padding rounds up or down, and without it a map is smaller still.
    return float(field) if windows and 0 < side * jump <= size + jump else None


def box(sizes: Tensor) -> float:
    """The side of the smallest square around every pixel with a gradient."""
    rows, columns = torch.nonzero(sizes, as_tuple=True)
    if not len(rows):
        return 0.0
    return float(max(int(x.max() - x.min()) + 1 for x in (rows, columns)))


def effective(sizes: Tensor) -> float:
    """4σ of the gradient's size over the pixels, the mean of both directions."""
    weights = sizes.double().cpu()
    total = weights.sum()
    if not total > 0:
        return 0.0
    variances = []
    for along in (weights.sum(1), weights.sum(0)):
        share, place = along / total, torch.arange(len(along), dtype=torch.double)
        middle = (share * place).sum()
        variances.append((share * (place - middle) ** 2).sum().item())
    return 4 * math.sqrt(sum(variances) / 2)


def _window(module: nn.Module) -> tuple[int, int]:
    def side(value: Any) -> int:
        return int(value[0] if isinstance(value, tuple) else value)

    kernel, stride = side(module.kernel_size), side(module.stride)
    return (kernel - 1) * side(getattr(module, "dilation", 1)) + 1, stride


def _middle(output: Tensor) -> tuple[Tensor, int] | None:
    """What stands in the middle of a map B×C×H×W, and its side; or of a grid of tokens, and 0."""
    if output.ndim == 4:
        height, width = output.shape[2:]
        return (output[:, :, height // 2, width // 2], height) if height * width > 1 else None
    tokens = output.shape[1]
    side = math.isqrt(tokens)
    extra = tokens - side**2  # a class token
    if side < 2 or extra > 1:
        return None
    return output[:, extra + side // 2 * side + side // 2], 0
