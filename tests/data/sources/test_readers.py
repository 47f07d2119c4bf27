"""Where data comes from, and what is said when it doesn't, or is broken."""

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from lightning_bench.data import cache
from lightning_bench.data.catalogue import entries, find
from lightning_bench.data.errors import DataError
from lightning_bench.data.modules.image_data import ImageData
from lightning_bench.data.prepare import prepare


def encoded(colour: int, size: int = 32) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (size, size), (colour, colour, colour)).save(stream, "PNG")
    return stream.getvalue()


def a_cifar10(
    root: Path,
    *,
    images: list[bytes] | None = None,
    labels: list[int] | None = None,
    column: str = "img",
    test_rows: int = 4,
) -> None:
    """A tiny repository in the layout of CIFAR-10's."""
    folder = root / "uoft-cs/cifar10/plain_text"
    folder.mkdir(parents=True)
    images = [encoded(i) for i in range(20)] if images is None else images
    labels = [i % 10 for i in range(len(images))] if labels is None else labels
    for split, rows in (("train", slice(None)), ("test", slice(test_rows))):
        cells = [{"bytes": data, "path": None} for data in images[rows]]
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        table = {column: pa.array(cells, kind), "label": pa.array(labels[rows], pa.int64())}
        pq.write_table(pa.table(table), folder / f"{split}-00000-of-00001.parquet")


def open_it(root: Path, monkeypatch: pytest.MonkeyPatch, *, sample: bool = True) -> ImageData:
    monkeypatch.setenv("BENCH_DATA", str(root))
    monkeypatch.setenv("BENCH_CACHE", str(root / "cache"))
    data = ImageData("cifar10", batch_size=2, seed=0, sample=sample)
    data.setup()
    return data


def test_a_sample_shrinks_in_proportion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_cifar10(tmp_path)
    assert open_it(tmp_path, monkeypatch).sizes == {"train": 18, "val": 2, "test": 4}
    with pytest.raises(DataError, match=r"cifar10/train: 18.* not 45,000|20 examples, not 50,000"):
        open_it(tmp_path, monkeypatch, sample=False)


BROKEN = {
    "an image": ({"images": [*map(encoded, range(19)), b"no image"]}, "train, row 19: the image"),
    "cut off": ({"images": [*map(encoded, range(19)), encoded(1)[:60]]}, "train, row 19: the im"),
    "no image": ({"images": [*map(encoded, range(19)), None]}, "train, row 19: no image"),
    "a label": ({"labels": [*range(10), 10, *range(9)]}, "train, row 10: label 10 of 10 classes"),
    "no label": ({"labels": [0, None, *range(10), *range(8)]}, "train, row 1: no label"),
    "a column": ({"column": "image"}, "has no column 'img'; did you mean 'image'"),
    "empty": ({"test_rows": 0}, "cifar10/test is empty"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_is_named_and_nothing_is_half_loaded(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, says = BROKEN[what]
    a_cifar10(tmp_path, **broken)
    with pytest.raises(DataError) as caught:
        open_it(tmp_path, monkeypatch)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    left = [path.suffix for path in (tmp_path / "cache").rglob("*")]
    assert set(left) <= {".lock", ""}


def test_a_damaged_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_cifar10(tmp_path)
    (path,) = tmp_path.rglob("train-*.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"train-00000-of-00001.parquet is damaged .*fetch it"):
        open_it(tmp_path, monkeypatch)


@pytest.mark.parametrize("shape", ["classes", "splits", "shards"])
def test_any_folder_of_images(shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    root = tmp_path / "mine"
    if shape == "shards":
        root.mkdir()
        with tarfile.open(root / "0.tar", "w") as file:
            for i in range(40):
                for suffix, data in ((".png", encoded(i)), (".cls", str(i % 2).encode())):
                    member = tarfile.TarInfo(f"{i:03}{suffix}")
                    member.size = len(data)
                    file.addfile(member, io.BytesIO(data))
    else:
        for split in ("train", "test") if shape == "splits" else ("",):
            for i in range(40):
                path = root / split / ("cats", "dogs")[i % 2] / f"{i}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(encoded(i + 100 * (split == "test")))
    entry = find("folder:mine", image_size=8)
    data = ImageData(entry, batch_size=4, seed=0)
    data.setup()
    expected = {"train": 36, "val": 4, "test": 40} if shape == "splits" else {"train": 32}
    assert data.sizes == {"val": 4, "test": 4, **expected}
    assert entry.classes == 2
    for images in data.splits.values():  # even greys are of one class, odd ones of the other
        assert (images.pixels[:, 0, 0, 0] % 2 == images.labels).all()


def test_own_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lightning_bench.data.modules.corpus import Corpus

    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    words = np.random.default_rng(0).choice(["ab", "bc", "cd", "de", "ef", "fg", "gh"], (300, 30))
    (tmp_path / "mine.txt").write_text("\n\n".join(map(" ".join, words)), encoding="utf-8")
    data = Corpus(find("text:mine.txt", tokenizer="train:300", length=16), batch_size=4, seed=0)
    data.setup()
    assert data.sizes["train"] > 8 * data.sizes["test"] * 0.8 > 0


def test_processes_that_want_the_same_make_it_once(tmp_path: Path) -> None:
    code = (
        "from lightning_bench.data import cache; import numpy, pathlib, os, time\n"
        "def make(draft):\n"
        "    (pathlib.Path(os.environ['OUT']) / str(os.getpid())).touch(); time.sleep(0.5)\n"
        "    draft.save('x', numpy.arange(1000))\n"
        "assert cache.bundle('b', {'a': 1}, make).array('x').sum() == 499500\n"
    )
    env = os.environ | {"BENCH_CACHE": str(tmp_path / "cache"), "OUT": str(tmp_path)}
    running = [subprocess.Popen([sys.executable, "-c", code], env=env) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert len([path for path in tmp_path.iterdir() if path.is_file()]) == 1


def test_a_failed_draft_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))

    def fail(draft: cache.Draft) -> None:
        draft.save("x", np.arange(3))
        raise DataError("no")

    with pytest.raises(DataError):
        cache.bundle("b", {}, fail)
    assert [path.suffix for path in (tmp_path / "data").iterdir()] == [".lock"]


def test_prepare_says_what_is_ready_and_what_failed(no_mirror: None) -> None:
    told: list[str] = []
    ready, missing, unknown = prepare(["polarity", "mnist", "mnits"], told.append)
    assert (ready.state, ready.detail, ready.splits["test"]) == ("ready", "complete", 1000)
    assert len(ready.fingerprint) == 64
    assert missing.state == unknown.state == "failed"
    assert "ylecun/mnist" in missing.detail
    assert "did you mean 'mnist'" in unknown.detail
    assert len(told) >= 2


@pytest.mark.parametrize("name", sorted(entries()))
def test_every_entry_is_plain_and_whole(name: str) -> None:
    entry = entries()[name]
    assert entry.title
    assert entry.policy
    assert entry.licence
    assert entry.citation
    assert set(entry.metrics)
    assert all(size > 0 for size in entry.facts().values()) or (
        entry.task in {"masked-lm", "pretrain"}
    )
    if entry.repository:
        assert "train" in entry.files
        assert set(entry.files) <= {*entry.splits, "train", "val", "test"}
    if entry.labels and entry.task == "classify":
        assert len(entry.labels) == entry.classes


def test_the_catalogue_is_light() -> None:
    code = (
        "import sys, data.catalogue as c; c.entries();"
        "assert not {'numpy', 'torch', 'datasets', 'tokenizers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
