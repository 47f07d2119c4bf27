"""Readers of the files of one split, piece by piece: parquet, tar, lines of text, folders."""

import csv
import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lightning_bench.common.messages import nearest
from lightning_bench.data.errors import DataError
from lightning_bench.data.sources import tar_index
from lightning_bench.data.sources.tar_index import IMAGES, damaged

_PIECE = 2048
#: Endings of tables in text.
TABLES = {".csv", ".tsv"}


class Encoded(NamedTuple):
    """An image's bytes as they lie in the file, and the name it had."""

    bytes: bytes
    name: str


@dataclass(frozen=True)
class Reader:
    """Examples in files of one kind; `where` names them in messages."""

    where: str
    files: list[Path]

    def labels(self, column: str) -> np.ndarray:
        """All labels, integers or floats."""
        raise NotImplementedError

    def column(self, name: str) -> Iterator[list[Any]]:
        """The values of a column, in pieces: texts, or `Encoded` images."""
        raise NotImplementedError

    def names(self, column: str) -> tuple[str, ...]:
        """What its labels are called, where the files say so."""
        del column
        return ()

    def count(self, column: str) -> int:
        """How many there are."""
        return sum(len(piece) for piece in self.column(column))


class ParquetReader(Reader):
    """Hub repositories: an image is a struct of bytes and path."""

    def labels(self, column: str) -> np.ndarray:
        """All labels; one that is missing is named with its row."""
        pieces = list(self._read(column))
        values = pa.chunked_array(pieces) if pieces else pa.chunked_array([[]], pa.int64())
        if values.null_count:
            row = values.is_null().index(True).as_py()
            raise DataError(f"{self.where}, row {row}: no {column}")
        if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
            raise DataError(f"{self.where}: the column {column!r} holds {values.type}, no labels")
        labels: np.ndarray = values.to_numpy()
        return labels

    def names(self, column: str) -> tuple[str, ...]:
        """The names that `datasets` keeps beside the schema."""
        kept = (pq.read_schema(self.files[0]).metadata or {}).get(b"huggingface", b"{}")
        features = json.loads(kept).get("info", {}).get("features", {})
        return tuple(features.get(column, {}).get("names") or ())

    def column(self, name: str) -> Iterator[list[Any]]:
        """The values in pieces of at most 2,048."""
        row = 0
        for piece in self._read(name):
            values = piece.to_pylist()
            if pa.types.is_struct(piece.type):
                values = [self._image(row + i, value) for i, value in enumerate(values)]
            elif not pa.types.is_string(piece.type) and not pa.types.is_large_string(piece.type):
                raise DataError(f"{self.where}: the column {name!r} holds {piece.type}, no texts")
            elif None in values:
                raise DataError(f"{self.where}, row {row + values.index(None)}: no {name}")
            yield values
            row += len(values)

    def _image(self, row: int, value: dict[str, Any] | None) -> Encoded:
        if not value or not value.get("bytes"):
            raise DataError(f"{self.where}, row {row}: no image")
        return Encoded(value["bytes"], value.get("path") or "")

    def _read(self, column: str) -> Iterator[pa.Array]:
        for path in self.files:
            try:
                with pq.ParquetFile(path) as file:
                    names = file.schema_arrow.names
                    if column not in names:
                        hint = nearest(column, names)
                        raise DataError(f"{self.where}: {path.name} has no column {column!r}{hint}")
                    for batch in file.iter_batches(batch_size=_PIECE, columns=[column]):
                        yield batch.column(0)
            except (pa.ArrowException, OSError) as error:
                raise DataError(damaged(self.where, path, error)) from None


class TarReader(Reader):
    """WebDataset's tar files: `KEY.jpg` (or another image) beside `KEY.cls`."""

    def labels(self, column: str) -> np.ndarray:
        """The integers in the members of this extension."""
        return np.array(tar_index.index(self.where, self.files, column).labels)

    def column(self, name: str) -> Iterator[list[Any]]:
        """The images in pieces, each that of the label in its place."""
        del name  # whichever extension the images have
        images = tar_index.index(self.where, self.files)
        for start in range(0, len(images.labels), _PIECE):
            rows = range(start, min(start + _PIECE, len(images.labels)))
            found = (images[row] for row in rows)
            yield [Encoded(image["bytes"], image["path"]) for image in found]


class LinesReader(Reader):
    """Texts without labels: JSON objects a line, or plain text, a paragraph an example."""

    def column(self, name: str) -> Iterator[list[Any]]:
        """The texts, a file a piece."""
        for path in self.files:
            opened = gzip.open if path.suffix == ".gz" else open
            try:
                with opened(path, "rt", encoding="utf-8") as file:
                    if ".json" in path.suffixes or ".jsonl" in path.suffixes:
                        yield [self._value(path, row, line, name) for row, line in enumerate(file)]
                    else:
                        paragraphs = re.split(r"\n\s*\n", file.read())
                        yield [text.strip() for text in paragraphs if text.strip()]
            except (OSError, EOFError, UnicodeDecodeError) as error:
                raise DataError(damaged(self.where, path, error)) from None

    def _value(self, path: Path, row: int, line: str, name: str) -> str:
        try:
            value = json.loads(line).get(name)
        except (ValueError, AttributeError):
            raise DataError(
                f"{self.where}, row {row} of {path.name}: no JSON object: {line.strip()[:40]!r}"
            ) from None
        if not isinstance(value, str):
            raise DataError(f"{self.where}, row {row} of {path.name}: no text in {name!r}")
        return value


@dataclass(frozen=True)
class FolderReader(Reader):
    """Image files in a folder for each class, in alphabetical order."""

    classes: tuple[str, ...]

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.classes)}

    def names(self, column: str) -> tuple[str, ...]:
        """The folders' names."""
        del column
        return self.classes

    def labels(self, column: str) -> np.ndarray:
        """The number of each file's folder."""
        return np.array([self._number[path.parent.name] for path in self.files], dtype=np.int64)

    def column(self, name: str) -> Iterator[list[Any]]:
        """The files' contents in pieces."""
        for start in range(0, len(self.files), _PIECE):
            part = self.files[start : start + _PIECE]
            yield [Encoded(path.read_bytes(), str(path)) for path in part]


class CsvReader(Reader):
    """A table of texts, a header and a row an example, with commas or (.tsv) tabs between."""

    def names(self, column: str) -> tuple[str, ...]:
        """The labels as they are written, in alphabetical order."""
        return tuple(sorted(set(self._values(column))))

    def labels(self, column: str) -> np.ndarray:
        """The place of each row's label among their names."""
        number = {name: i for i, name in enumerate(self.names(column))}
        return np.array([number[value] for value in self._values(column)], dtype=np.int64)

    def column(self, name: str) -> Iterator[list[Any]]:
        """The values in pieces."""
        values = self._values(name)
        while piece := list(islice(values, _PIECE)):
            yield piece

    def header(self) -> list[str]:
        """The columns' names."""
        with self._open(self.files[0]) as file:
            return next(self._rows(self.files[0], file), [])

    def _values(self, name: str) -> Iterator[str]:
        for path in self.files:
            with self._open(path) as file:
                rows = self._rows(path, file)
                header = next(rows, [])
                if name not in header:
                    hint = nearest(name, header)
                    raise DataError(f"{self.where}: {path.name} has no column {name!r}{hint}")
                place = header.index(name)
                for row, cells in enumerate(rows):
                    if len(cells) != len(header) or not cells[place].strip():
                        raise DataError(f"{self.where}, row {row} of {path.name}: no {name}")
                    yield cells[place].strip()

    def _rows(self, path: Path, file: Iterable[str]) -> Iterator[list[str]]:
        try:
            yield from csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",")
        except (csv.Error, OSError, UnicodeDecodeError) as error:
            raise DataError(damaged(self.where, path, error)) from None

    def _open(self, path: Path) -> TextIO:
        return path.open(encoding="utf-8-sig", newline="")


def reader_of(files: list[Path]) -> type[Reader]:
    """Tell by the first file's name how a split is to be read."""
    suffixes = files[0].suffixes if files else []
    if ".parquet" in suffixes:
        return ParquetReader
    if suffixes and suffixes[-1] in TABLES:
        return CsvReader
    return TarReader if ".tar" in suffixes else LinesReader


def is_image(path: Path) -> bool:
    """Whether a file is an image by its name."""
    return path.suffix.lower() in IMAGES
