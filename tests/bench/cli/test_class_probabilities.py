"""Class probabilities by the installed script: columns, what was not kept, and how to get it."""

import csv
import json
from pathlib import Path

from tests.commands import bench
from tests.factory import study_page

PAGE = {"entries": {"A": {"model": "mlp"}}, "recipe": {"epochs": 1}, "seeds": 2}


def test_labels_alone_are_done_and_probabilities_are_added_on_demand(tmp_path: Path) -> None:
    path = tmp_path / "page.yaml"
    path.write_text(study_page(**PAGE, predictions="labels"), encoding="utf-8")
    planned = bench("plan", "page.yaml", cwd=tmp_path)
    assert "class probabilities" not in planned.stdout
    assert bench("run", "page.yaml", cwd=tmp_path).returncode == 0
    runs = tmp_path / "bench-store" / "runs"
    assert not list(runs.glob("*/probabilities.npz"))
    refused = bench("run", "page.yaml", "--add-probabilities", cwd=tmp_path)
    assert refused.returncode == 2
    assert "the page keeps labels alone" in refused.stderr

    path.write_text(study_page(**PAGE, metrics=["nll", "macro_f1"]), encoding="utf-8")
    told = bench("run", "page.yaml", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "not kept" in told.stdout
    words = " ".join(told.stdout.split())
    assert "0 of 2 runs: seeds 0–1 kept no class probabilities, of which nll is made" in words
    assert "bench run --add-probabilities" in words
    assert len(list(runs.iterdir())) == 2  # nothing was run again

    done = bench("run", "page.yaml", "--add-probabilities", cwd=tmp_path)
    assert "2 of 2 runs to do" in done.stdout
    assert "not kept" not in done.stdout
    assert len(list(runs.glob("*.2/probabilities.npz"))) == 2
    assert "macro f1 [%] ↑" in done.stdout
    again = bench("run", "page.yaml", "--add-probabilities", cwd=tmp_path)
    assert "runs to do" not in again.stdout
    folder = tmp_path / "bench-store" / "reports" / "page-smoke"
    rows = list(csv.DictReader((folder / "report.csv").open(encoding="utf-8")))
    assert {row["metric"] for row in rows} == {
        "accuracy", "loss", "top5", "nll", "brier", "ece", "auroc", "macro_f1",
        "accuracy_train", "loss_train",
    }  # fmt: skip
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    columns = [
        (column["metric"], column["higher_is_better"]) for column in report["tables"][0]["columns"]
    ]
    assert columns[:3] == [("accuracy", True), ("nll", False), ("macro_f1", True)]
    (errors,) = report["errors"]
    assert sum(map(sum, errors["confusion"]["A"])) == 2 * 359
    (figure,) = [figure for figure in report["figures"] if figure["kind"] == "reliability"]
    assert sum(examples for examples, _, _ in figure["bins"]["A"]) == 2 * 359
    assert (folder / "figures" / "reliability-digits.svg").exists()


def test_a_run_without_probabilities_is_reproduced_without(tmp_path: Path) -> None:
    page = study_page(**PAGE | {"seeds": 1}, predictions="labels")
    (tmp_path / "page.yaml").write_text(page, encoding="utf-8")
    assert bench("run", "page.yaml", cwd=tmp_path).returncode == 0
    (run,) = (tmp_path / "bench-store" / "runs").iterdir()
    done = bench("reproduce", run.name[:8], cwd=tmp_path)
    assert "equal bit for bit" in done.stdout, done.stdout + done.stderr


def test_describe_tells_the_metrics_and_plan_their_size(tmp_path: Path) -> None:
    page = study_page(**PAGE, metrics=["ece"])
    (tmp_path / "page.yaml").write_text(page, encoding="utf-8")
    study, data, other = (
        json.loads(bench("describe", name, "--format", "json", cwd=tmp_path).stdout)[0]
        for name in ("page.yaml", "digits", "stsb")
    )
    assert list(study["metrics"]) == ["ece"]
    assert list(data["further_metrics"]) == ["top5", "nll", "brier", "ece", "auroc", "macro_f1"]
    assert "further_metrics" not in other
    planned = bench("plan", "page.yaml", cwd=tmp_path).stdout
    assert "disk: at most 14.4 kB of class probabilities" in planned
