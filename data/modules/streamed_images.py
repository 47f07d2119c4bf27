"""StreamedImages: the LightningDataModule of images too many to keep decoded.

`datasets` maps their bytes as Arrow files; the loader's threads decode them straight to the
wanted size. What is random depends on seed, epoch and place, not on the threads.

Threads and not processes, since PIL lets go of the GIL: nothing has to be started, imported or
sent, of which a run that only scores some images would do little else (benchmarks/images.py).
"""

import hashlib
import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import datasets
import numpy as np
import PIL
import torch
from torch import Tensor

from lightning_bench.data import cache, progress, split
from lightning_bench.data.dataset import DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.data.loader import generator
from lightning_bench.data.modules.image_data import (
    HostImages,
    ImageData,
    ImageLoader,
    check_labels,
    counted,
    moments_of,
    stated_moments,
)
from lightning_bench.data.sources import imagenet_real, tar_index
from lightning_bench.data.sources.readers import FolderReader, Reader, TarReader
from lightning_bench.data.sources.source_splits import source_splits
from lightning_bench.data.transforms.augment import Augmentation
from lightning_bench.data.transforms.decode import (
    image_size,
    open_image,
    pixels,
    reason,
    resized,
    square,
)

#: Images, evenly spread over the training split, that mean and standard deviation are measured on:
#: the mean of so many strays by a seventieth of what one image's strays by.
_MEASURED = 5_000
#: Batches that are decoded before they are asked for.
_AHEAD = 2
_PIECE = 256
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
        self.workers = self.cores if workers is None else workers
        self.sources: dict[str, tuple[Any, np.ndarray]] = {}
        self._labels: dict[str, np.ndarray] = {}

    def setup(self, stage: str | None = None) -> None:
        """Find and check all splits, or the test splits alone; no image is decoded yet.

        For "fit" nothing is left of the test splits.
        """
        entry = self.entry
        tests = tuple({entry.made_of(name)[0]: None for name in entry.tests})
        wanted = tests if stage == "test" and entry.mean else None
        served = {entry.made_of(s)[0] for s in wanted or entry.splits if entry.serves(s, stage)}
        if self.sources.keys() >= served:
            return
        readers = source_splits(entry, wanted)
        self._take(readers)
        digest = self._digest(readers)
        if entry.relabelled:
            self._relabel_test(entry.relabelled)
            digest.update(self._labels[entry.relabelled_split].tobytes())
        self.fingerprint = digest.hexdigest()
        self.names = next(iter(readers.values())).names(entry.label)
        self.mean, self.std = stated_moments(entry) or self._measured_moments(readers)
        if entry.shots and "train" in self.sources:
            self._keep_shots()
        for kept in (self.sources, self._labels):
            for name in [name for name in kept if not entry.serves(name, stage)]:
                del kept[name]

    def _take(self, readers: Mapping[str, Reader]) -> None:
        """Make up the splits out of the source's, with labels that are checked."""
        labels = {name: reader.labels(self.entry.label) for name, reader in readers.items()}
        for name, values in labels.items():
            check_labels(f"{self.entry.name}/{name}", values, self.entry.classes)
        if "train" in labels:
            parts = split.assign_rows(
                self.entry, labels, sample=self.sample, seed=self.seed_of("split")
            )
        else:
            parts = {name: (name, np.arange(len(values))) for name, values in labels.items()}
        column = self.entry.columns[0]
        tables = {name: _table(reader, column) for name, reader in readers.items()}
        for name, (source, rows) in sorted(parts.items()):
            self.sources[name] = tables[source], rows
            self._labels[name] = labels[source][rows].astype(np.int64)

    def _measured_moments(self, readers: Mapping[str, Reader]) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the training images as evaluation sees them, kept on disk.

        Of all of them, or of some that are evenly spread; the same on every machine.
        """
        _, members = self.sources["train"]
        places = np.unique(np.linspace(0, len(members) - 1, _MEASURED).round().astype(np.int64))
        made_from = {
            "format": 1,
            "pillow": PIL.__version__,
            "entry": {name: str(value) for name, value in self.entry.what_counts().items()},
            "sample": self.sample,
            "files": cache.stamp_of(readers["train"].files),
            "measured": len(places),
        }

        def fill(draft: cache.Draft) -> None:
            decoder = self._decoder("train")
            counts = np.zeros((self.entry.channels, 256), dtype=np.int64)
            with ThreadPoolExecutor(max(1, self.workers)) as pool:
                for start in range(0, len(places), _PIECE):
                    requests = [(int(place), ()) for place in places[start : start + _PIECE]]
                    images = list(pool.map(decoder.__getitem__, requests))
                    counts += counted(torch.stack(images).numpy())
                    progress.report(f"{self.entry.name}: mean and spread of {start:,} images")
            draft.save("moments", torch.stack(moments_of(counts)).numpy())

        name = f"{self.entry.name.replace(':', '-')}-{self.entry.image_size}-moments"
        mean, std = torch.from_numpy(np.array(cache.bundle(name, made_from, fill).array("moments")))
        return mean, std

    def _digest(self, readers: Mapping[str, Reader]) -> "hashlib._Hash":
        """Of the splits' rows and labels and the files' sizes: all bytes would take an hour."""
        digest = hashlib.sha256()
        for name, (_, rows) in self.sources.items():
            digest.update(f"{name}:{rows.dtype}".encode())
            digest.update(rows.tobytes() + self._labels[name].tobytes())
        for reader in readers.values():
            sizes = [(path.name, path.stat().st_size) for path in reader.files]
            digest.update(repr(sizes).encode())
        return digest

    def _relabel_test(self, place: str) -> None:
        table, _ = self.sources["test"]
        names = [cell["path"] or "" for cell in table[self.entry.columns[0]]]
        self._labels[self.entry.relabelled_split] = imagenet_real.labels(place, names)

    def _keep_shots(self) -> None:
        table, rows = self.sources["train"]
        members = split.shots(self.entry, self._labels["train"], seed=self.seed_of("shots"))
        self.sources["train"] = table, rows[members]
        self._labels["train"] = self._labels["train"][members]
        self.fingerprint = cache.fingerprint_of_part(self.fingerprint, members)

    def pixels(self, split: str, row: int) -> np.ndarray:
        """One image as evaluation sees it."""
        return self._decoder(split)[row, ()].numpy()

    def _labels_of(self) -> Mapping[str, np.ndarray]:
        return self._labels

    def _decoder(self, name: str, augmentation: Augmentation | None = None) -> "ImageDecoder":
        table, members = self.sources[name]
        where = f"{self.entry.name}/{name}"
        return ImageDecoder(where, table, self.entry.columns[0], members, self.entry, augmentation)

    def _loader(
        self, name: str, *, shuffle: bool = False, augmentation: Augmentation | None = None
    ) -> "StreamedLoader":
        source, shift = self.entry.made_of(name)
        labels = self._labels.get(name, self._labels[source])
        return StreamedLoader(
            self._decoder(source, augmentation),
            torch.from_numpy(labels),
            workers=self.workers,
            mean=self.mean,
            std=self.std,
            classes=self.entry.classes,
            augmentation=augmentation or Augmentation(),
            batch_size=self.batch_size,
            order=self._order(len(labels), shuffle=shuffle),
            shift=shift,
        )


#: The place of an image in the split, and the numbers that its generator starts from.
DecodeRequest = tuple[int, tuple[int, ...]]


class ImageDecoder:
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
        self.crop, self.interpolation = entry.crop, entry.interpolation
        self.least = augmentation.resized_crop if augmentation else 0.0

    def __getitem__(self, request: DecodeRequest) -> Tensor:
        """The example's C×H×W, by its place in the split and the numbers of its generator."""
        place, numbers = request
        row = int(self.members[place])
        kept = self.table[row][self.column]
        data = kept["bytes"]
        try:
            if not self.least:
                near = math.ceil(self.size / self.crop)
                image = open_image(data, channels=self.channels, near=near)
                whole = square(image, self.size, crop=self.crop, interpolation=self.interpolation)
                return torch.from_numpy(whole.copy())
            return self._cropped(data, generator(*numbers))
        except (OSError, SyntaxError, ValueError, TypeError) as error:
            name = f" ({kept['path']})" if kept["path"] else ""
            raise DataError(
                f"{self.where}, row {row}{name}: the image doesn't decode: {reason(error)}"
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
        part = resized(image, self.size, box, self.interpolation)
        return torch.from_numpy(pixels(part).copy())


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
    """Batches decoded by threads, then augmented as batches on the device.

    Mixing needs the partner's pixels, which on several ranks only another one's share has: there
    each decodes its examples' partners too, twice as many images.
    """

    def __init__(
        self, decoder: ImageDecoder, target: Tensor, *, workers: int, **options: Any
    ) -> None:
        # One image in place of all of them, for its size.
        empty = torch.empty(1, decoder.channels, decoder.size, decoder.size, dtype=torch.uint8)
        super().__init__(empty, target, **options)
        self.decoder, self.workers = decoder, workers
        self._ready = empty

    def kept_on_device(self) -> None:
        """Nothing is kept, neither there nor here."""

    def host_batches(self, start: int) -> Generator[HostImages, None, None]:
        """Yield what the host makes of the batches from that number on, decoded ahead."""
        members = self.global_batches()
        numbers = range(start, len(self))
        decoded = self._decoded(self._request(n, members[n]) for n in numbers)
        for number, self._ready in zip(numbers, decoded, strict=True):
            yield self.host_batch(number, members[number])

    def _request(self, number: int, global_batch: Tensor) -> list[DecodeRequest]:
        """This rank's share of a global batch, each with the numbers of its generator."""
        order, size = self.sampler, len(global_batch)
        places = self.share_of(torch.arange(size))
        if self.augmentation.mixes and order.world_size > 1:
            places = torch.cat([places, (places + 1) % size])
        rows = global_batch[places].tolist()
        return [
            (row, (order.augmentation_seed, order.epoch, number, place))
            for row, place in zip(rows, places.tolist(), strict=True)
        ]

    def _decoded(self, requests: Iterable[list[DecodeRequest]]) -> Iterator[Tensor]:
        """Decode batches, some of them ahead; without workers each as it is asked for."""
        if not self.workers:
            for request in requests:
                yield torch.stack([self.decoder[one] for one in request])
            return
        pool = ThreadPoolExecutor(self.workers)
        ahead: deque[list[Future[Tensor]]] = deque()
        try:
            for request in requests:
                ahead.append([pool.submit(self.decoder.__getitem__, one) for one in request])
                if len(ahead) > _AHEAD:
                    yield torch.stack([image.result() for image in ahead.popleft()])
            while ahead:
                yield torch.stack([image.result() for image in ahead.popleft()])
        finally:
            pool.shutdown(cancel_futures=True)

    def gather(self, index: Tensor) -> Tensor:
        """The batch that was decoded last."""
        return self._ready[: len(index)]

    def gather_partners(self, index: Tensor) -> Tensor:
        """Those that were decoded after it."""
        return self._ready[-len(index) :]


def make(entry: DataSet, *, recipe: Mapping[str, Any], **options: Any) -> StreamedImages:
    """Make the data module with the augmentation of a recipe."""
    return StreamedImages(entry, augmentation=Augmentation.from_recipe(recipe), **options)


class OneColumn:
    """Images that are read one by one, as a table with one column."""

    def __init__(self, column: str, read: Callable[[int], dict[str, Any]]) -> None:
        self.column, self.read = column, read

    def __getitem__(self, row: int) -> dict[str, dict[str, Any]]:
        return {self.column: self.read(row)}


def _table(reader: Reader, column: str) -> Any:
    """The split as `datasets` maps it, its images left as bytes."""
    if isinstance(reader, FolderReader):
        paths = reader.files
        return OneColumn(
            column, lambda row: {"bytes": paths[row].read_bytes(), "path": str(paths[row])}
        )
    if isinstance(reader, TarReader):
        return OneColumn(column, tar_index.index(reader.where, reader.files).__getitem__)
    files = [str(path) for path in reader.files]
    table = datasets.load_dataset("parquet", data_files={"rows": files}, split="rows")
    for name, feature in table.features.items():
        if isinstance(feature, datasets.Image):
            table = table.cast_column(name, datasets.Image(decode=False))
    return table
