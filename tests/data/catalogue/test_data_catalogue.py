"""Every data set of the catalogue, through its true loading path, from a tiny repository."""

import gzip
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from pydantic import TypeAdapter

from lightning_bench.data import catalogue
from lightning_bench.data.catalogue import HIGHER_IS_BETTER, entries, find
from lightning_bench.data.dataset import DataSet
from lightning_bench.data.modules.image_data import ImageData
from lightning_bench.models.tasks.scores import score
from tests.data import tiny

FASHION = Path("/usr/share/datasets/fashion-mnist")  # of Debian's dataset-fashion-mnist
HOSTED = sorted(name for name, entry in entries().items() if entry.repository)


def test_no_fact_that_counts_has_changed() -> None:
    """A fact that changes makes results stale: then, and only then, change its digest here too."""
    kept = json.loads(Path(__file__).with_name("digests.json").read_text(encoding="utf-8"))
    facts = {name: repr(sorted(entries()[name].what_counts().items())) for name in kept}
    assert kept == {
        name: hashlib.sha256(fact.encode()).hexdigest()[:12] for name, fact in facts.items()
    }


@pytest.mark.parametrize("name", sorted(entries()))
def test_its_facts_are_of_the_types_that_they_should_be(name: str) -> None:
    entry = entries()[name]
    assert TypeAdapter(DataSet).validate_python(vars(entry)) == entry


def test_a_page_with_a_field_that_is_none_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.yaml"
    page.write_text("defaults: {kind: text}\ndata_sets: {mine: {tytle: Mine}}", encoding="utf-8")
    with pytest.raises(TypeError, match="tytle"):
        list(catalogue._entries_of(page))


@pytest.mark.parametrize("name", HOSTED)
def test_it_loads_as_the_hub_lays_it_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    entry = entries()[name]
    tiny.write(entry, tmp_path)
    if entry.streamed:
        small = {}
    else:
        small = {"image_size": 16} if entry.kind == "image" else {"tokenizer": "train:300"}
    data = tiny.load(find(name, **small))
    assert set(data.sizes) == {"train", "val", *entry.tests}
    assert len(data.fingerprint) == 64
    assert set(entry.metrics) <= set(HIGHER_IS_BETTER)
    if entry.drawn:
        assert data.sizes == {"train": 800, "val": 200, "test": tiny.OTHERS}
    elif entry.metrics[0] == "accuracy" or entry.task == "regress":
        whole = tiny.TRAIN if "val" not in entry.files else tiny.TRAIN + tiny.OTHERS
        if not name.endswith("-nsp"):  # which counts pairs
            assert data.sizes["train"] + data.sizes["val"] == whole
            assert {data.sizes[test] for test in entry.tests} == {tiny.OTHERS}
    if entry.kind == "image":
        images_show_their_labels(data, entry)
    elif entry.task in {"classify", "regress"}:
        texts_tell_their_labels(data, entry)
    if entry.task in {"classify", "regress"}:
        perfect_predictions_score_one(data, entry)


def images_show_their_labels(data: Any, entry: DataSet) -> None:
    for loader in (data.train_dataloader(), data.val_dataloader(), *data.test_dataloader()):
        for batch in loader:
            colours = batch.inputs[0] * data.std[:, None, None] + data.mean[:, None, None]
            colours = (colours[:, :, 0, 0] * 255).round().int()
            shown = tiny.label_of(colours[:, 0], colours[:, 1] if entry.channels == 3 else 0)
            if entry.channels == 3:
                target = batch.target if batch.target.ndim == 1 else batch.target[:, 0]
                own = target >= 0  # ReaL gives some images no label
                assert torch.equal(shown[own], target[own].int())
                assert own.sum() >= len(own) - 1
    names = [example.label for example in data.examples()]
    assert len(set(names)) == len(names) > 1
    if entry.repository and "wds" not in entry.repository and not entry.labels:
        assert all(label.startswith("name of ") for label in names)


def texts_tell_their_labels(data: Any, entry: DataSet) -> None:
    for example in data.examples():
        assert len(example.texts) == len(entry.columns) or entry.name.endswith("-nsp")
        if entry.task == "classify" and not entry.name.endswith("-nsp"):
            assert f"label {entry.labels.index(example.label)}" in example.texts[0]
            assert "of train" in example.texts[0]
    for found in data.splits.values():
        if entry.task == "classify":
            assert set(np.unique(found.labels)) <= set(range(entry.classes))


def perfect_predictions_score_one(data: Any, entry: DataSet) -> None:
    target = data.test_dataloader()[0].target
    predicted = target if target.ndim == 1 else target[:, 0]
    found = score(entry.metrics, {"predicted": predicted, "target": target})
    assert found == pytest.approx(dict.fromkeys(entry.metrics, 1.0), abs=1e-5)


def test_vtab_has_the_nineteen_tasks_of_its_paper() -> None:
    tasks = [entry for name, entry in entries().items() if name.startswith("vtab-")]
    groups = [entry.title.partition("(")[2].partition(")")[0] for entry in tasks]
    assert {group: groups.count(group) for group in groups} == {
        "natural": 7,
        "specialized": 4,
        "structured": 8,
    }
    # The task list, classes and test sizes of Zhai et al., 2019 (Caltech-101: one more by now).
    assert {entry.name.removeprefix("vtab-"): entry.classes for entry in tasks} == {
        "caltech101": 102, "cifar100": 100, "dtd": 47, "flowers102": 102, "pets": 37,
        "sun397": 397, "svhn": 10, "camelyon": 2, "eurosat": 10, "resisc45": 45,
        "retinopathy": 5, "clevr-count": 8, "clevr-distance": 6, "dmlab": 6, "kitti": 4,
        "dsprites-location": 16, "dsprites-orientation": 16, "smallnorb-azimuth": 18,
        "smallnorb-elevation": 9,
    }  # fmt: skip
    assert {(task.splits["train"], task.splits["val"]) for task in tasks} == {(800, 200)}
    assert {task.metrics for task in tasks} == {("accuracy",)}
    assert all("not the official" in task.policy for task in tasks)


@pytest.mark.slow
def test_the_real_fashion_mnist_in_the_hubs_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not FASHION.is_dir():
        pytest.skip("no real Fashion-MNIST: apt-get install dataset-fashion-mnist")
    folder = tmp_path / "zalando-datasets/fashion_mnist/fashion_mnist"
    folder.mkdir(parents=True)
    kept = {}
    for name, split in (("train", "train"), ("t10k", "test")):
        read = {
            kind: np.frombuffer(gzip.decompress(next(FASHION.glob(f"{name}-{kind}*")).read_bytes()),
                                np.uint8, offset=offset)
            for kind, offset in (("images", 16), ("labels", 8))
        }  # fmt: skip
        images = read["images"].reshape(-1, 28, 28)
        cells = [{"bytes": png(image), "path": None} for image in images]
        columns = {"image": pa.array(cells, tiny.IMAGE), "label": pa.array(read["labels"].tolist())}
        pq.write_table(pa.table(columns), folder / f"{split}-00000-of-00001.parquet")
        kept[split] = images, read["labels"]
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    data = ImageData("fashion-mnist", batch_size=64, seed=0)
    data.setup()
    assert data.sizes == {"train": 55_000, "val": 5_000, "test": 10_000}
    assert (data.splits["test"].pixels[:, 0] == kept["test"][0]).all()
    assert (data.splits["test"].labels == kept["test"][1]).all()
    assert (np.bincount(data.splits["val"].labels) == 500).all()
    # The constants that everybody uses are of all 60,000.
    assert data.mean.item() == pytest.approx(0.2860, abs=1e-3)
    assert data.std.item() == pytest.approx(0.3530, abs=1e-3)


def png(image: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG")
    return stream.getvalue()
