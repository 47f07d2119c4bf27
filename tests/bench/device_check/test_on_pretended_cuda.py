"""Steps on pretended GPUs by the installed script: they pass, and find what is wrong with one."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import bench
from tests.pretended_cuda.environment import pretended

pytestmark = pytest.mark.slow


def checked(folder: Path, *words: str, **options: Any) -> dict[int, dict[str, Any]]:
    """The results of steps on two pretended GPUs, by number."""
    env = pretended(folder, devices=2, capacity=20_000_000, **options)
    line = ("check-device", "--device", "cuda", "--quick", "--folder", ".", "--format", "json")
    done = bench(*line, *words, cwd=folder, env=env, timeout_s=600)
    assert done.returncode in (0, 3), done.stderr
    steps = json.loads(done.stdout)["steps"]
    assert done.returncode == (3 if any(step["result"] == "failed" for step in steps) else 0)
    return {step["number"]: step for step in steps}


def test_two_gpus_pass(tmp_path: Path) -> None:
    """Ranks of NCCL that hang where NCCL would, memory that two contenders share, a meter."""
    steps = checked(tmp_path, "--steps", "1,2,4,7-10", watts=(20, 400))
    failed = {n: step["summary"] for n, step in steps.items() if step["result"] != "ok"}
    assert failed == {}
    assert len(steps) == 7


def test_a_gpu_trains_as_the_cpu_does_in_full_and_half_precision(tmp_path: Path) -> None:
    steps = checked(tmp_path, "--steps", "3,6")
    assert {n: step["result"] for n, step in steps.items()} == {3: "ok", 6: "ok"}, steps
    assert steps[3]["summary"].startswith("CPU against GPU, 5 networks")
    # The audit's tolerances; by torch's own scale fp16 would lose the ViT's first step, and 7 %.
    assert "(≤ 0.02); fp16: " in steps[6]["summary"]
    assert steps[6]["summary"].endswith("of fp32's (≤ 0.01)")


def test_a_card_before_ampere_is_checked_in_fp16_alone(tmp_path: Path) -> None:
    steps = checked(tmp_path, "--steps", "6", capability=(7, 5))
    assert steps[6]["summary"].startswith("fp16: train loss within ")
    assert "bf16 needs an Ampere GPU" in steps[6]["notes"][0]


def test_a_card_that_is_not_what_it_says_is_found(tmp_path: Path) -> None:
    """One is named that is not there; those that are have the wrong name and a nonsense meter."""
    wrong = {"visible": "0,1,2", "names": ["NVIDIA A100-SXM4-80GB"]}
    steps = checked(tmp_path, "--steps", "1,9,10", **wrong)
    assert {step["result"] for step in steps.values()} == {"failed"}
    assert "GPUs, by CUDA_VISIBLE_DEVICES: 3, expected 2" in steps[1]["summary"]
    assert "expected 5.85 to 21.45 (the sheet of NVIDIA A100" in steps[9]["summary"]
    assert "idle: " in steps[10]["summary"]
