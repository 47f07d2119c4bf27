"""Runs on pretended GPUs: each has the one it was given, or fails; and what records tell of it."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lightning_bench.bench.execute.job import EXIT_CODES, write_job_spec
from lightning_bench.bench.store.record import Environment, Record
from lightning_bench.bench.store.store import Store, read_record
from tests.bench.processes import order
from tests.commands import bench
from tests.factory import spec
from tests.pretended_cuda.environment import pretended, touched

pytestmark = pytest.mark.slow

STUDY = """\
title: A small study
question: Where does it run?
data: [digits]
entries: {MLP: {model: mlp, args: {width: 16}}}
seeds: 2
recipe: {epochs: 1, lr: 3e-3}
scales: {smoke: {}}
"""


def run(folder: Path, *words: str, **options: Any) -> tuple[int, str, list[Record]]:
    """The exit code of a study there, what it printed, and the records of all attempts."""
    (folder / "small.yaml").write_text(STUDY, encoding="utf-8")
    done = bench("run", "small.yaml", *words, cwd=folder, env=pretended(folder, **options))
    return done.returncode, done.stdout + done.stderr, records(folder)


def records(folder: Path) -> list[Record]:
    store = Store(folder / "bench-store")
    found = [store.read(key, number).record for key, number in sorted(store.attempts())]
    return [record for record in found if record]


def environments(folder: Path) -> list[Environment]:
    return [
        Environment.model_validate(json.loads(path.read_bytes()))
        for path in (folder / "bench-store/environments").iterdir()
    ]


def test_runs_in_different_slots_share_an_environment(tmp_path: Path) -> None:
    names = ["NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", "NVIDIA T4"]
    code, said, made = run(tmp_path, devices=3, names=names, visible="0,1", capacity=10**8)
    assert code == 0, said
    assert [record.provenance.device for record in made] == ["cuda", "cuda"]
    assert {record.provenance.visible_devices for record in made} == {"0", "1"}
    assert {record.provenance.device_kind for record in made} == {"NVIDIA A100-SXM4-80GB"}
    (gpu,) = made[0].provenance.gpus
    assert (gpu.memory_bytes, gpu.power_limit_w, gpu.mig) == (10**8, 400.0, "")
    assert made[0].cost
    assert 10_000 < made[0].cost.peak_memory_bytes < 10**8
    (environment,) = environments(tmp_path)
    assert (environment.gpus, environment.driver) == (names, "550.54.15")
    assert {"cuda", "cudnn", "nccl"} <= environment.libraries.keys()
    assert "CUDA_VISIBLE_DEVICES" not in environment.settings
    # The parent and the fork server have not initialised CUDA, which no fork could use then.
    uses = touched(tmp_path)
    assert len(uses) == 2
    # cuBLAS reads it once.
    assert all("CUBLAS_WORKSPACE_CONFIG=:4096:8\nCUDA_DEVICE_ORDER=PCI_BUS_ID" in u for u in uses)


def test_a_run_on_the_cpu_asks_cuda_for_nothing(tmp_path: Path) -> None:
    code, said, made = run(tmp_path, "--device", "cpu", devices=2)
    assert code == 0, said
    assert [record.provenance.device for record in made] == ["cpu", "cpu"]
    assert not any(record.provenance.device_kind for record in made)
    assert environments(tmp_path)[0].gpus == []
    assert touched(tmp_path) == []


def test_a_gpu_that_does_not_work_is_the_machines_failure_and_no_run_on_the_cpu(
    tmp_path: Path,
) -> None:
    broken = "CUDA unknown error - this may be due to an incorrectly set up environment\nmore"
    code, said, made = run(tmp_path, "--set", "seeds=1", devices=1, driver=broken)
    assert code == 3, said
    assert [record.attempt for record in made] == [1, 2, 3]  # another node might do
    for record in made:
        assert record.provenance.device == "cuda"
        assert record.failure
        assert record.failure.kind == "infrastructure"
        assert record.failure.message.endswith("CUDA_VISIBLE_DEVICES 0: GPU 0 can't be used: "
                                               + broken.splitlines()[0])  # fmt: skip
        assert not record.metrics
        assert not record.curve


def test_runs_that_share_a_gpu_are_told_and_count_a_part_of_its_hours(tmp_path: Path) -> None:
    code, said, made = run(tmp_path, "--jobs", "2", devices=1)
    assert code == 0, said
    assert "2 runs at a time share 1 GPU, and its memory: each counts 1/2 of its device-" in said
    for record in made:
        assert record.cost
        assert record.provenance.sharing == 2
        assert record.cost.device_h == pytest.approx(record.cost.total_s / 3600 / 2)
    # A plan for the CPU, of which nothing is known, does not take the GPU's seconds.
    line = ("plan", "small.yaml", "--set", "seeds=3")
    cpu = bench(*line, "--device", "cpu", cwd=tmp_path, env=pretended(tmp_path))
    assert "for 1 run on" in cpu.stdout, cpu.stdout + cpu.stderr
    assert "by their models' FLOPs" in cpu.stdout
    gpu = bench(*line, "--device", "cuda", cwd=tmp_path, env=pretended(tmp_path, devices=0))
    assert "by what earlier ones took" in gpu.stdout, gpu.stdout + gpu.stderr


def test_ranks_that_would_share_a_gpu_are_refused(tmp_path: Path) -> None:
    script = "from lightning_bench.bench.run import cuda_device; cuda_device.take(0, 3)"
    env = {**os.environ, **pretended(tmp_path, devices=2)}
    given = {name: value for name, value in env.items() if value is not None}
    done = subprocess.run([sys.executable, "-c", script], env=given, capture_output=True, text=True)
    assert "3 ranks are to use a GPU each, and 2 are there" in done.stderr


def test_a_slot_is_free_when_its_gpu_is(tmp_path: Path) -> None:
    # Each takes more than half of the card, and longer to end than the next one to begin.
    half = 700_000
    code, said, made = run(tmp_path, "--jobs", "1", devices=1, capacity=2 * half, exit_s=4.0)
    assert code == 0, said
    assert [record.failure for record in made] == [None, None]


def test_gpus_that_are_not_there_are_told_before_anything_runs(tmp_path: Path) -> None:
    for options, says in (
        ({"devices": 0, "visible": "0,1", "nvml": False}, "CUDA_VISIBLE_DEVICES is 0,1, but torch"),
        ({"devices": 1, "supports": 12080}, "the driver (550.54.15) is too old"),
    ):
        code, said, made = run(tmp_path, **options)
        assert code == 2
        assert said.startswith(f"bench: --device auto: {says}")
        assert len(said.splitlines()) == 1
        assert not made
    code, said, made = run(tmp_path, "--set", "recipe.precision=bf16", capability=(7, 5))
    assert (code, made) == (2, [])
    assert "MLP: precision bf16 needs an Ampere GPU or a later one" in said
    code, said, made = run(tmp_path, "--device", "mps", devices=0)
    assert (code, made) == (2, [])
    assert said.startswith("bench: --device mps: the GPU of a Mac (MPS) is not supported")


TASK = """
import sys
from pathlib import Path
from lightning_bench.bench.execute import slurm
sys.exit(slurm.rank(Path(sys.argv[1])))
"""


def test_a_task_of_slurm_trains_on_the_gpu_that_it_sees(tmp_path: Path) -> None:
    """Alone, as srun starts it; a real SLURM starts several in `tests/bench/execute/slurm`."""
    given = replace(order(tmp_path, spec("mlp", recipe={"epochs": 1})), device="cuda")
    Store(tmp_path).prepare()
    path = tmp_path / "order-1.json"
    write_job_spec(given, path)
    task = {"NTASKS": "1", "PROCID": "0", "LOCALID": "0", "NNODES": "1", "NODEID": "0"}
    environment = os.environ | pretended(tmp_path, visible="0")
    environment |= {f"SLURM_{name}": value for name, value in task.items()}
    done = subprocess.run(
        [sys.executable, "-c", TASK, str(path)],
        env={name: value for name, value in environment.items() if value is not None},
        capture_output=True,
        text=True,
    )
    assert done.returncode == EXIT_CODES["recorded"] == 0, done.stderr
    assert (tmp_path / "verdict-1.txt").read_text() == "recorded"
    record = read_record(tmp_path / "runs" / f"{given.spec.key}.1" / "record.json")
    assert (record.status, record.provenance.device) == ("done", "cuda"), record.failure
    uses = [line for line in touched(tmp_path) if "CUBLAS_WORKSPACE_CONFIG=:4096:8" in line]
    assert uses
