"""`bench check-device` by the installed script, on two cores, and its mistakes in one line."""

import json
from pathlib import Path

import pytest

from lightning_bench.bench.cli.app import run
from tests.commands import bench


@pytest.mark.slow
def test_this_machine_passes_and_leaves_nothing(tmp_path: Path) -> None:
    """Whatever a CPU can't show is skipped, with the reason."""
    words = ("--device", "cpu", "--devices", "2", "--quick", "--json", "report.json")
    done = bench("check-device", *words, "--folder", ".", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    came = {step["number"]: step["result"] for step in report["steps"]}
    skipped = {number for number, result in came.items() if result == "skipped"}
    assert set(came) == set(range(1, 12))
    assert 11 in skipped
    assert skipped <= {10, 11}  # not every processor lets its meter be read
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
    lines = [line for line in done.stdout.splitlines() if line[:2].strip().isdigit()]
    assert len(lines) == 11


@pytest.mark.slow
def test_a_failed_step_is_exit_3_and_keeps_the_logs(tmp_path: Path) -> None:
    """GPUs are named that are not there."""
    done = bench("check-device", "--device", "cpu", "--steps", "1", "--format", "json",
                 "--folder", ".", cwd=tmp_path, env={"CUDA_VISIBLE_DEVICES": "0,1"})  # fmt: skip
    assert done.returncode == 3
    step = json.loads(done.stdout)["steps"][0]
    assert step["result"] == "failed"
    assert "expected 0" in step["summary"]
    (kept,) = tmp_path.iterdir()
    assert str(kept.name) in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--steps", "0-4"], "--steps 0-4: expected steps of 1 to 11, as in 1,3-5"),
        (["--steps", "5-3"], "--steps 5-3: expected"),
        (["--steps", "one"], "--steps one: expected"),
        (["--device", "cuda"], "no GPU"),
        (["--devices", "4000"], "--devices 4000: there "),
        (["--json", "nowhere/report.json"], "nowhere is not a folder"),
        (["--launcher", "slurm", "--cluster", "nods=2"], "unknown key 'nods'; did you mean"),
        (["--launcher", "slurm", "--cluster", "nodes"], "--cluster nodes: expected key=value"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], message: str, tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert run(["check-device", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())
