"""StreamedImages: the LightningDataModule of images too many to keep decoded.

`datasets` maps their bytes as Arrow files; the loader's threads decode them straight to the
wanted size. What is random depends on seed, epoch and place, not on the threads.

Threads and not processes, since PIL lets go of the GIL: nothing has to be started, imported or
sent, of which a run that only scores some images would do little else (benchmarks/images.py).
"""

import hashlib
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import torch
from PIL import Image
from torch import Tensor

from lightning_bench.common.machine import usable_cores
from lightning_bench.data import cache, split
from lightning_bench.data.batch import Batch
from lightning_bench.data.catalogue.dataset import DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.data.loader import Order, generator
from lightning_bench.data.modules.image_data import ImageData, ImageLoader, check_labels
from lightning_bench.data.sources import imagenet_real, readers
from lightning_bench.data.transforms.augment import Augmentation
from lightning_bench.data.transforms.decode import image_size, open_image, pixels, reason, square

#: The part of the shorter side that evaluation sees, as everywhere for ImageNet.
EVALUATION_CROP = 0.875
#: Batches that are decoded before they are asked for.
_AHEAD = 2
_RATIOS = (math.log(3 / 4), math.log(4 / 3))


class StreamedImages(ImageData):
    """Like ImageData, but nothing is kept; `setup("test")` is content with the test split."""

    def __init__(
        self,
        entry: DataSet,
        *,
        augmentation: Augmentation | None = None,
        workers: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(entry, **options)
        self.augmentation = augmentation or Augmentation()
        self.workers = usable_cores() if workers is None else workers
        self.sources: dict[str, tuple[Any, np.ndarray]] = {}
        self._labels: dict[str, np.ndarray] = {}

    def setup(self, stage: str | None = None) -> None:
        """Find and check all splits, or the test splits alone; no image is decoded yet.

        For "fit" nothing is left of the test splits.
        """
        tests = {self.entry.made_of(name)[0]: None for name in self.entry.tests}
        wanted = tuple(tests) if stage == "test" else None
        needed = [s for s in wanted or self.entry.splits if self.entry.serves(s, stage)]
        if self.sources.keys() >= set(needed):
            return
        found = readers.of(self.entry, wanted)
        labels = {name: source.labels(self.entry.label) for name, source in found.items()}
        for name, values in labels.items():
            check_labels(f"{self.entry.name}/{name}", values, self.entry.classes)
        if "train" in labels:
            parts = split.plan(self.entry, labels, sample=self.sample)
        else:
            parts = {name: (name, np.arange(len(values))) for name, values in labels.items()}
        digest = hashlib.sha256()
        tables = {name: _table(source) for name, source in found.items()}
        for name, (where, members) in sorted(parts.items()):
            self.sources[name] = tables[where], members
            self._labels[name] = labels[where][members].astype(np.int64)
            digest.update(f"{name}:{members.dtype}".encode())
            digest.update(members.tobytes() + self._labels[name].tobytes())
        for source in found.values():  # reading all bytes would take an hour each time
            digest.update(
                repr([(path.name, path.stat().st_size) for path in source.files]).encode()
            )
        if self.entry.relabelled:
            table, _ = self.sources["test"]
            names = [cell["path"] or "" for cell in table[self.entry.columns[0]]]
            self._labels["test"] = imagenet_real.labels(self.entry.relabelled, names)
            digest.update(self._labels["test"].tobytes())
        self.fingerprint = digest.hexdigest()
        self.names = next(iter(found.values())).names(self.entry.label)
        if self.entry.shots and "train" in parts:
            table, rows_ = self.sources["train"]
            members = split.shots(self.entry, self._labels["train"], seed=self.seed)
            self.sources["train"] = table, rows_[members]
            self._labels["train"] = self._labels["train"][members]
            self.fingerprint = cache.part(self.fingerprint, members)
        self.mean, self.std = torch.tensor(self.entry.mean), torch.tensor(self.entry.std)
        for name in [name for name in self.sources if not self.entry.serves(name, stage)]:
            del self.sources[name], self._labels[name]

    def pixels(self, split: str, row: int) -> np.ndarray:
        """One image as evaluation sees it."""
        return self._reader(split)[row, ()].numpy()

    def _labels_of(self) -> Mapping[str, np.ndarray]:
        return self._labels

    def _reader(self, name: str, augmentation: Augmentation | None = None) -> "Reader":
        table, members = self.sources[name]
        where = f"{self.entry.name}/{name}"
        return Reader(where, table, self.entry.columns[0], members, self.entry, augmentation)

    def _loader(
        self, name: str, *, shuffle: bool = False, augmentation: Augmentation | None = None
    ) -> "StreamedLoader":
        of, shift = self.entry.made_of(name)
        order = Order(
            len(self._labels[of]),
            seed=self.seed,
            shuffle=shuffle,
            rank=self.rank,
            world_size=self.world_size,
        )
        return StreamedLoader(
            self._reader(of, augmentation),
            torch.from_numpy(self._labels[of]),
            workers=self.workers,
            mean=self.mean,
            std=self.std,
            classes=self.entry.classes,
            augmentation=augmentation or Augmentation(),
            batch_size=self.batch_size,
            order=order,
            shift=shift,
        )


#: The place of an image in the split, and the numbers that its generator starts from.
Request = tuple[int, tuple[int, ...]]


class Reader:
    """Decodes one example to uint8; what is random comes with the request."""

    def __init__(
        self,
        where: str,
        table: Any,
        column: str,
        members: np.ndarray,
        entry: DataSet,
        augmentation: Augmentation | None,
    ) -> None:
        self.where, self.table, self.column, self.members = where, table, column, members
        self.channels, self.size = entry.channels, entry.image_size
        self.least = augmentation.resized_crop if augmentation else 0.0

    def __getitem__(self, request: Request) -> Tensor:
        """The example's C×H×W, by its place in the split and the numbers of its generator."""
        place, numbers = request
        row = int(self.members[place])
        data = self.table[row][self.column]["bytes"]
        try:
            if not self.least:
                near = math.ceil(self.size / EVALUATION_CROP)
                image = open_image(data, channels=self.channels, near=near)
                return torch.from_numpy(square(image, self.size, crop=EVALUATION_CROP).copy())
            return self._cropped(data, generator(*numbers))
        except (OSError, SyntaxError, ValueError, TypeError) as error:
            raise DataError(
                f"{self.where}, row {row}: the image doesn't decode: {reason(error)}"
            ) from None

    def _cropped(self, data: bytes, drawn: torch.Generator) -> Tensor:
        """Inception's crop: a part of the area, of some ratio, resized to the size.

        A JPEG is decoded at the least size that leaves the crop no smaller than what is wanted.
        """
        width, height = image_size(data)
        left, top, wide, tall = crop_box((width, height), self.least, drawn)
        near = math.ceil(min(width, height) * self.size / min(wide, tall))
        image = open_image(data, channels=self.channels, near=near)
        across, down = image.width / width, image.height / height
        box = (left * across, top * down, (left + wide) * across, (top + tall) * down)
        resized = image.resize((self.size, self.size), Image.Resampling.BICUBIC, box=box)
        return torch.from_numpy(pixels(resized).copy())


def crop_box(
    size: tuple[int, int], least: float, drawn: torch.Generator
) -> tuple[int, int, int, int]:
    """Left, top, width and height as RandomResizedCrop draws them: ten tries, else the middle."""
    width, height = size
    for first, second, third, fourth in torch.rand(10, 4, generator=drawn).tolist():
        area = width * height * (least + (1 - least) * first)
        ratio = math.exp(_RATIOS[0] + (_RATIOS[1] - _RATIOS[0]) * second)
        wide, tall = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < tall <= height:
            left, top = int(third * (width - wide + 1)), int(fourth * (height - tall + 1))
            return left, top, wide, tall
    wide = min(width, round(height * 4 / 3))
    tall = min(height, round(width * 4 / 3))
    return (width - wide) // 2, (height - tall) // 2, wide, tall


class StreamedLoader(ImageLoader):
    """Batches decoded by threads, then augmented as batches here.

    Mixing needs the partner's pixels, which only this rank's own batch has: with it, several
    devices blend other pairs than one device would.
    """

    def __init__(self, reader: Reader, target: Tensor, *, workers: int, **options: Any) -> None:
        # One image in place of all of them, for its size.
        empty = torch.empty(1, reader.channels, reader.size, reader.size, dtype=torch.uint8)
        super().__init__(empty, target, **options)
        self.reader, self.workers = reader, workers
        self._ready = empty

    def batches(self, start: int = 0) -> Iterator[Batch]:
        """Yield the epoch's batches from that number on, decoded ahead."""
        shares = self.shares()
        numbers = range(start, len(self))
        decoded = self._decoded(self._request(n, shares[n].tolist()) for n in numbers)
        for number, self._ready in zip(numbers, decoded, strict=True):
            yield self.batch(number, shares[number])

    def _request(self, number: int, rows: list[int]) -> list[Request]:
        """This rank's share of a global batch, each with the numbers of its generator."""
        order = self.sampler
        return [
            (row, (order.seed, order.epoch, number, place))
            for place, row in enumerate(rows)
            if place % order.world_size == order.rank
        ]

    def _decoded(self, requests: Iterable[list[Request]]) -> Iterator[Tensor]:
        """Decode batches, some of them ahead; without workers each as it is asked for."""
        if not self.workers:
            for request in requests:
                yield torch.stack([self.reader[one] for one in request])
            return
        pool = ThreadPoolExecutor(self.workers)
        ahead: deque[list[Future[Tensor]]] = deque()
        try:
            for request in requests:
                ahead.append([pool.submit(self.reader.__getitem__, one) for one in request])
                if len(ahead) > _AHEAD:
                    yield torch.stack([image.result() for image in ahead.popleft()])
            while ahead:
                yield torch.stack([image.result() for image in ahead.popleft()])
        finally:
            pool.shutdown(cancel_futures=True)

    def gather(self, index: Tensor) -> Tensor:
        """The batch that was decoded last."""
        del index
        return self._ready


def make(entry: DataSet, *, recipe: Mapping[str, Any], **options: Any) -> StreamedImages:
    """Make the data module with the augmentation of a recipe."""
    augmentation = Augmentation.from_recipe(recipe)
    if augmentation.mixes and options.get("world_size", 1) > 1:
        raise DataError("mixup and cutmix of streamed images work on one device only, so far")
    return StreamedImages(entry, augmentation=augmentation, **options)


class Files:
    """Image files as rows of a table."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = paths

    def __getitem__(self, row: int) -> dict[str, dict[str, Any]]:
        path = self.paths[row]
        return {"image": {"bytes": path.read_bytes(), "path": str(path)}}


def _table(source: readers.Rows) -> Any:
    """The split as `datasets` maps it, its images left as bytes."""
    if isinstance(source, readers.Folders):
        return Files(source.files)
    files = [str(path) for path in source.files]
    found = datasets.load_dataset("parquet", data_files={"rows": files}, split="rows")
    for name, feature in found.features.items():
        if isinstance(feature, datasets.Image):
            found = found.cast_column(name, datasets.Image(decode=False))
    return found
