"""A few examples of a data set, as files that its own readers read: real ones, else made-up ones.

They lie in a mirror of their own, in the formats, columns and folders of the catalogue's entry, so
that all from the files to the batch is what a run does. Embedded data sets are read as they are.
"""

import gzip
import hashlib
import json
import os
import pickle
import shutil
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lightning_bench.bench.rehearse import made_up
from lightning_bench.common.files import locked
from lightning_bench.common.messages import first_line
from lightning_bench.data import catalogue
from lightning_bench.data.dataset import MASKED, DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.data.sources import folder as folders
from lightning_bench.data.sources import locations, repository, user_text
from lightning_bench.data.sources.readers import FolderReader, TarReader
from lightning_bench.data.tokenisers import load as load_tokenizer

#: Rows of a file among which the few are chosen.
_LOOKED_AT = 512
#: Examples of a validation that is carved out: torchmetrics makes a scalar of a single one.
_EVALUATED = 2
#: Bytes of a plain text.
_HEAD = 1 << 18
#: About so many letters are a token, no fewer.
_LETTERS = 6


@dataclass(frozen=True)
class FewExamples:
    """The entry that reads them, the mirror in which they lie, and which of its splits are real."""

    entry: DataSet
    mirror: Path
    real: tuple[str, ...] = ()
    made_up: tuple[str, ...] = ()
    vocabulary: bool = True  # it is the tokeniser's own
    sampled: bool = True  # they are fewer than the entry promises

    def __str__(self) -> str:
        """What of the data is real, for the table; empty where nothing is."""
        if not self.made_up:
            return "data" if self.vocabulary else "data (vocabulary made up)"
        return f"{' and '.join(self.real)} data" if self.real else ""


def prepare(entry: DataSet, folder: Path, count: int) -> FewExamples:
    """Examples enough for two batches of so many, a validation and a test.

    Written once for all processes that ask for the same.
    """
    words = f"{count} {sorted(entry.what_counts().items())} {entry.shots} {entry.shifts}"
    mirror = folder / hashlib.sha256(words.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / f"{mirror.name}.lock"):
        told = mirror / "few.pickle"
        if told.is_file():
            few: FewExamples = pickle.loads(told.read_bytes())
            return few
        shutil.rmtree(mirror, ignore_errors=True)  # half made, by one that failed
        mirror.mkdir()
        few = _prepared(entry, mirror, count)
        told.write_bytes(pickle.dumps(few))
    return few


def use(few: FewExamples) -> None:
    """Have this process read them wherever it asks for the data set."""
    os.environ[locations.DATA] = str(few.mirror.resolve())
    catalogue.substitute(few.entry)


def _prepared(entry: DataSet, mirror: Path, count: int) -> FewExamples:
    small = replace(entry, drawn=False, shots=None)
    if entry.name.startswith("folder:"):
        _copy_folder(entry.source, mirror / "folder", count)
        return FewExamples(replace(small, source=str(mirror / "folder")), mirror)
    if entry.name.startswith("table:"):  # in memory anyway
        where = str(folders.place(entry.source).resolve())
        return FewExamples(replace(small, source=where), mirror, sampled=False)
    if entry.repository is None and entry.name in _FEW_OF:
        return FewExamples(_FEW_OF[entry.name](entry, count), mirror, sampled=False)
    if entry.repository is None:
        _copy_texts(entry, mirror / "texts", count)
        return FewExamples(replace(small, source=str(mirror / "texts")), mirror)
    real: list[str] = []
    invented: list[str] = []
    name = f"rehearsal/{entry.name}"
    for split, pattern in entry.files.items():
        rows = _rows_of(entry, split, count)
        place = repository.locate(entry.repository, [pattern], revision=entry.revision)
        target = mirror / name / pattern.replace("*", "00000")
        target.parent.mkdir(parents=True, exist_ok=True)
        if place is None:
            made_up.write(entry, target, rows, seed=len(invented))
            invented.append(split)
        else:
            _copy(entry, split, sorted(place.glob(pattern))[0], target, rows)
            real.append(split)
    if entry.relabelled:
        _relabel(entry.relabelled, mirror)
    tokenizer, own = _tokenizer(entry, mirror)
    small = _with_shares(small, count)
    few = replace(small, repository=name, revision=None, tokenizer=tokenizer)
    return FewExamples(few, mirror, tuple(real), tuple(invented), own)


def _few_shots(entry: DataSet, count: int) -> DataSet:
    """All of a small data set but its training split, of which some of each class are drawn."""
    return replace(entry, shots=max(8, -(-2 * count // entry.classes)))


def _few_generated(entry: DataSet, count: int) -> DataSet:
    """As many as are asked for, since they are generated."""
    sizes = dict.fromkeys(entry.splits, _EVALUATED * entry.classes)
    return replace(entry, splits={**sizes, "train": max(2, count) * 2 * entry.classes}, shots=None)


#: Data sets that lie in no file.
_FEW_OF: Mapping[str, Callable[[DataSet, int], DataSet]] = {
    "digits": _few_shots,
    "digits-28": _few_shots,
    "digits-inverted": _few_shots,
    "polarity": _few_generated,
    "entailment": _few_generated,
}


def _carved(entry: DataSet) -> list[str]:
    """The splits that are carved out of the training split."""
    return [name for name in ("test", "val") if name not in entry.files]


def _rows_of(entry: DataSet, split: str, count: int) -> int:
    """The rows of a split's file: of the training split enough for all that is carved out of it."""
    if split != "train":
        return count
    if not entry.splits:  # a tenth each
        return max(10 * _EVALUATED, 3 * count)
    return 2 * count + _EVALUATED * len(_carved(entry))


def _with_shares(entry: DataSet, count: int) -> DataSet:
    """The entry of which a sample of so few rows has as many to evaluate on as are wanted.

    It is as large in all, since by that it is streamed or not.
    """
    carved = _carved(entry)
    if not entry.splits or not carved:
        return entry
    promised = sum(entry.splits[name] for name in ("train", *carved))
    share = round(promised * _EVALUATED / _rows_of(entry, "train", count))
    sizes = dict.fromkeys(carved, share)
    return replace(entry, splits={**entry.splits, "train": promised - share * len(carved), **sizes})


def _copy(entry: DataSet, split: str, source: Path, target: Path, rows: int) -> None:
    """Copy a few rows of a real file, with all columns."""
    where = f"{entry.name}/{split}"
    try:
        if ".parquet" in source.suffixes:
            _copy_parquet(entry, source, target, rows)
        elif ".tar" in source.suffixes:
            _copy_tar(source, target, rows)
        else:
            _copy_lines(source, target, rows)
    except (pa.ArrowException, tarfile.TarError, OSError, EOFError) as error:
        raise DataError(f"{where}: {source.name} is damaged ({first_line(error)})") from None


def _copy_parquet(entry: DataSet, source: Path, target: Path, rows: int) -> None:
    with pq.ParquetFile(source) as file:
        batches = file.iter_batches(batch_size=_LOOKED_AT)
        first = next(batches, None)
        table = pa.Table.from_batches([] if first is None else [first], file.schema_arrow)
    chosen = _telling(table, entry)[:rows]
    pq.write_table(table.take(chosen), target)


def _telling(table: pa.Table, entry: DataSet) -> list[int]:
    """Rows in an order in which the first ones tell most: long texts, both ends of the labels."""
    order: list[int] = []
    read = [name for name in entry.columns if name in table.column_names]
    if entry.kind == "text" and read:
        columns = [table[name].to_pylist() for name in read]
        length = [sum(len(text or "") for text in texts) for texts in zip(*columns, strict=True)]
        ranked = sorted(range(len(length)), key=lambda row: -length[row])
        order += ranked if entry.task in MASKED else [ranked[0], ranked[-1], *ranked[1:3]]
    if entry.label in table.column_names:
        labels = table[entry.label].to_pylist()
        known = [row for row, label in enumerate(labels) if isinstance(label, int | float)]
        if known:
            order += [max(known, key=labels.__getitem__), min(known, key=labels.__getitem__)]
    return list(dict.fromkeys([*order, *range(table.num_rows)]))


def _copy_tar(source: Path, target: Path, rows: int) -> None:
    with tarfile.open(source) as file, tarfile.open(target, "w") as copied:
        keys: set[str] = set()
        for member in file:
            keys.add(str(Path(member.name).with_suffix("")))
            if len(keys) > rows:
                return
            copied.addfile(member, file.extractfile(member))


def _copy_head(source: Path, target: Path) -> None:
    opened: Any = gzip.open if source.suffix == ".gz" else open
    with opened(source, "rb") as file, opened(target, "wb") as copied:
        copied.write(file.read(_HEAD).decode(errors="ignore").encode())


def _copy_lines(source: Path, target: Path, rows: int) -> None:
    opened: Any = gzip.open if source.suffix == ".gz" else open
    with opened(source, "rb") as file, opened(target, "wb") as copied:
        lines = list(islice(file, _LOOKED_AT))
        copied.writelines(sorted(lines, key=len, reverse=True)[:rows])


def _copy_folder(source: str, target: Path, count: int) -> None:
    """Some images of a folder of one's own, with all of its classes, or the head of its tar files.

    The folder's own reader has seen to it that it is one.
    """
    root = folders.place(source)
    for split, reader in folders.splits(source).items():
        rows = max(3 * count, 20) if split == "train" else count
        # Where there is no folder `train`, the classes lie at the top.
        inside = isinstance(reader, TarReader) or reader.files[0].parent.parent != root
        place = target / split if inside else target
        place.mkdir(parents=True, exist_ok=True)
        if isinstance(reader, FolderReader):
            _link_images(reader, place, rows)
        else:
            at = place if reader.files[0].parent != root else target
            _copy_tar(reader.files[0], at / reader.files[0].name, rows)


def _link_images(reader: FolderReader, target: Path, rows: int) -> None:
    for name in reader.classes:
        (target / name).mkdir(exist_ok=True)
    step = max(1, len(reader.files) // rows)
    for file in reader.files[::step][:rows] + reader.files[-1:]:
        link = target / file.parent.name / file.name
        if not link.exists():
            link.symlink_to(file.absolute())


def _copy_texts(entry: DataSet, target: Path, count: int) -> None:
    """Some of somebody's own texts, or of Python's, as many as it takes to fill the batches."""
    target.mkdir(parents=True, exist_ok=True)
    reader = user_text.splits(entry.source)["train"]
    if reader.files:
        source = reader.files[0]
        copy = target / source.name
        if ".parquet" in source.suffixes:
            _copy_parquet(entry, source, copy, 20 + 4 * count)
        elif {".json", ".jsonl"} & set(source.suffixes):
            _copy_lines(source, copy, 20 + 4 * count)
        else:
            _copy_head(source, copy)
        return
    texts = next(reader.column("text"))
    wanted = sorted(texts, key=len)[-20:]
    cut = [text[: entry.length * _LETTERS * max(1, count // 2)] for text in wanted]
    lines = [json.dumps({"text": text}) for text in cut]
    (target / "texts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _relabel(place: str, mirror: Path) -> None:
    """ReaL's labels beside the examples: the real ones where they are at hand."""
    owner, name, file = place.split("/")
    found = repository.locate(f"{owner}/{name}", [file])
    target = mirror / owner / name / file
    target.parent.mkdir(parents=True, exist_ok=True)
    if found is not None:
        shutil.copyfile(found / file, target)
    else:
        target.write_text(json.dumps(made_up.several_labels()), encoding="utf-8")


def _tokenizer(entry: DataSet, mirror: Path) -> tuple[str, bool]:
    """The entry's tokeniser, or the file of a made-up vocabulary of its size."""
    if entry.kind == "image" or entry.tokenizer.startswith("train:"):
        return entry.tokenizer, True
    try:
        load_tokenizer(entry.tokenizer)
    except DataError:
        path = mirror / "vocab.txt"
        path.write_text("\n".join(made_up.vocabulary(entry.vocab_size)), encoding="utf-8")
        return str(path), False
    return entry.tokenizer, True
