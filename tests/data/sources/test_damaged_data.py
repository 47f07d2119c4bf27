"""What is broken in texts, tar files and photographs is named with its row; none of it is kept."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lightning_bench.data.catalogue import find
from lightning_bench.data.errors import DataError
from tests.data import tiny

#: Breaks one file below a folder.
Change = Callable[[Path], None]


def change_parquet(pattern: str, column: str, row: int, value: Any) -> Change:
    """Set one cell of a file."""

    def change(root: Path) -> None:
        path = next(root.rglob(pattern))
        table = pq.read_table(path)
        values = table[column].to_pylist()
        values[row] = value
        place = table.schema.get_field_index(column)
        changed = pa.array(values, table.schema.field(column).type)
        pq.write_table(table.set_column(place, column, changed), path)

    return change


def drop_column(pattern: str, column: str) -> Change:
    def change(root: Path) -> None:
        path = next(root.rglob(pattern))
        pq.write_table(pq.read_table(path).drop_columns([column]), path)

    return change


def change_member(pattern: str, name: str, data: bytes | None) -> Change:
    """Set the content of one member of a tar file, or leave it out."""

    def change(root: Path) -> None:
        path = next(root.rglob(pattern))
        with tarfile.open(path) as file:
            members = {m.name: file.extractfile(m).read() for m in file}
        members = (
            {**members, name: data}
            if data is not None
            else {key: content for key, content in members.items() if key != name}
        )
        with tarfile.open(path, "w") as file:
            for key, content in members.items():
                member = tarfile.TarInfo(key)
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))

    return change


def change_line(pattern: str, row: int, line: str) -> Change:
    def change(root: Path) -> None:
        path = next(root.rglob(pattern))
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        lines[row] = line
        path.write_bytes(gzip.compress("\n".join(lines).encode()))

    return change


def cut(pattern: str) -> Change:
    def change(root: Path) -> None:
        path = next(root.rglob(pattern))
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])

    return change


BROKEN = {
    "a text that is missing": (
        "sst2", change_parquet("train-*", "sentence", 5, None), "sst2/train, row 5: no sentence"),
    "a label of no class": (
        "mnli", change_parquet("validation_mism*", "label", 3, -1),
        "mnli/mismatched, row 3: label -1 of 3 classes"),
    "a score that is no number": (
        "stsb", change_parquet("train-*", "label", 2, float("nan")),
        "stsb/train, row 2: label nan"),
    "a score that is missing": (
        "stsb", change_parquet("train-*", "label", 2, None), "stsb/train, row 2: no label"),
    "a second column that is missing": (
        "qnli", drop_column("train-*", "question"), "has no column 'question'"),
    "a text file cut short": (
        "qqp", cut("qqp/train-*"), "train-00000-of-00001.parquet is damaged"),
    "a line that is no JSON": (
        "c4-realnewslike", change_line("c4-train*", 7, "{oops"),
        "c4-realnewslike/train, row 7 of c4-train.00000-of-00001.json.gz: no JSON object"),
    "a line without a text": (
        "c4-realnewslike", change_line("c4-train*", 7, json.dumps({"url": "x"})),
        "row 7 of c4-train.00000-of-00001.json.gz: no text in 'text'"),
    "compressed lines cut short": ("c4-realnewslike", cut("c4-train*"), "json.gz is damaged"),
    "a label in a tar file": (
        "vtab-dtd", change_member("train/*.tar", "s0000004.cls", b"four"),
        "vtab-dtd/train, row 4: s0000004.cls holds b'four'"),
    "an image missing in a tar file": (
        "vtab-dtd", change_member("train/*.tar", "s0000004.webp", None),
        "vtab-dtd/train, row 4: the image is 's0000005', the label that of 's0000004'"),
    "an image in a tar file": (
        "vtab-dtd", change_member("test/*.tar", "s0000004.webp", b"no image"),
        "vtab-dtd/test, row 4 (s0000004): the image doesn't decode"),
    "a tar file cut short": ("vtab-dtd", cut("test/*.tar"), "00000-of-00001.tar is damaged"),
    "a photograph's label": (
        "imagenet1k", change_parquet("train-*", "label", 9, 1000),
        "imagenet1k/train, row 9: label 1000 of 1000 classes"),
}  # fmt: skip


def load(name: str) -> Any:
    entry = find(name)
    if entry.kind == "text":
        entry = find(name, tokenizer="train:300")
    elif not entry.streamed:
        entry = find(name, image_size=16)
    return tiny.load(entry)


@pytest.mark.parametrize("what", BROKEN)
def test_it_is_named_with_its_row(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    name, change, says = BROKEN[what]
    tiny.write(find(name), tmp_path)
    change(tmp_path)
    with pytest.raises(DataError) as caught:
        load(name)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    # Nothing but the index of what was whole.
    kept = (tmp_path / "cache").rglob("*.npy")
    assert not [path for path in kept if not path.parent.name.startswith("tar-")]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_photograph_that_does_not_decode_is_named(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    tiny.write(find("imagenet1k"), tmp_path)
    change_parquet("validation-*", "image", 5, {"bytes": b"no image", "path": "x"})(tmp_path)
    data = load("imagenet1k")
    data.workers = workers
    with pytest.raises(DataError, match=r"imagenet1k/test, row 5 \(x\): the image doesn't decode"):
        list(data.test_dataloader()[0])
