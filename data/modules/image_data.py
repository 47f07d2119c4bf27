"""ImageData: the LightningDataModule of images that fit into memory, decoded once."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import PIL
import torch
from torch import Tensor

from lightning_bench.data import cache, previews, split
from lightning_bench.data.batch import Batch
from lightning_bench.data.dataset import DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.data.loader import EpochOrder, Loader, generator
from lightning_bench.data.modules.contract import DataModule
from lightning_bench.data.previews import Example
from lightning_bench.data.sources import digits, imagenet_real
from lightning_bench.data.sources.digits import Images
from lightning_bench.data.sources.readers import Reader
from lightning_bench.data.sources.source_splits import source_splits
from lightning_bench.data.transforms.augment import (
    Augmentation,
    Treatment,
    alter,
    draw,
    erase,
    mix,
    mixed_targets,
)
from lightning_bench.data.transforms.decode import decode_all

_EMBEDDED: Mapping[str, Callable[[int, int], dict[str, Images]]] = {
    "digits": digits.digits,
    "digits-28": digits.digits_28,
    "digits-inverted": digits.digits_inverted,
}
#: Changes when what is kept of the same files would be something else.
_FORMAT = 2


class ImageData(DataModule):
    """Images as memory-mapped uint8, normalised by the mean and spread of the training split."""

    def __init__(
        self, entry: str | DataSet, *, augmentation: Augmentation | None = None, **options: Any
    ) -> None:
        super().__init__(entry, **options)
        self.augmentation = augmentation or Augmentation()
        if self.augmentation.resized_crop:
            raise DataError(
                f"{self.entry.name} is kept at one size: resized_crop is for images in files"
            )
        self.splits: dict[str, Images] = {}
        self.names: tuple[str, ...] = ()

    def setup(self, stage: str | None = None) -> None:
        """Load and check all splits, once; for "fit" no test split is left."""
        if self.splits:
            return
        entry, stated = self.entry, stated_moments(self.entry)
        if entry.name in _EMBEDDED:
            by = [entry.carving_seed(name, self.seed_of("split")) for name in ("test", "val")]
            splits = _EMBEDDED[entry.name](*by)
            if entry.image_size != splits["train"].pixels.shape[-1]:
                splits = {
                    name: Images(digits.resized(images.pixels, entry.image_size), images.labels)
                    for name, images in splits.items()
                }
            for name, images in splits.items():
                check(entry.name, name, images, entry.splits[name], entry.classes)
            self.fingerprint = fingerprint(splits)
            self.mean, self.std = stated or moments(splits["train"].pixels)
        else:
            self.bundle = kept = load(entry, sample=self.sample, split_seed=self.seed_of("split"))
            splits = {
                name: Images(kept.array(f"{name}-pixels"), kept.array(f"{name}-labels"))
                for name in kept.facts["splits"]
            }
            if entry.relabelled_split == "real":
                splits["real"] = Images(splits["test"].pixels, kept.array("real-labels"))
            self.fingerprint = kept.fingerprint
            measured = (torch.tensor(kept.facts[name]) for name in ("mean", "std"))
            self.mean, self.std = stated or measured
            self.names = tuple(kept.facts["names"])
        if entry.shots:
            train = splits["train"]
            members = split.shots(entry, train.labels, seed=self.seed_of("shots"))
            splits["train"] = Images(train.pixels[members], train.labels[members])
            self.fingerprint = cache.fingerprint_of_part(self.fingerprint, members)
        self.splits = {name: part for name, part in splits.items() if entry.serves(name, stage)}

    @property
    def sizes(self) -> dict[str, int]:
        """The number of examples of each split."""
        sizes = {name: len(labels) for name, labels in self._labels_of().items()}
        tests = {name: self.entry.made_of(name)[0] for name in self.entry.tests}
        return sizes | {name: sizes[source] for name, source in tests.items() if source in sizes}

    @property
    def preprocessing(self) -> str:
        """Mean, standard deviation, interpolation and crop, as a record tells them."""
        mean, std = (" ".join(f"{v:.4g}" for v in x.tolist()) for x in (self.mean, self.std))
        crop = f", crop {self.entry.crop:g}" if self.entry.crop < 1 else ""
        return f"mean {mean}, std {std}, {self.entry.interpolation}{crop}"

    def examples(self) -> list[Example]:
        """A few training images of each class, or of some of the classes."""
        names, labels = self.entry.labels or self.names, self._labels_of()["train"]
        if self.entry.task != "classify":
            return [
                Example(
                    previews.label_of(self.entry, labels[row]),
                    picture=previews.picture([self.pixels("train", row)]),
                )
                for row in previews.spread(labels)
            ]
        return [
            Example(
                names[label] if label < len(names) else f"class {label}",
                picture=previews.picture([self.pixels("train", int(row)) for row in rows]),
            )
            for label, rows in previews.by_class(self._labels_of()["train"])
        ]

    def pixels(self, split: str, row: int) -> np.ndarray:
        """One image as C×H×W in uint8."""
        image: np.ndarray = self.splits[split].pixels[row]
        return image

    def _labels_of(self) -> Mapping[str, np.ndarray]:
        """Of each split that is loaded."""
        return {name: images.labels for name, images in self.splits.items()}

    def train_dataloader(self) -> "ImageLoader":
        """Shuffled by (seed, epoch) and augmented, the incomplete batch dropped."""
        return self._fed(self._loader("train", shuffle=True, augmentation=self.augmentation))

    def _loader(
        self, name: str, *, shuffle: bool = False, augmentation: Augmentation | None = None
    ) -> "ImageLoader":
        source, shift = self.entry.made_of(name)
        images = self.splits[source]
        labels = self.splits[name].labels if name in self.splits else images.labels
        return ImageLoader(
            torch.from_numpy(images.pixels),
            torch.from_numpy(labels),
            mean=self.mean,
            std=self.std,
            classes=self.entry.classes,
            augmentation=augmentation or Augmentation(),
            batch_size=self.batch_size,
            order=self._order(len(images.labels), shuffle=shuffle),
            shift=shift,
        )


class HostImages(NamedTuple):
    """What the host makes of a batch of images: uint8 pixels, and what is to be done to them.

    The pixels are the rows of images instead where the device keeps these.
    """

    pixels: Tensor
    treatment: Treatment | None
    partners: Tensor | None  # for mixing, where they are not this very batch
    of_partners: Treatment | None
    target: Tensor
    of_partner: Tensor | None  # target
    indices: Tensor
    global_size: int


class ImageLoader(Loader):
    """Gathers on the host; augments and normalises on the device, as whole batches.

    The pixels stay uint8 until then.
    """

    def __init__(
        self,
        pixels: Tensor,
        target: Tensor,
        *,
        mean: Tensor,
        std: Tensor,
        classes: int,
        augmentation: Augmentation,
        batch_size: int,
        order: EpochOrder,
        shift: int = 0,
    ) -> None:
        super().__init__(target, batch_size=batch_size, order=order)
        self.shift = shift
        self.pixels, self.classes, self.augmentation = pixels, classes, augmentation
        # (p / 255 - mean) / std, with one subtraction and one product.
        self._middle = (mean * 255)[:, None, None]
        self._scale = (1 / (std * 255))[:, None, None]
        self._resident: Tensor | None = None

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """The epoch's batches from that number on, of images that the device may keep."""
        self._resident = self.kept_on_device()
        self._middle, self._scale = (x.to(self.feed.device) for x in (self._middle, self._scale))
        return super().batches(start)

    def kept_on_device(self) -> Tensor | None:
        """All images on the device, if it is one that has room for them."""
        return self.feed.resident(self.pixels)

    def host_batch(self, number: int, global_batch: Tensor) -> HostImages:
        """Gather this rank's share of a global batch, and draw what is done to it."""
        index, a, size = self.share_of(global_batch), self.augmentation, len(global_batch)
        target = self.target[index]
        if a == Augmentation():
            pixels = self.gather(index)
            return HostImages(pixels, None, None, None, target, None, index, size)
        order = self.sampler
        height, width = self.pixels.shape[-2:]
        numbers = generator(order.augmentation_seed, order.epoch, number)
        drawn = draw(a, size, (height, width), numbers)
        place = self.share_of(torch.arange(size))
        mine, pixels = drawn.rows(place), self.gather(index)
        if not a.mixes:
            return HostImages(pixels, mine, None, None, target, None, index, size)
        # Everybody's partner is the next one, who may be another rank's example.
        place = (place + 1) % size
        partner, partners, theirs = global_batch[place], None, None
        if order.world_size > 1:
            partners, theirs = self.gather_partners(partner), drawn.rows(place)
        return HostImages(pixels, mine, partners, theirs, target, self.target[partner], index, size)

    def gather(self, index: Tensor) -> Tensor:
        """The pixels of some examples, copied, or their rows where the device has the pixels."""
        return self.pixels.index_select(0, index) if self._resident is None else index

    def gather_partners(self, index: Tensor) -> Tensor:
        """The same of those with whom the examples of a batch are mixed."""
        return self.gather(index)

    def finish(self, made: HostImages) -> Batch:
        """Augment, normalise and mix."""
        x, target = self._altered(made.pixels, made.treatment), made.target
        if made.of_partner is not None:
            partner = x.roll(-1, 0)
            if made.partners is not None:
                partner = self._altered(made.partners, made.of_partners)
            assert made.treatment is not None
            assert made.treatment.share is not None
            x = mix(x, partner, made.treatment)
            target = mixed_targets(target, made.of_partner, made.treatment.share, self.classes)
        return Batch((x,), target, made.indices, made.global_size)

    def _altered(self, pixels: Tensor, treatment: Treatment | None) -> Tensor:
        if self._resident is not None:
            pixels = self._resident.index_select(0, pixels)
        if treatment is None:
            return self._normalise(pixels)
        x = self._normalise(alter(pixels, treatment, self.augmentation))
        return x if treatment.erase is None else erase(x, treatment.erase)

    def _normalise(self, pixels: Tensor) -> Tensor:
        return moved_right(pixels, self.shift).float().sub_(self._middle).mul_(self._scale)


def moved_right(pixels: Tensor, shift: int) -> Tensor:
    """Images B×C×H×W moved right; the left edge is repeated, the right one falls out."""
    if not shift:
        return pixels
    edge = pixels[..., :1].expand(*pixels.shape[:-1], shift)
    return torch.cat([edge, pixels[..., :-shift]], dim=-1)


def make(entry: DataSet, *, recipe: Mapping[str, Any], **options: Any) -> ImageData:
    """Make the data module with the augmentation of a recipe."""
    return ImageData(entry, augmentation=Augmentation.from_recipe(recipe), **options)


def load(entry: DataSet, *, sample: bool = False, split_seed: int = 0) -> cache.Bundle:
    """Decode the images of a data set, or open what was decoded before."""
    readers = source_splits(entry)
    made_from = {
        "format": _FORMAT,
        "pillow": PIL.__version__,
        # What they are normalised by is no matter of their pixels.
        "entry": {k: str(v) for k, v in replace(entry, mean=(), std=()).what_counts().items()},
        "sample": sample,
        "files": {name: cache.stamp_of(reader.files) for name, reader in readers.items()},
        **split.drawn_by(entry, split_seed),
    }
    if entry.repository is None:  # what was kept of deeper images before was clipped
        made_from["deep"] = "scaled"

    def fill(draft: cache.Draft) -> None:
        labels = {name: reader.labels(entry.label) for name, reader in readers.items()}
        for name, values in labels.items():
            if entry.task == "classify":
                check_labels(f"{entry.name}/{name}", values, entry.classes)
        parts = split.assign_rows(entry, labels, sample=sample, seed=split_seed)
        for name, reader in readers.items():
            mine = {part: rows for part, (where, rows) in parts.items() if where == name}
            _decode(draft, entry, reader, mine, labels[name])
        if entry.relabelled:
            _relabel(draft, entry, readers["test"])
        mean, std = moments(np.load(draft.folder / "train-pixels.npy", mmap_mode="r"))
        draft.facts |= {
            "mean": mean.tolist(),
            "std": std.tolist(),
            "splits": list(parts),
            "names": readers["train"].names(entry.label),
        }

    return cache.bundle(f"{entry.name.replace(':', '-')}-{entry.image_size}", made_from, fill)


def _decode(
    draft: cache.Draft,
    entry: DataSet,
    reader: Reader,
    parts: Mapping[str, np.ndarray],
    labels: np.ndarray,
) -> None:
    """Decode a source's split into those that are made of it, whatever the rows' order."""
    shape = (entry.channels, entry.image_size, entry.image_size)
    goal: dict[int, tuple[np.ndarray, int]] = {}
    for part, members in parts.items():
        pixels = draft.empty(f"{part}-pixels", (len(members), *shape), np.uint8)
        of_classes = entry.task == "classify"
        draft.save(f"{part}-labels", labels[members].astype(np.int64 if of_classes else np.float32))
        goal |= {int(row): (pixels, place) for place, row in enumerate(members)}
    decoded = decode_all(
        reader.where,
        reader.column(entry.columns[0]),
        channels=entry.channels,
        size=entry.image_size,
        wanted=frozenset(goal),
        crop=entry.crop,
        interpolation=entry.interpolation,
    )
    for row, image in decoded:
        pixels, place = goal.pop(row)
        pixels[place] = image
    if goal:
        raise DataError(
            f"{reader.where}: {len(labels)} labels, but no image from row {min(goal)} on"
        )


def _relabel(draft: cache.Draft, entry: DataSet, test: Reader) -> None:
    assert entry.relabelled is not None
    names = [e.name for piece in test.column(entry.columns[0]) for e in piece]
    draft.save(f"{entry.relabelled_split}-labels", imagenet_real.labels(entry.relabelled, names))


def stated_moments(entry: DataSet) -> tuple[Tensor, Tensor] | None:
    """Mean and standard deviation that a data set is normalised by; None where they are measured.

    Those of colours are averaged where images are grey.
    """
    if not entry.mean:
        return None
    mean, std = torch.tensor(entry.mean), torch.tensor(entry.std)
    if len(mean) == entry.channels:
        return mean, std
    return mean.mean().expand(entry.channels), std.mean().expand(entry.channels)


def moments(pixels: np.ndarray) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel, of 1, exactly."""
    pieces = (pixels[start : start + 4096] for start in range(0, len(pixels), 4096))
    return moments_of(sum(map(counted, pieces), np.zeros((pixels.shape[1], 256), dtype=np.int64)))


def counted(pixels: np.ndarray) -> np.ndarray:
    """How often each channel has each of the 256 values."""
    channels = pixels.swapaxes(0, 1)
    return np.array([np.bincount(values.ravel(), minlength=256) for values in channels])


def moments_of(counts: np.ndarray) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of values that were counted."""
    values = np.arange(256) / 255
    by_channel = []
    for share in counts / counts.sum(1, keepdims=True):
        mean = (share * values).sum()
        by_channel.append((mean, np.sqrt((share * (values - mean) ** 2).sum())))
    means, stds = torch.tensor(np.array(by_channel), dtype=torch.float32).T
    # A channel of one colour has no spread to divide by.
    return means, torch.where(stds > 0, stds, 1.0)


def check(name: str, split: str, images: Images, expected: int, classes: int) -> None:
    """Raise DataError, naming the row, where a split is not what the catalogue promises."""
    if len(images.pixels) != expected or len(images.labels) != expected:
        raise DataError(f"{name}/{split}: {len(images.pixels)} examples, not {expected}")
    check_labels(f"{name}/{split}", images.labels, classes)


def check_labels(where: str, labels: np.ndarray, classes: int) -> None:
    """Raise DataError that names the first row whose label is none of the classes."""
    outside = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(outside):
        row = outside[0]
        raise DataError(
            f"{where}, row {row}: label {labels[row]} of {classes} classes (0 to {classes - 1})"
        )


def fingerprint(splits: Mapping[str, Images]) -> str:
    """SHA-256 over the contents of all splits, in the order of their names."""
    return cache.fingerprint(
        (f"{name}-{part}", getattr(images, part))
        for name, images in sorted(splits.items())
        for part in ("labels", "pixels")
    )
