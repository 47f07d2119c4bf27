"""RandAugment (Cubuk et al., 2020) of a batch: each operation once for all who drew it.

The operations and their ranges are those of torchvision, which has no batched form with a draw
for each image.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as tv

BINS = 30

#: Images and a magnitude from 0 to 1, negative for the other direction.
Operation = Callable[[Tensor, float], Tensor]


class Groups(NamedTuple):
    """One step of a batch: images of equal treatment together."""

    order: Tensor  # places in the batch, group by group
    sizes: list[int]
    codes: list[int]  # of each group twice the operation, plus one where the sign is negative


def groups(operations: Tensor, signs: Tensor) -> tuple[Groups, ...]:
    """Group the images by their operations (B×steps) and signs, for each step."""
    codes = 2 * operations + (signs < 0)
    counted = [torch.bincount(step) for step in codes.unbind(1)]
    return tuple(
        Groups(
            step.argsort(stable=True),
            [size for size in counts.tolist() if size],
            counts.nonzero().flatten().tolist(),
        )
        for step, counts in zip(codes.unbind(1), counted, strict=True)
    )


def apply(pixels: Tensor, steps: Sequence[Groups], *, magnitude: int) -> Tensor:
    """Apply the operations to the pixels, in place, step by step."""
    strength = magnitude / BINS
    for step in steps:
        for code, which in zip(step.codes, step.order.split(step.sizes), strict=True):
            signed = -strength if code % 2 else strength
            altered = OPERATIONS[code // 2](pixels.index_select(0, which), signed)
            pixels.index_copy_(0, which, altered)
    return pixels


def _shear(x: Tensor, horizontal: float, vertical: float) -> Tensor:
    degrees = [math.degrees(math.atan(part)) for part in (horizontal, vertical)]
    sheared: Tensor = tv.affine(
        x, angle=0.0, translate=[0, 0], scale=1.0, shear=degrees, center=[0, 0]
    )
    return sheared


def _shift(x: Tensor, right: float, down: float) -> Tensor:
    where = [int(right), int(down)]
    shifted: Tensor = tv.affine(x, angle=0.0, translate=where, scale=1.0, shear=[0.0, 0.0])
    return shifted


def _posterize(x: Tensor, strength: float) -> Tensor:
    posterized: Tensor = tv.posterize(x, round(8 - 4 * abs(strength)))
    return posterized


OPERATIONS: tuple[Operation, ...] = (
    lambda x, _: x,
    lambda x, m: _shear(x, 0.3 * m, 0),
    lambda x, m: _shear(x, 0, 0.3 * m),
    lambda x, m: _shift(x, 150 / 331 * x.shape[-1] * m, 0),
    lambda x, m: _shift(x, 0, 150 / 331 * x.shape[-2] * m),
    lambda x, m: tv.rotate(x, 30 * m),
    lambda x, m: tv.adjust_brightness(x, 1 + 0.9 * m),
    lambda x, m: tv.adjust_saturation(x, 1 + 0.9 * m),
    lambda x, m: tv.adjust_contrast(x, 1 + 0.9 * m),
    lambda x, m: tv.adjust_sharpness(x, 1 + 0.9 * m),
    _posterize,
    lambda x, m: tv.solarize(x, 255 * (1 - abs(m))),
    lambda x, _: tv.autocontrast(x),
    lambda x, _: tv.equalize(x),
)
