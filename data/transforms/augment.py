"""Augmentation of whole batches in memory, with parameters of its own for every example.

The same distributions as torchvision's RandomCrop, RandomHorizontalFlip, RandAugment (two
operations) and RandomErasing one image at a time; mixup and cutmix draw their share for each
example rather than for each batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lightning_bench.data.compat import standard_gamma
from lightning_bench.data.transforms import randaugment


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """What is done to training images; the default does nothing."""

    crop: int = 0  # pixels of black around, before a crop of the old size
    flip: bool = False
    resized_crop: float = 0.0  # least part of the area; for streamed images
    randaugment: int = 0  # magnitude of 30
    erasing: float = 0.0  # probability
    mixup: float = 0.0  # alpha
    cutmix: float = 0.0  # alpha; with both, each example takes either

    @classmethod
    def from_recipe(cls, recipe: Mapping[str, Any]) -> "Augmentation":
        """Take from a recipe what is for images."""
        return cls(**{field.name: recipe[field.name] for field in fields(cls)})

    @property
    def mixes(self) -> bool:
        """Whether examples are blended with others, which makes targets of shares."""
        return self.mixup > 0 or self.cutmix > 0


@dataclass(frozen=True)
class Draw:
    """The random numbers of a batch, a row an example; what is off has none."""

    corner: Tensor | None  # y, x of the crop
    flip: Tensor | None
    operations: Tensor | None  # two of RandAugment
    signs: Tensor | None
    erase: Tensor | None  # top, left, bottom, right; empty where nothing is erased
    share: Tensor | None  # how much of an image is its own
    box: Tensor | None  # what cutmix takes of the partner; empty for mixup

    def rows(self, which: Tensor | slice = slice(None)) -> "Treatment":
        """What is done to some of the examples, or to all."""

        def part(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else tensor[which]

        steps: tuple[randaugment.Groups, ...] = ()
        if self.operations is not None and self.signs is not None:
            steps = randaugment.groups(self.operations[which], self.signs[which])
        return Treatment(
            corner=part(self.corner),
            flipped=None if self.flip is None else self.flip[which].nonzero().flatten(),
            operations=steps,
            erase=part(self.erase),
            share=part(self.share),
            box=part(self.box),
        )


class Treatment(NamedTuple):
    """What is done to images, a row each or as places among them; what is off has none.

    Wherever the tensors are, nothing has to be read back from there.
    """

    corner: Tensor | None
    flipped: Tensor | None  # places
    operations: tuple[randaugment.Groups, ...]
    erase: Tensor | None
    share: Tensor | None
    box: Tensor | None


def draw(
    augmentation: Augmentation, count: int, size: tuple[int, int], generator: torch.Generator
) -> Draw:
    """Draw for `count` images of this height and width."""
    a = augmentation
    shape = (count,)

    def uniform(*more: int) -> Tensor:
        return torch.rand(*shape, *more, generator=generator)

    corner = (uniform(2) * (2 * a.crop + 1)).long() if a.crop else None
    flip = uniform() < 0.5 if a.flip else None
    operations = signs = None
    if a.randaugment:
        operations = (uniform(2) * len(randaugment.OPERATIONS)).long()
        signs = torch.where(uniform(2) < 0.5, -1, 1)
    erase = _erase_boxes(a.erasing, count, size, generator) if a.erasing else None
    share = box = None
    if a.mixes:
        cut = uniform() < (a.cutmix > 0) / ((a.cutmix > 0) + (a.mixup > 0))
        share = torch.where(
            cut,
            _beta(a.cutmix or 1.0, count, generator),
            _beta(a.mixup or 1.0, count, generator),
        )
        box = _cut_boxes(share, size, uniform(2)) * cut[:, None]
        # Cut at the border, a box is smaller than asked for; the target follows the box.
        share = torch.where(cut, 1 - _area(box) / (size[0] * size[1]), share)
    return Draw(corner, flip, operations, signs, erase, share, box)


def alter(pixels: Tensor, treatment: Treatment, augmentation: Augmentation) -> Tensor:
    """Crop, flip and RandAugment uint8 images B×C×H×W, which it may overwrite."""
    if treatment.corner is not None:
        pixels = _crop(pixels, treatment.corner, augmentation.crop)
    if treatment.flipped is not None:
        flipped = treatment.flipped
        pixels.index_copy_(0, flipped, pixels.index_select(0, flipped).flip(-1))
    if treatment.operations:
        pixels = randaugment.apply(pixels, treatment.operations, magnitude=augmentation.randaugment)
    return pixels


def erase(x: Tensor, boxes: Tensor) -> Tensor:
    """Set a box of each normalised image to zero, the training split's mean."""
    return x.masked_fill_(_inside(boxes, x)[:, None], 0.0)


def mix(x: Tensor, partner: Tensor, treatment: Treatment) -> Tensor:
    """Blend each image with its partner, or paste the partner's box into it."""
    share, box = treatment.share, treatment.box
    assert share is not None
    assert box is not None
    cut = _area(box) > 0
    # Pasting an empty box leaves the image as it is, which is cutmix at the very border.
    share = torch.where(cut | (share == 1), 1.0, share)[:, None, None, None]
    blended = torch.lerp(partner, x, share)
    return torch.where(_inside(box, x)[:, None], partner, blended)


def mixed_targets(target: Tensor, partner: Tensor, share: Tensor, classes: int) -> Tensor:
    """Probabilities of the classes: the own one's share, the rest the partner's."""
    own, other = F.one_hot(target, classes), F.one_hot(partner, classes)
    return torch.lerp(other.float(), own.float(), share[:, None])


def _crop(pixels: Tensor, corner: Tensor, border: int) -> Tensor:
    """Pad by the border, then take the window at each corner, in one gather of a strided view."""
    height, width = pixels.shape[-2:]
    padded = F.pad(pixels, (border,) * 4)
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    every = torch.arange(len(pixels), device=pixels.device)
    return windows[every, :, corner[:, 0], corner[:, 1]]


def _erase_boxes(
    probability: float, count: int, size: tuple[int, int], generator: torch.Generator
) -> Tensor:
    """Boxes as RandomErasing draws them: of ten tries the first that fits, or none."""
    height, width = size
    tries = torch.rand(5, count, 10, generator=generator)
    area = height * width * (0.02 + (0.33 - 0.02) * tries[0])
    low, high = torch.tensor([0.3, 3.3]).log()
    ratio = torch.exp(low + (high - low) * tries[1])
    tall, wide = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
    fits = (tall < height) & (wide < width)
    top = (tries[2] * (height - tall + 1)).floor()
    left = (tries[3] * (width - wide + 1)).floor()
    boxes = torch.stack([top, left, top + tall, left + wide], dim=-1)
    first = fits.int().argmax(1)
    wanted = (tries[4, :, 0] < probability) & fits.any(1)
    return (boxes[torch.arange(count), first] * wanted[:, None]).long()


def _cut_boxes(share: Tensor, size: tuple[int, int], middle: Tensor) -> Tensor:
    """Boxes as CutMix draws them: around a uniform middle, cut off at the borders."""
    extent = torch.tensor(size)
    middle = (middle * extent).floor()
    half = (0.5 * (1 - share)[:, None].sqrt() * extent).floor()
    low = (middle - half).clamp_min(0)
    high = torch.minimum(middle + half, extent)
    return torch.cat([low, high], dim=1).long()


def _beta(alpha: float, count: int, generator: torch.Generator) -> Tensor:
    """Beta(alpha, alpha), as the share of two gammas."""
    gammas = standard_gamma(torch.full((2, count), alpha), generator)
    return gammas[0] / gammas.sum(0).clamp_min(torch.finfo(torch.float32).tiny)


def _area(boxes: Tensor) -> Tensor:
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def _inside(boxes: Tensor, x: Tensor) -> Tensor:
    """B×H×W, true inside each image's box."""
    rows, columns = (torch.arange(n, device=x.device) for n in x.shape[-2:])
    top, left, bottom, right = boxes[:, :, None].unbind(1)
    in_rows = (rows >= top) & (rows < bottom)
    in_columns = (columns >= left) & (columns < right)
    return in_rows[:, :, None] & in_columns[:, None, :]
