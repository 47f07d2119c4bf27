"""Index of tar files as WebDataset makes them: where each image lies, and its label, kept on disk.

`KEY.jpg` (or another image) stands beside `KEY.cls`. One pass over the headers makes the index,
with which any image is read by itself, in any order.
"""

import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lightning_bench.data import cache, progress
from lightning_bench.data.errors import DataError

IMAGES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
_FORMAT = 1


@dataclass(frozen=True)
class TarImages:
    """The images of tar files their bytes read as they are asked for."""

    files: Sequence[Path]
    file: np.ndarray
    offset: np.ndarray
    size: np.ndarray
    labels: np.ndarray

    def __getitem__(self, row: int) -> dict[str, Any]:
        path, offset = self.files[self.file[row]], int(self.offset[row])
        with path.open("rb") as file:
            file.seek(offset - tarfile.BLOCKSIZE)
            header = file.read(tarfile.BLOCKSIZE)
            data = file.read(int(self.size[row]))
        name = header[:100].rstrip(b"\0").decode(errors="replace")
        return {"bytes": data, "path": str(Path(name).with_suffix(""))}


def index(where: str, files: Sequence[Path], label: str = "cls") -> TarImages:
    """Open the index of a split's files, or make it; DataError names what is no image or label."""

    def fill(draft: cache.Draft) -> None:
        rows = np.array(_rows(where, files, f".{label}"), dtype=np.int64).reshape(-1, 4)
        for name, values in zip(_COLUMNS, rows.T, strict=True):
            draft.save(name, values)

    made_from = {"format": _FORMAT, "label": label, "files": cache.stamp_of(files)}
    name = f"tar-{where.replace(':', '-').replace('/', '-')}"
    kept = cache.bundle(name, made_from, fill)
    return TarImages(files, *(kept.array(name) for name in _COLUMNS))


_COLUMNS = ("file", "offset", "size", "labels")


def _rows(where: str, files: Sequence[Path], label: str) -> list[tuple[int, int, int, int]]:
    """Number of the file, place and length of the image, and label, of each example."""
    rows: list[tuple[int, int, int, int]] = []
    for number, path in enumerate(files):
        images: list[tuple[str, int, int]] = []
        labels: list[tuple[str, bytes]] = []
        try:
            check_end(path)
            with tarfile.open(path) as file:
                for member in file:
                    name = Path(member.name)
                    key, suffix = str(name.with_suffix("")), name.suffix.lower()
                    if suffix in IMAGES and member.isfile():
                        images.append((key, member.offset_data, member.size))
                    elif suffix == label and (content := file.extractfile(member)):
                        labels.append((key, content.read()))
        except (tarfile.TarError, OSError, ValueError) as error:
            raise DataError(damaged(where, path, error)) from None
        for place in range(max(len(images), len(labels))):
            image = images[place] if place < len(images) else ("", 0, 0)
            key, data = labels[place] if place < len(labels) else ("", b"")
            row = len(rows)
            if image[0] != key:
                raise DataError(
                    f"{where}, row {row}: the image is {image[0] or 'missing'!r}, "
                    f"the label that of {key or 'none'!r}"
                )
            if not data.strip().isdigit():
                raise DataError(f"{where}, row {row}: {key}{label} holds {data[:20]!r}")
            rows.append((number, image[1], image[2], int(data)))
        progress.report(f"{where}: {len(rows):,} images in {number + 1} of {len(files)} tar files")
    return rows


def check_end(path: Path) -> None:
    """Raise a ReadError where a tar file doesn't end as it must, in two blocks of zeros.

    Cut between two members it would only seem to be shorter.
    """
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 1024))
        if any(file.read()):
            raise tarfile.ReadError("it ends too soon")


def damaged(where: str, path: Path, error: Exception) -> str:
    """What is said of a file that can't be read."""
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"{where}: {path.name} is damaged ({first}); fetch it again"
