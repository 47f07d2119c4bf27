"""`bench check-data`: what it finds in good data, and in data whose splits share examples."""

import csv
from pathlib import Path

import pytest

from lightning_bench.data import checks
from lightning_bench.data.catalogue import find
from lightning_bench.data.sources import locations


def test_good_data_keep_the_contract() -> None:
    found, sheet = checks.check(find("digits"))
    assert [(result.name, result.status) for result in found] == [
        (name, "passed") for name in ("loaded", *checks.CHECKS)
    ]
    assert "10 classes" in found[2].detail
    assert sheet.count("data:image/png") == 10


def test_what_is_wrong_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(locations.PAGE_FOLDER, raising=False)
    monkeypatch.delenv(locations.DATA, raising=False)
    monkeypatch.chdir(tmp_path)
    # The third test row is a training row; of c there are test rows alone.
    rows = [[i, i * i, "ab"[i % 2], "train"] for i in range(30)]
    rows += [[i + 100, i, "abc"[i % 3], "test"] for i in range(9)] + [[7, 49, "b", "test"]]
    with Path("t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["x", "y", "label", "part"], *rows])
    found, _ = checks.check(find("table:t.csv", label=("label",), split_column="part"))
    told = {result.name: result.detail for result in found if result.status == "failed"}
    assert told == {
        "splits": "1 of test's 10 are in train, too",
        "labels": "training has no example of c",
    }
