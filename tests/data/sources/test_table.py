"""Tables of one's own: texts, pairs, numbers and images, with classes, labels and numbers."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from lightning_bench.data.catalogue import find
from lightning_bench.data.errors import DataError
from lightning_bench.data.modules import contract
from lightning_bench.data.modules.contract import DataModule
from lightning_bench.data.sources import locations, source_splits
from tests.data.tiny import RECIPE


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(locations.DATA, raising=False)
    monkeypatch.delenv(locations.PAGE_FOLDER, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, delimiter="\t" if path.endswith(".tsv") else ",")
        table.writerows([header, *rows])


def load(name: str, **settings: Any) -> DataModule:
    data = contract.make(find(name, **settings), recipe=RECIPE, batch_size=4, seed=0)
    data.setup()
    return data


WORDS = ["good", "bad", "fine", "poor"]
TEXTS = [[f"a {WORDS[i % 4]} text no {i}", ["no", "yes"][i % 2]] for i in range(40)]


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet"])
def test_labelled_texts_are_alike_from_every_kind_of_file(ending: str) -> None:
    path = f"texts.{ending}"
    if ending in {"csv", "tsv"}:
        write(path, ["body", "label"], TEXTS)
    elif ending == "jsonl":
        rows = (json.dumps({"body": body, "label": label}) for body, label in TEXTS)
        Path(path).write_text("\n".join(rows))
    else:
        body, label = zip(*TEXTS, strict=True)
        pq.write_table(pa.table({"body": body, "label": label}), path)
    entry = find(f"table:{path}", tokenizer="train:400", length=16)
    assert (entry.kind, entry.task, entry.labels) == ("text", "classify", ("no", "yes"))
    assert entry.splits == {"train": 32, "val": 4, "test": 4}
    data = load(f"table:{path}", tokenizer="train:400", length=16)
    assert data.sizes == entry.splits
    batch = next(iter(data.train_dataloader()))
    wanted = [["no", "yes"].index(TEXTS[i][1]) for i in range(40)]
    labels = np.concatenate([data.splits[s].labels for s in ("train", "val", "test")])  # type: ignore[attr-defined]
    assert sorted(labels) == sorted(wanted)
    assert batch.target.dtype == torch.int64
    assert FINGERPRINTS.setdefault("texts", data.fingerprint) == data.fingerprint


FINGERPRINTS: dict[str, str] = {}


def test_a_column_tells_the_splits_by_any_of_their_names() -> None:
    names = ["train", "training", "dev", "test"]
    write("t.csv", ["text", "label", "part"], [[*row, names[i % 4]] for i, row in enumerate(TEXTS)])
    entry = find("table:t.csv", split_column="part")
    assert entry.splits == {"train": 20, "val": 10, "test": 10}
    assert entry.columns == ("text",)
    assert not entry.carved
    write("t.csv", ["text", "label", "part"], [["x", "a", "train"], ["y", "b", "tset"]])
    with pytest.raises(DataError, match=r"row 1: part is 'tset', not train, val or test"):
        find("table:t.csv", split_column="part")


def test_a_folder_has_a_file_for_each_split() -> None:
    Path("parts").mkdir()
    write("parts/train.csv", ["text", "label"], TEXTS[:20])
    write("parts/test.csv", ["text", "label"], TEXTS[20:])
    assert find("table:parts").splits == {"train": 18, "val": 2, "test": 20}
    write("parts/test.csv", ["text", "label"], [["x", "maybe"]])
    readers = source_splits.source_splits(find("table:parts"))
    assert readers["test"].labels("") == np.array([0])  # `maybe` is known, from the test alone


def test_numbers_and_categories_are_features() -> None:
    rows = [[i, i % 3, ["Bern", "Ulm"][i % 2], 1.5 * i] for i in range(40)]
    write("h.csv", ["area", "rooms", "city", "price"], rows)
    entry = find("table:h.csv", label=("price",))
    assert (entry.kind, entry.task, entry.classes) == ("table", "regress", 1)
    assert entry.features == ("area", "rooms", "city=Bern", "city=Ulm")
    assert entry.facts() == {"channels": 4, "image_size": 1, "classes": 1}
    data = load("table:h.csv", label=("price",))
    train = data.splits["train"]  # type: ignore[attr-defined]
    loader = data._loader("train")
    assert torch.allclose(loader.features.mean(0), torch.zeros(4), atol=1e-5)  # type: ignore[attr-defined]
    assert torch.allclose(loader.features.std(0, correction=0), torch.ones(4), atol=1e-5)  # type: ignore[attr-defined]
    assert np.allclose(train.labels, 1.5 * train.features[:, 0])


def test_several_numbers_are_told_at_once_and_several_labels() -> None:
    rows = [[i, 0.5 * i, i + 0.25, i % 2, int(i > 20)] for i in range(40)]
    write("s.csv", ["x", "a", "b", "p", "q"], rows)
    both = load("table:s.csv", columns=("x",), label=("a", "b"))
    assert both.entry.task == "regress"
    assert next(iter(both.val_dataloader())).target.shape == (4, 2)
    told = load("table:s.csv", columns=("x",), label=("p", "q"))
    assert (told.entry.task, told.entry.labels) == ("multilabel", ("p", "q"))
    features, labels = told.splits["train"]  # type: ignore[attr-defined]
    assert np.array_equal(labels[:, 1], features[:, 0] > 20)


def test_one_cell_holds_several_labels() -> None:
    rows = [["one text", "x|y"], ["and two", ""], ["three", "y"]] * 10
    write("m.csv", ["text", "tags"], rows)
    entry = find("table:m.csv", label=("tags",), task="multilabel")
    assert entry.labels == ("x", "y")
    labels = source_splits.source_splits(entry)["train"].labels("")
    assert labels[:3].tolist() == [[1, 1], [0, 0], [0, 1]]


def test_images_have_their_labels_in_a_table(folder: Path) -> None:
    (folder / "in").mkdir()
    for i in range(30):
        Image.new("RGB", (12, 10), (250 * (i % 2), 0, 0)).save(folder / f"in/{i}.png")
    write("in/list.csv", ["file", "red"], [[f"{i}.png", i % 2] for i in range(30)])
    data = load("table:in/list.csv", label=("red",), image_size=8)
    images = data.splits["train"]  # type: ignore[attr-defined]
    assert (data.entry.kind, data.entry.labels) == ("image", ("0", "1"))
    assert np.array_equal(images.pixels[:, 0, 0, 0] > 100, images.labels == 1)
    before = data.fingerprint
    Image.new("RGB", (12, 10), (9, 9, 9)).save(folder / "in/3.png")
    changed = load("table:in/list.csv", label=("red",), image_size=8)
    assert changed.fingerprint != before
    (folder / "in/3.png").unlink()
    with pytest.raises(DataError, match=r"row 3: there is no image 3\.png"):
        load("table:in/list.csv", label=("red",), image_size=8)


def test_a_path_is_the_pages_wherever_the_command_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "project").mkdir()
    (folder / "mirror").mkdir()
    write("project/t.csv", ["text", "label"], TEXTS)
    monkeypatch.setenv(locations.PAGE_FOLDER, str(folder / "project"))
    assert find("table:t.csv").splits["train"] == 32
    monkeypatch.setenv(locations.DATA, str(folder / "mirror"))
    assert find("table:t.csv").splits["train"] == 32


@pytest.mark.parametrize(
    ("rows", "settings", "says"),
    [
        ([["a", "b"]], {}, "say which column is the label, as in label: NAME; it has one, two"),
        ([["a", "b"]], {"label": ("tow",)}, "has no column 'tow'; did you mean 'two'"),
        ([["a", "b"], ["c"]], {"label": ("two",)}, "row 1: 1 cells, but 2 columns in x.csv"),
        ([["a", "b"]], {"label": ("two",)}, "two has 1 different values, which are no classes"),
        ([["a", "b"], ["c", ""]], {"label": ("two",)}, "row 1: no two"),
        ([], {"label": ("two",)}, "x.csv has no rows"),
    ],
)
def test_mistakes_are_told(rows: list[list[str]], settings: dict[str, Any], says: str) -> None:
    write("x.csv", ["one", "two"], rows)
    with pytest.raises(DataError, match=r"table:x\.csv.*" + says.replace(".", r"\.")):
        find("table:x.csv", **settings)


def test_what_is_no_number_is_told_with_its_row() -> None:
    write("x.csv", ["one", "two"], [[i, "many" if i == 7 else i / 2] for i in range(20)])
    entry = find("table:x.csv", label=("two",), task="regress")
    with pytest.raises(DataError, match="row 7: two is 'many', no number"):
        source_splits.source_splits(entry)["train"].labels("")


def test_settings_of_a_table_are_refused_elsewhere_and_a_near_name_is_told() -> None:
    with pytest.raises(DataError, match="digits is no table:PATH or hub:OWNER/NAME"):
        find("digits", label=("x",))
    write("tickets.csv", ["text", "label"], TEXTS)
    with pytest.raises(DataError, match=r"did you mean 'tickets\.csv'"):
        find("table:ticket.csv")


def test_any_data_set_of_the_hub_is_read_by_its_columns(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for split, rows in {"train": TEXTS, "validation": TEXTS[:6]}.items():
        place = folder / "mirror/some/reviews/data"
        place.mkdir(parents=True, exist_ok=True)
        body, stars = zip(*rows, strict=True)
        table = pa.table({"id": range(len(rows)), "body": body, "stars": stars})
        pq.write_table(table, place / f"{split}-00000-of-00001.parquet")
    monkeypatch.setenv(locations.DATA, str(folder / "mirror"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    entry = find("hub:some/reviews", columns=("body",), label=("stars",), tokenizer="train:400")
    assert (entry.repository, entry.labels) == ("some/reviews", ("no", "yes"))
    assert entry.splits == {"train": 36, "val": 6, "test": 4}
    assert entry.carved == ("test",)
    readers = source_splits.source_splits(entry)
    assert {name: len(reader.labels("")) for name, reader in readers.items()} == {
        "train": 40,
        "val": 6,
    }
    with pytest.raises(DataError, match="some/other"):
        find("hub:some/other", label=("stars",))
