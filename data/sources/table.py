"""Tables of one's own and of the hub: labelled texts, pairs, numbers, or image files by name.

`table:PATH` is a CSV, TSV, JSONL or Parquet file, or a folder with one of them a split (train, val,
test); `hub:OWNER/NAME` any data set of the hub that lies there as Parquet. The page says which
column is the label, or which columns are several; the others are what a model reads, unless it
names these, too. Classes are what stands in the label's column, in the order of the alphabet.
"""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lightning_bench.common.messages import nearest
from lightning_bench.data.dataset import DataSet, Task
from lightning_bench.data.errors import DataError
from lightning_bench.data.sources import repository
from lightning_bench.data.sources.folder import SPLITS, carved_sizes, place
from lightning_bench.data.sources.readers import Encoded, Reader, is_image
from lightning_bench.data.sources.tar_index import damaged

Kind = Literal["image", "text", "table"]
#: Endings of files that are tables.
SUFFIXES = {".csv", ".tsv", ".jsonl", ".json", ".parquet"}
#: A label's column with more different whole numbers than this is no column of classes.
MOST_CLASSES = 1000
_PIECE = 2048
#: Between several labels in one cell.
_BETWEEN = "|"
_LABEL = ("label", "labels", "target", "class", "y")

Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class TableReader(Reader):
    """The rows of one split, in memory: those of `rows`, of the columns of a whole file."""

    table: Columns
    rows: np.ndarray
    entry: DataSet
    root: Path

    def labels(self, column: str) -> np.ndarray:
        """Numbers of classes, or rows of zeros and ones, or the numbers that are to be told."""
        del column  # the entry knows, of several, too
        entry, names = self.entry, self.entry.label_columns
        found = [self._cells(name) for name in names]
        if entry.task == "regress":
            numbers = np.array(
                [self._numbers(c, n) for c, n in zip(found, entry.label_columns, strict=True)]
            )
            return numbers[0] if len(numbers) == 1 else numbers.T
        if entry.task == "multilabel":
            return self._indicators(found)
        number = {name: i for i, name in enumerate(entry.labels)}
        strange = next(
            (row for row, cell in enumerate(found[0]) if _word(cell) not in number), None
        )
        if strange is not None:
            raise DataError(f"{self._row(strange)}: the label {_word(found[0][strange])!r} is new")
        return np.array([number[_word(cell)] for cell in found[0]], dtype=np.int64)

    def names(self, column: str) -> tuple[str, ...]:
        """The labels as they are written."""
        del column
        return self.entry.labels

    def column(self, name: str) -> Iterator[list[Any]]:
        """The values of a column in pieces: texts, or the contents of image files."""
        cells = self._cells(name)
        for start in range(0, len(cells), _PIECE):
            piece = cells[start : start + _PIECE]
            yield [self._value(start + i, name, cell) for i, cell in enumerate(piece)]

    def features(self) -> np.ndarray:
        """The columns as numbers, a row an example; of words a column each, 1 where it stands."""
        columns = []
        for feature in self.entry.features:
            name, _, word = feature.partition("=")
            cells = self._cells(name)
            if word:
                columns.append(np.array([_word(cell) == word for cell in cells], dtype=np.float64))
            else:
                columns.append(self._numbers(cells, name))
        return np.stack(columns, axis=1).astype(np.float32)

    def image_files(self) -> list[Path]:
        """The files that the rows name; none where the images lie in the table."""
        cells = self._cells(self.entry.columns[0])
        return [self.root / str(cell) for cell in cells if not isinstance(cell, dict)]

    def _cells(self, name: str) -> list[Any]:
        cells = self.table[name]
        return [cells[row] for row in self.rows]

    def _value(self, row: int, name: str, cell: Any) -> Any:
        if self.entry.kind == "image":
            if isinstance(cell, dict):
                return Encoded(cell["bytes"], cell.get("path") or "")
            try:
                return Encoded((self.root / str(cell)).read_bytes(), str(cell))
            except OSError:
                raise DataError(f"{self._row(row)}: there is no image {cell}") from None
        if cell is None or not str(cell).strip():
            raise DataError(f"{self._row(row)}: no {name}")
        return str(cell).strip()

    def _numbers(self, cells: Sequence[Any], name: str) -> np.ndarray:
        try:
            found = np.array(cells, dtype=np.float64)
        except (TypeError, ValueError):
            found = np.array([_number(cell) for cell in cells])
        if len(wrong := np.flatnonzero(~np.isfinite(found))):
            row = int(wrong[0])
            raise DataError(f"{self._row(row)}: {name} is {_word(cells[row])!r}, no number")
        return found

    def _indicators(self, found: Sequence[Sequence[Any]]) -> np.ndarray:
        entry = self.entry
        if len(found) > 1:
            columns = [self._numbers(c, n) for c, n in zip(found, entry.label_columns, strict=True)]
            told = np.stack(columns, axis=1)
            if len(wrong := np.argwhere((told != 0) & (told != 1))):
                row, label = map(int, wrong[0])
                name = entry.label_columns[label]
                raise DataError(f"{self._row(row)}: {name} is {told[row, label]:g}, not 0 or 1")
            return told.astype(np.float32)
        place = {name: i for i, name in enumerate(entry.labels)}
        told = np.zeros((len(found[0]), len(entry.labels)), dtype=np.float32)
        for row, cell in enumerate(found[0]):
            for word in _words(cell):
                if word not in place:
                    raise DataError(f"{self._row(row)}: the label {word!r} is new")
                told[row, place[word]] = 1
        return told

    def _row(self, row: int) -> str:
        return f"{self.where}, row {int(self.rows[row])}"


def describe(
    name: str,
    *,
    columns: tuple[str, ...] = (),
    label: tuple[str, ...] = (),
    task: str = "",
    split_column: str = "",
    config: str = "",
    revision: str | None = None,
) -> DataSet:
    """The entry of a table, with the classes that it has, after reading it."""
    prefix, _, path = name.partition(":")
    files = _hub_files(path, config, revision) if prefix == "hub" else _files(path)
    tables = {split: _tables(name, found) for split, found in files.items()}
    parts = _rows(name, tables, split_column)
    train = tables[parts["train"][0]]
    labels = label or _label(name, train)
    for column in (*labels, *columns):
        _demand(name, train, column)
    left = tuple(c for c in train if c not in {*labels, split_column})
    kind, read = _kind(name, train, columns or left, stated=bool(columns))
    told = [[tables[t][c][row] for t, rows in parts.values() for row in rows] for c in labels]
    task = task or _task(told)
    names = _class_names(name, labels, told, task)
    features = _features(tables, parts, read) if kind == "table" else ()
    sizes = {split: len(rows) for split, (_, rows) in parts.items()}
    carved = tuple(split for split in ("test", "val") if split not in sizes)
    of_class = ", by class" if task == "classify" else ""
    how = f"; a tenth of train each for {' and '.join(carved)}{of_class}, seed 0" if carved else ""
    metrics = {"classify": ("accuracy",), "regress": ("R2Score", "MeanAbsoluteError")}
    of_kind: dict[Kind, dict[str, Any]] = {
        "text": {"tokenizer": "train:8000", "vocab_size": 8000, "length": 128},
        "image": {"channels": 3, "image_size": 64},
        "table": {"channels": len(features), "image_size": 1, "features": features},
    }
    facts = of_kind[kind]
    if prefix == "hub":
        facts |= {"repository": path, "revision": revision, "files": _patterns(files, config)}
    return DataSet(
        name=name,
        title=f"The table {path}" if prefix == "table" else f"{path} of the hub",
        kind=kind,
        task=_as_task(task),
        classes=len(names) if task != "regress" else len(labels),
        labels=names,
        metrics=metrics.get(task, ("AveragePrecision", "F1Score(average=macro)")),
        splits=carved_sizes(sizes),
        policy=f"the table's own splits{how}" if "val" in sizes or "test" in sizes else how[2:],
        source=path,
        columns=read,
        label=", ".join(labels),
        label_columns=labels,
        split_column=split_column,
        carves=carved,
        licence="yours to know" if prefix == "table" else "see its page on the hub",
        citation="",
        **facts,
    )


def splits(entry: DataSet) -> dict[str, Reader]:
    """A reader of each of a table's splits."""
    if entry.repository is not None:
        files = {
            split: repository.files(entry.repository, [pattern], revision=entry.revision)
            for split, pattern in entry.files.items()
        }
    else:
        files = _files(entry.source)
    tables = {split: _tables(entry.name, found) for split, found in files.items()}
    found: dict[str, Reader] = {}
    for split, (of, rows) in _rows(entry.name, tables, entry.split_column).items():
        root = files[of][0].parent
        reader = TableReader(f"{entry.name}/{split}", files[of], tables[of], rows, entry, root)
        for column in (*entry.columns, *entry.label_columns):
            _demand(reader.where, tables[of], column)
        if entry.kind == "image":
            seen = [*files[of], *(path for path in reader.image_files() if path.is_file())]
            reader = TableReader(reader.where, seen, tables[of], rows, entry, root)
        found[split] = reader
    return found


def _files(path: str) -> dict[str, list[Path]]:
    """The files of each split that has its own, or of `train`."""
    root = place(path)
    if root.is_file():
        if root.suffix not in SUFFIXES:
            raise DataError(f"{root.name} is no table: {', '.join(sorted(SUFFIXES))} are")
        return {"train": [root]}
    if not root.is_dir():
        beside = [p.name for p in root.parent.glob("*") if p.suffix in SUFFIXES]
        raise DataError(f"there is no table {root}{nearest(root.name, beside)}")
    inside = [p for p in sorted(root.iterdir()) if p.suffix in SUFFIXES]
    found: dict[str, list[Path]] = {}
    for file in inside:
        if (split := SPLITS.get(file.stem.lower())) is not None:
            found.setdefault(split, []).append(file)
    if "train" not in found:
        raise DataError(f"{root} has no train.csv (or .tsv, .jsonl, .parquet)")
    return found


_ON_HUB = {"train": ("train",), "val": ("validation", "valid", "val", "dev"), "test": ("test",)}


def _hub_files(path: str, config: str, revision: str | None) -> dict[str, list[Path]]:
    """The Parquet files of each split that a repository of the hub has."""
    found: dict[str, list[Path]] = {}
    for split, names in _ON_HUB.items():
        for name in names:
            pattern = f"{config or 'data'}/{name}-*.parquet"
            try:
                found[split] = repository.files(path, [pattern], revision=revision)
            except DataError:
                if split == "train":
                    raise
                continue
            break
    return found


def _patterns(files: Mapping[str, list[Path]], config: str) -> dict[str, str]:
    return {
        split: f"{config or 'data'}/{found[0].name.partition('-')[0]}-*.parquet"
        for split, found in files.items()
    }


def _tables(where: str, files: Sequence[Path]) -> Columns:
    states = [(file, file.stat()) for file in files]
    return _read(where, tuple((file, s.st_size, s.st_mtime_ns) for file, s in states))


@lru_cache(maxsize=8)
def _read(where: str, files: tuple[tuple[Path, int, int], ...]) -> Columns:
    """All columns of a split's files; kept while they stay as they are."""
    parts = [_read_file(where, file) for file, _, _ in files]
    names = list(parts[0])
    if not names or not len(parts[0][names[0]]):
        raise DataError(f"{where}: {files[0][0].name} has no rows")
    for part, (file, _, _) in zip(parts, files, strict=True):
        if list(part) != names:
            raise DataError(f"{where}: the columns of {file.name} are not those of the first file")
    return {name: [cell for part in parts for cell in part[name]] for name in names}


def _read_file(where: str, file: Path) -> Columns:
    try:
        if file.suffix == ".parquet":
            columns: Columns = pq.read_table(file).to_pydict()
            return columns
        with file.open(encoding="utf-8-sig", newline="") as stream:
            if file.suffix in {".csv", ".tsv"}:
                return _read_cells(where, file, stream)
            rows = [json.loads(line) for line in stream if line.strip()]
    except (csv.Error, OSError, ValueError, pa.ArrowException) as error:
        raise DataError(damaged(where, file, error)) from None
    if not all(isinstance(row, dict) for row in rows):
        raise DataError(f"{where}: {file.name} is to hold a JSON object a line")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _read_cells(where: str, file: Path, stream: Any) -> Columns:
    rows = csv.reader(stream, delimiter="\t" if file.suffix == ".tsv" else ",")
    header = next(rows, [])
    if twice := [name for name in header if header.count(name) > 1]:
        raise DataError(f"{where}: {file.name} has the column {twice[0]!r} twice")
    columns: dict[str, list[str]] = {name: [] for name in header}
    for row, cells in enumerate(rows):
        if cells and len(cells) != len(header):
            raise DataError(
                f"{where}, row {row}: {len(cells)} cells, but {len(header)} columns in {file.name}"
            )
        for name, cell in zip(header, cells, strict=False):
            columns[name].append(cell)
    return columns


def _rows(
    where: str, tables: Mapping[str, Columns], split_column: str
) -> dict[str, tuple[str, np.ndarray]]:
    """Of each split the file's split that has its rows, and which these are."""
    if not split_column:
        return {split: (split, np.arange(_length(table))) for split, table in tables.items()}
    if len(tables) > 1:
        raise DataError(f"{where}: its files are its splits, so that split_column means nothing")
    table = tables["train"]
    _demand(where, table, split_column)
    found: dict[str, list[int]] = {}
    for row, cell in enumerate(table[split_column]):
        split = SPLITS.get(_word(cell).lower())
        if split is None:
            raise DataError(
                f"{where}, row {row}: {split_column} is {_word(cell)!r}, not train, val or test"
            )
        found.setdefault(split, []).append(row)
    if "train" not in found:
        raise DataError(f"{where}: no row has {split_column} train")
    return {s: ("train", np.array(found[s])) for s in ("train", "val", "test") if s in found}


def _length(table: Columns) -> int:
    return len(next(iter(table.values())))


def _demand(where: str, table: Columns, column: str) -> None:
    if column not in table:
        raise DataError(f"{where} has no column {column!r}{nearest(column, table)}")


def _label(where: str, table: Columns) -> tuple[str, ...]:
    for name in _LABEL:
        if name in table:
            return (name,)
    listed = ", ".join(table)
    raise DataError(f"{where}: say which column is the label, as in label: NAME; it has {listed}")


def _kind(
    where: str, table: Columns, columns: tuple[str, ...], *, stated: bool
) -> tuple[Kind, tuple[str, ...]]:
    """What a model reads in these columns, and which of them it does read."""
    if not columns:
        raise DataError(f"{where} has no column but the label")
    first = {name: next((c for c in table[name] if c is not None), None) for name in columns}
    images = [n for n, cell in first.items() if isinstance(cell, dict) and cell.get("bytes")]
    images += [n for n, c in first.items() if isinstance(c, str) and is_image(Path(c.strip()))]
    if images:
        if stated and len(columns) > 1:
            raise DataError(f"{where}: {images[0]} is of images, of which a model reads one")
        return "image", (images[0],)
    words = [name for name in columns if not all(_is_number(cell) for cell in table[name])]
    numbers = [name for name in columns if name not in words]
    # Words that come again and again beside numbers are categories; else they are to be read.
    categories = [n for n in words if len({*map(_word, table[n])}) <= max(20, _length(table) // 20)]
    if numbers and len(categories) == len(words):
        return "table", columns
    texts = tuple(words)
    if len(texts) > 2 or (stated and numbers):
        listed = ", ".join(columns)
        raise DataError(
            f"{where}: a model reads one text, a pair of texts, or numbers and categories; "
            f"say which, as in columns: [{texts[0]}], of {listed}"
        )
    return "text", texts


def _features(
    tables: Mapping[str, Columns],
    parts: Mapping[str, tuple[str, np.ndarray]],
    columns: tuple[str, ...],
) -> tuple[str, ...]:
    """The numbers that an example is: a column, or a word of a column, written `column=word`."""
    features: list[str] = []
    of, rows = parts["train"]
    for name in columns:
        whole = [cell for table in tables.values() for cell in table[name]]
        if all(_is_number(cell) for cell in whole):
            features.append(name)
        else:  # a word that only comes in another split is none of these
            words = sorted({_word(tables[of][name][row]) for row in rows})
            features += [f"{name}={word}" for word in words]
    return tuple(features)


def _task(told: Sequence[Sequence[Any]]) -> str:
    """What a label's values are asked for, where the page doesn't say."""
    numbers = [[_number(cell) for cell in column] for column in told]
    if len(told) > 1:
        return "multilabel" if all(v in {0.0, 1.0} for c in numbers for v in c) else "regress"
    if any(isinstance(cell, list) for cell in told[0]):
        return "multilabel"
    known = np.array(numbers[0])
    fractions = bool(np.isfinite(known).all()) and bool((known % 1 != 0).any())
    return "regress" if fractions else "classify"


def _as_task(task: str) -> Task:
    found: dict[str, Task] = {"classify": "classify", "multilabel": "multilabel"}
    return found.get(task, "regress")


def _class_names(
    where: str, labels: tuple[str, ...], told: Sequence[Sequence[Any]], task: str
) -> tuple[str, ...]:
    if task == "regress":
        return ()
    if task == "multilabel":
        return labels if len(labels) > 1 else _sorted({w for cell in told[0] for w in _words(cell)})
    if len(labels) > 1:
        raise DataError(f"{where}: a class is one column, and these are {', '.join(labels)}")
    missing = next((row for row, cell in enumerate(told[0]) if not _word(cell)), None)
    if missing is not None:
        raise DataError(f"{where}, row {missing}: no {labels[0]}")
    names = _sorted({_word(cell) for cell in told[0]})
    if len(names) > MOST_CLASSES or len(names) < 2:
        raise DataError(
            f"{where}: {labels[0]} has {len(names):,} different values, which are no classes; "
            "for numbers say task: regress"
        )
    return names


def _sorted(words: set[str]) -> tuple[str, ...]:
    """In the order of the numbers that they all are, else of the alphabet."""
    if all(_is_number(word) for word in words):
        return tuple(sorted(words, key=float))
    return tuple(sorted(words))


def _words(cell: Any) -> list[str]:
    parts = cell if isinstance(cell, list) else str(cell or "").split(_BETWEEN)
    return [word for part in parts if (word := _word(part))]


def _word(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return float("nan")


def _is_number(cell: Any) -> bool:
    return bool(np.isfinite(_number(cell)))
