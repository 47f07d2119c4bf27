"""Tiny repositories in the layout and with the columns that the hub documents for each data set."""

import gzip
import io
import json
import tarfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from lightning_bench.data.dataset import DataSet
from lightning_bench.data.modules import contract
from lightning_bench.data.modules.contract import DataModule
from lightning_bench.data.modules.streamed_images import StreamedImages
from lightning_bench.data.transforms.augment import Augmentation

#: Columns beside the one image and the one label, as the data sets' pages on the hub show them.
BESIDE: dict[str, dict[str, Any]] = {
    "uoft-cs/cifar100": {"coarse_label": 0},
    "timm/oxford-iiit-pet": {"image_id": "x_1", "label_cat_dog": 0},
    "nyu-mll/glue": {"idx": 0},
    "allenai/c4": {"timestamp": "2019-04-25T12:57:54Z", "url": "http://example.org"},
}
IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
TRAIN, OTHERS = 60, 24
#: Nothing is done to the images and texts.
RECIPE = {**asdict(Augmentation()), "whole_words": False}


def load(entry: DataSet) -> DataModule:
    """Its data module, set up in this process from what was written."""
    data = contract.make(entry, recipe=RECIPE, batch_size=4, seed=0, sample=True)
    if isinstance(data, StreamedImages):
        data.workers = 0
    data.setup()
    return data


def write(entry: DataSet, root: Path) -> None:
    """Write a repository of a few rows, whose images and texts tell their labels."""
    assert entry.repository is not None
    for split, pattern in entry.files.items():
        # VTAB's training examples are drawn from more.
        count = (1_100 if entry.drawn else TRAIN) if split == "train" else OTHERS
        path = root / entry.repository / pattern.replace("*", "00000-of-00001")
        path.parent.mkdir(parents=True, exist_ok=True)
        labels = [
            (i * 7 + i // entry.classes) % entry.classes if entry.classes else 0
            for i in range(count)
        ]
        if path.suffix == ".tar":
            _shard(path, labels)
        elif entry.kind == "image":
            _images(path, entry, labels)
        else:
            _texts(path, entry, split, labels)
    if entry.relabelled:
        real = root / entry.relabelled
        real.parent.mkdir(parents=True)
        # The first image has no label, all others have their own and another one.
        own = [(i * 7 + i // entry.classes) % entry.classes for i in range(OTHERS)]
        real.write_text(json.dumps([[], *([label, 999] for label in own[1:])]), encoding="utf-8")


def picture(label: int, kind: str) -> bytes:
    """One colour, that of the label."""
    stream = io.BytesIO()
    colour = (label % 100, label // 100, 128)
    Image.new("RGB", (16, 16), colour).save(stream, kind, lossless=True)
    return stream.getvalue()


def label_of(red: int, green: int) -> int:
    """The label of a picture."""
    return red + 100 * green


def _shard(path: Path, labels: list[int]) -> None:
    with tarfile.open(path, "w") as file:
        for i, label in enumerate(labels):
            for suffix, data in ((".cls", b"%d" % label), (".webp", picture(label, "WEBP"))):
                member = tarfile.TarInfo(f"s{i:07}{suffix}")
                member.size = len(data)
                file.addfile(member, io.BytesIO(data))


def _images(path: Path, entry: DataSet, labels: list[int]) -> None:
    cells = [
        {"bytes": picture(label, "PNG"), "path": f"ILSVRC2012_val_{i + 1:08}.JPEG"}
        for i, label in enumerate(labels)
    ]
    _parquet(path, entry, {entry.columns[0]: pa.array(cells, IMAGE)}, labels)


def _texts(path: Path, entry: DataSet, split: str, labels: list[int]) -> None:
    texts = {
        column: [f"{column} {i} of {split}, label {label}" for i, label in enumerate(labels)]
        for column in entry.columns
    }
    if not entry.classes or entry.name.endswith("-nsp"):  # enough to be cut into parts
        texts = {name: [f"{text} " * 30 for text in found] for name, found in texts.items()}
    if path.suffix == ".gz":
        beside = BESIDE[entry.repository or ""]
        lines = [json.dumps({"text": text, **beside}) + "\n" for text in texts["text"]]
        path.write_bytes(gzip.compress("".join(lines).encode()))
        return
    _parquet(path, entry, {name: pa.array(found) for name, found in texts.items()}, labels)


def _parquet(path: Path, entry: DataSet, columns: dict[str, pa.Array], labels: list[int]) -> None:
    values = [float(i % 6) for i in range(len(labels))] if entry.task == "regress" else labels
    if entry.task in {"classify", "regress"}:
        columns[entry.label] = pa.array(values)
    for name, value in BESIDE.get(entry.repository or "", {}).items():
        columns[name] = pa.array([value] * len(labels))
    table = pa.table(columns)
    if entry.task == "classify":
        names = [f"name of {label}" for label in range(entry.classes)]
        features = {entry.label: {"names": names, "_type": "ClassLabel"}}
        told = json.dumps({"info": {"features": features}})
        table = table.replace_schema_metadata({"huggingface": told})
    pq.write_table(table, path)
