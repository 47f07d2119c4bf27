"""What a record claims, held against its files, on a study run by the installed command."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightning_bench.bench.plan.check_rules import _of_predictions
from lightning_bench.bench.run.result import save_arrays
from lightning_bench.bench.store.record import Record
from lightning_bench.bench.store.store import PREDICTIONS, PROBABILITIES, Attempt, Store
from lightning_bench.bench.study.class_metrics import CLASS_METRICS
from lightning_bench.reports.statistics.per_example import metric_of
from tests.commands import bench
from tests.factory import record, study_page

PAGE = study_page(recipe={"epochs": 1})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study that is done."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "study.yaml").write_text(PAGE, encoding="utf-8")
    done = bench("run", "study.yaml", "--jobs", "1", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A copy of it to be damaged."""
    return shutil.copytree(finished, tmp_path / "copy")


def attempt(folder: Path, model: str = "mlp") -> Attempt:
    found = Store(folder / "bench-store").scan().values()
    return next(a for a in found if a.record and a.record.spec.model.name == model)


def breaches(folder: Path) -> dict[str, list[str]]:
    """The broken rules of `bench check`, but for that of the sources' revision."""
    done = bench("check", "study.yaml", "--format", "json", cwd=folder)
    rules = {row["name"]: row["breaches"] for row in json.loads(done.stdout) if not row["kept"]}
    assert done.returncode == (3 if rules else 0)
    rules.pop("revisions", None)
    return rules


def claim(folder: Path, **changes: Any) -> dict[str, list[str]]:
    """Reseal the record with other claims, and check."""
    told = attempt(folder)
    assert told.record
    path = Store(folder / "bench-store")
    path.write_record(told.folder, told.record.model_copy(update=changes))
    return breaches(folder)


def test_lost_and_damaged_predictions_are_noticed_and_the_run_done_again(folder: Path) -> None:
    assert breaches(folder) == {}
    calm = {model: attempt(folder, model).record for model in ("mlp", "lenet")}
    (attempt(folder, "mlp").folder / PREDICTIONS).unlink()
    with (attempt(folder, "lenet").folder / PREDICTIONS).open("r+b") as file:
        file.seek(200)
        file.write(b"\0\0\0")
    told = breaches(folder)
    assert told["done"] == [
        "A on digits, seed 0 is missing: done, but its predictions are gone",
        "B on digits, seed 0 is missing: done, but its predictions are damaged",
    ]
    assert len(told["predictions"]) == 2
    planned = json.loads(
        bench("plan", "study.yaml", "--format", "json", cwd=folder, timeout_s=60).stdout
    )
    assert [row["state"] for row in planned] == ["missing", "missing"]
    done = bench("run", "study.yaml", "--jobs", "1", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 runs to do" in done.stdout
    assert breaches(folder) == {}
    for model, before in calm.items():
        again = attempt(folder, model)
        assert again.number == 2
        assert again.record
        assert before
        assert again.record.metrics == before.metrics
        assert again.record.predictions == before.predictions


def test_a_record_may_claim_what_its_predictions_give_and_nothing_else(folder: Path) -> None:
    told = attempt(folder).record
    assert told
    accuracy = told.metrics["accuracy"]
    (said,) = claim(folder, metrics={**told.metrics, "accuracy": 7.5})["predictions"]
    assert said == (
        f"A on digits, seed 0: its record says accuracy 7.5, its predictions {accuracy:.6g}"
    )
    off_by_one = {**told.metrics, "accuracy": accuracy + 1 / told.scored}
    assert "its record says accuracy" in claim(folder, metrics=off_by_one)["predictions"][0]
    (said,) = claim(folder, metrics=told.metrics, predictions=None)["predictions"]
    assert said.endswith("it has no predictions, and claims to have scored 359 examples")
    assert claim(folder, predictions=told.predictions) == {}
    # Those of another model, with their digest and with all of their metrics but one.
    other = attempt(folder, "lenet")
    shutil.copy(other.folder / PREDICTIONS, attempt(folder).folder)
    assert other.record
    told_of = claim(folder, predictions=other.record.predictions)["predictions"]
    assert "its record says accuracy" in told_of[-1]


def test_class_probabilities_are_held_against_the_record_to_the_last_digit(folder: Path) -> None:
    told = attempt(folder)
    assert told.record
    path, of = told.folder / PROBABILITIES, told.record
    assert of.probabilities == hashlib.sha256(path.read_bytes()).hexdigest()
    for metric in CLASS_METRICS:
        claimed = {**of.metrics, metric: of.metrics[metric] + 1e-7}
        (said,) = claim(folder, metrics=claimed)["predictions"]
        assert f"its record says {metric} " in said
    # A probability that somebody changed, with the digest of the changed file.
    arrays = dict(np.load(path))
    arrays["probabilities"][7] = arrays["probabilities"][7][::-1]
    digest = save_arrays(path, arrays)
    broken = claim(folder, metrics=of.metrics, probabilities=digest)["predictions"]
    assert [line.split("says ")[1].split()[0] for line in broken] == ["nll", "brier", "auroc"]
    assert claim(folder, probabilities=of.probabilities)["predictions"] == [
        f"A on digits, seed 0: {path.relative_to(folder)} is damaged"
    ]
    # They may be deleted to save their room: the run stays done, and what is lost is told.
    path.unlink()
    planned = bench("plan", "study.yaml", "--format", "json", cwd=folder, timeout_s=60)
    assert [row["state"] for row in json.loads(planned.stdout)] == ["done", "done"]
    assert breaches(folder)["predictions"] == [
        f"A on digits, seed 0: {path.relative_to(folder)} is gone"
    ]


def test_an_environment_that_is_not_what_its_name_says_is_a_breach_and_written_again(
    folder: Path,
) -> None:
    (path,) = (folder / "bench-store" / "environments").glob("*.json")
    whole = path.read_text(encoding="utf-8")
    for damaged in (whole.replace('"cores": ', '"cores": 1'), whole[:50]):
        path.write_text(damaged, encoding="utf-8")
        assert breaches(folder)["environments"] == [
            f"environments/{path.name} is gone, or is not what its name says"
        ]
    report = bench("report", "study.yaml", "--format", "md", cwd=folder)
    assert report.returncode == 0
    (page,) = (folder / "bench-store" / "reports").rglob("report.md")
    assert f"environment {path.stem[:12]} is not known" in page.read_text(encoding="utf-8")
    shutil.rmtree(attempt(folder).folder)
    assert bench("run", "study.yaml", "--jobs", "1", cwd=folder).returncode == 0
    assert path.read_text(encoding="utf-8") == whole


def keep(folder: Path, claims: Mapping[str, float], **arrays: Any) -> Record:
    """A record of these metrics and predictions."""
    np.savez_compressed(folder / PREDICTIONS, **arrays)
    digest = hashlib.sha256((folder / PREDICTIONS).read_bytes()).hexdigest()
    scored = sum(len(values) for name, values in arrays.items() if name.endswith("index"))
    return record(metrics=claims, predictions=digest, scored=scored)


def told(folder: Path, claims: Mapping[str, float], **arrays: Any) -> list[str]:
    return list(_of_predictions(folder, keep(folder, claims, **arrays), metric_of))


def test_a_second_split_is_held_against_its_own_predictions(tmp_path: Path) -> None:
    first = {"index": [0, 1], "target": [1, 1], "predicted": [1, 0]}
    second = {"index": [0, 1, 2, 3], "target": [1, 1, 0, 0], "predicted": [1, 1, 0, 1]}
    arrays = first | {f"mismatched_{name}": values for name, values in second.items()}
    claims = {"accuracy": 0.5, "accuracy_mismatched": 0.75, "loss": 1.0}
    assert told(tmp_path, claims, **arrays) == []
    assert told(tmp_path, claims | {"accuracy_mismatched": 0.5}, **arrays) == [
        "its record says accuracy_mismatched 0.5, its predictions 0.75"
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"index": [0, 2, 1]}, "are not of every example once, in order"),
        ({"index": [0, 1, 1]}, "are not of every example once, in order"),
        ({"target": [1, 1]}, "are not as many as its examples"),
        ({"predicted": [1, 1, 0, 0]}, "are not as many as its examples"),
    ],
)
def test_shapes_and_places_are_those_of_the_split(
    tmp_path: Path, change: Mapping[str, Any], says: str
) -> None:
    arrays = {"index": [0, 1, 2], "target": [1, 1, 0], "predicted": [1, 0, 0], **change}
    (said,) = told(tmp_path, {"accuracy": 2 / 3}, **arrays)
    assert says in said


def test_fewer_predictions_than_are_claimed(tmp_path: Path) -> None:
    arrays = {"index": [0, 1], "target": [1, 1], "predicted": [1, 0]}
    made = keep(tmp_path, {"accuracy": 0.5}, **arrays).model_copy(update={"scored": 3})
    assert list(_of_predictions(tmp_path, made, metric_of)) == [
        "its predictions are of 2 examples, not 3"
    ]
