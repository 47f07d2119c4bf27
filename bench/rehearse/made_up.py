"""Made-up examples of a data set's shapes, types, label ranges and text lengths, as its files."""

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from lightning_bench.data import catalogue
from lightning_bench.data.dataset import MASKED, DataSet
from lightning_bench.data.tokenisers import SPECIAL

_SENTENCE = (
    "a model reads many words of one text and then another that was not in the first where each "
    "is drawn as it comes so no sentence here means anything at all but its length is right"
)
_WORDS = tuple(_SENTENCE.split())
#: How the width of a picture compares to its height.
_RATIOS = (1.0, 1.4, 0.7)
#: As many images as ImageNet's validation split has; labels are numbered by image.
_RELABELLED = 50_000


def write(entry: DataSet, path: Path, rows: int, *, seed: int) -> None:
    """Write so many examples in the format that the file's name tells."""
    generator = np.random.Generator(np.random.PCG64(seed))
    labels = _labels(entry, rows)
    if ".parquet" in path.suffixes:
        columns: dict[str, Any] = {}
        if entry.kind == "image":
            images = list(_images(entry, rows, generator))
            columns[entry.columns[0]] = pa.array(images)
        else:
            for column in entry.columns:
                columns[column] = list(_texts(entry, rows, generator))
        columns[entry.label] = labels
        pq.write_table(pa.table(columns), path)
    elif ".tar" in path.suffixes:
        _write_tar(entry, path, labels, generator)
    else:
        texts = _texts(entry, rows, generator)
        lines = "".join(json.dumps({entry.columns[0]: text}) + "\n" for text in texts)
        content = lines.encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def several_labels() -> list[list[int]]:
    """As ReaL's file has them: none, one or several right classes an image."""
    return [list(range(image % 3)) for image in range(_RELABELLED)]


def vocabulary(size: int) -> list[str]:
    """A vocabulary of exactly this size, with the words of made-up texts and all letters."""
    letters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    tokens = [*SPECIAL, *letters, *(f"##{letter}" for letter in letters), *_WORDS]
    known = list(dict.fromkeys(tokens))
    return (known + [f"[unused{number}]" for number in range(size)])[:size]


def _labels(entry: DataSet, rows: int) -> list[float] | list[int]:
    """The highest label, the lowest, then all over the range; a regression's are floats."""
    if entry.task == "regress":
        return [5.0 * row / max(1, rows - 1) for row in range(rows)]
    classes = max(1, entry.classes)
    return [(classes - 1 + row * max(1, classes // 7)) % classes for row in range(rows)]


def _texts(entry: DataSet, rows: int, generator: np.random.Generator) -> Iterator[str]:
    """Longer than what a model reads, and short ones; of a corpus long ones alone."""
    for row in range(rows):
        long = entry.task in MASKED or entry.name.endswith("-nsp") or row % 2 == 0
        words = round(1.2 * entry.length) if long else 3
        yield " ".join(_WORDS[place] for place in generator.integers(len(_WORDS), size=words))


def _images(entry: DataSet, rows: int, generator: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Pictures of about the data set's own size, in several formats and ratios."""
    side = catalogue.entries()[entry.name].image_size if entry.name in catalogue.entries() else 64
    for row in range(rows):
        shape = (side, max(8, round(side * _RATIOS[row % len(_RATIOS)])), 3)
        pixels = generator.integers(256, size=shape, dtype=np.uint8)
        image = Image.fromarray(pixels)
        grey = entry.channels == 1 or row % 4 == 3
        stream = io.BytesIO()
        (image.convert("L") if grey else image).save(stream, "PNG" if row % 2 else "JPEG")
        yield {"bytes": stream.getvalue(), "path": f"ILSVRC2012_val_{row + 1:08}.JPEG"}


def _write_tar(
    entry: DataSet, path: Path, labels: list[float] | list[int], generator: np.random.Generator
) -> None:
    with tarfile.open(path, "w") as file:
        for row, image in enumerate(_images(entry, len(labels), generator)):
            for suffix, content in (
                (entry.columns[0], image["bytes"]),
                (entry.label, str(int(labels[row])).encode()),
            ):
                member = tarfile.TarInfo(f"{row:08}.{suffix}")
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))
