"""`bench measure` by the installed script, whole, on pretended GPUs."""

import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from lightning_bench.bench.measure.warm_up import QUICK
from lightning_bench.bench.store import session_files
from lightning_bench.bench.store.measurements import Measurement, Session
from tests.commands import bench
from tests.factory import study_page
from tests.pretended_cuda.environment import pretended, touched

#: Without NVML, so that quick blocks stay short.
NO_METER: dict[str, Any] = {"nvml": False, "visible": "0"}

pytestmark = pytest.mark.slow


def measure(folder: Path, *words: str, **cards: Any) -> Session:
    """The session of a `bench measure`, whose tables are in the folder's tables.md."""
    words = ("measure", *words, "--quick", "--format", "markdown")
    done = bench(*words, cwd=folder, env=pretended(folder, **cards))
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "tables.md").write_text(done.stdout, encoding="utf-8")
    (path,) = folder.glob("bench-store/measurements/*.json")
    return session_files.read(path)


def whole(session: Session) -> list[Measurement]:
    """Its measurements, each of which has a figure."""
    for each in session.measurements:
        assert each.failure is None, (each.contender.label, each.failure)
        assert len(each.blocks) == session.rounds
        assert all(block.device_s for block in each.blocks)
    return session.measurements


def test_two_contenders_at_the_largest_batch_share_a_card(tmp_path: Path) -> None:
    words = ["mlp", "lenet", "--mode", "train", "--batch-size", "max"]
    # The first one's weights, gradients and moments take 29.5 MB, 512 examples 4.2, and each
    # process's context 1: that batch fits alone, and not beside another's context.
    session = measure(tmp_path, *words, capacity=35_500_000, **NO_METER)
    assert len(whole(session)) == 2
    tried = session.searched["mlp, train"]
    assert tried[-2:] == [(256, True), (512, False)]
    assert session.searched["lenet, train"][-1][1] is False
    assert "No energy" in (tmp_path / "tables.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("mode", "precision"),
    [("infer", "fp32"), ("train", "tf32"), ("train", "bf16"), ("train", "fp16")],
)
def test_every_precision(mode: str, precision: str, tmp_path: Path) -> None:
    words = ["lenet", "--mode", mode, "--precision", precision]
    (found,) = whole(measure(tmp_path, *words, **NO_METER))
    assert (found.setting.mode, found.setting.precision) == (mode, precision)
    assert bool(found.latency_s) == (mode == "infer")
    assert found.kernels.deterministic
    assert found.kernels.float32 == ("tf32" if precision == "tf32" else "ieee")
    said = "TF32" if precision == "tf32" else "float32 in IEEE precision"
    tables = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert f"Kernels as in training: deterministic where there are such and {said}." in tables


def test_a_study_measures_on_the_card_that_it_trained_on(tmp_path: Path) -> None:
    page = study_page(
        entries={"LeNet": {"model": "lenet"}},
        recipe={"epochs": 1},
        measure={"mode": ["infer"], "batch_size": 2, "quick": True},
    )
    (tmp_path / "page.yaml").write_text(page, encoding="utf-8")
    env = pretended(tmp_path, nvml=False, visible="0")
    done = bench("run", "page.yaml", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.glob("bench-store/measurements/*.json")
    (found,) = whole(session_files.read(path))
    assert found.setting.device == "cuda"


STEPS = """
import resource, sys
from lightning_bench.bench.measure.measuring_worker import Worker
from lightning_bench.bench.measure.protocol import MeasureJob
from lightning_bench.bench.measure.step import make
from lightning_bench.bench.measure.warm_up import Pace
from lightning_bench.bench.store.measurements import Contender, Setting
import torch

lenet = Contender(label="lenet", model="lenet")
for precision in ("fp32", "tf32", "bf16", "fp16"):
    setting = Setting(mode="train", batch_size=2, precision=precision, device="cuda")
    made = make(lenet, setting)
    step = made.step(made.model, 2)
    step()
    print(precision, step.scaler.is_enabled())

moved = torch.Tensor.to
torch.Tensor.to = lambda *_, **__: sys.exit("an input was made in host memory")
made.inputs(2)
torch.Tensor.to = moved

assert resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY
Worker(MeasureJob(lenet, setting, Pace(1, 0.0, 0.0, 0.0), gpus=("0",)))
attends = Contender(label="a", model="tests.bench.misbehaving:attends", args={"puts": True})
for mode in ("train", "infer"):
    setting = Setting(mode=mode, batch_size=2, device="cuda")
    worker = Worker(MeasureJob(attends, setting, Pace(1, 0.0, 0.0, 0.0), gpus=("0",)))
    print(mode, worker.ready.kernels.nondeterministic)
print("limited", resource.getrlimit(resource.RLIMIT_DATA)[0] != resource.RLIM_INFINITY)
"""


def test_steps_on_a_card_are_those_of_training_and_spare_the_hosts_memory(tmp_path: Path) -> None:
    environment = os.environ | pretended(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", STEPS],
        env={name: value for name, value in environment.items() if value is not None},
        capture_output=True,
        text=True,
    )
    scaled = ["fp32 False", "tf32 False", "bf16 False", "fp16 True"]
    # An operation without a deterministic form is one of its training steps, and told of.
    strict = ["train ['put_']", "infer []"]
    assert done.stdout.splitlines() == [*scaled, *strict, "limited True"], done.stderr


def test_two_cards_meet_and_their_meters_are_added(tmp_path: Path) -> None:
    session = measure(
        tmp_path,
        "lenet",
        "--mode",
        "train",
        "--devices",
        "2",
        devices=2,
        foreign=[1, 1 << 30],
    )
    alone, both = whole(session)
    assert (alone.setting.devices, both.setting.devices) == (1, 2)
    assert {block.clock_mhz for block in both.blocks} == {1410}
    # NVML's counter of the pretended cards moves by a joule a look.
    assert {block.energy_j for block in alone.blocks} == {1.0}
    assert {block.energy_j for block in both.blocks} == {2.0}
    assert alone.energy_source == both.energy_source == "NVML"
    assert {block.foreign_processes for each in (alone, both) for block in each.blocks} == {2}
    tables = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "2 processes of others used the GPU." in tables
    assert "GPU clock at the end of each block: 1410 MHz." in tables
    # Long beside the tenth of a second between two readings of a meter, quick or not.
    assert median(block.wall_s for block in alone.blocks) > 2 * QUICK.block_s
    assert [gpu.name for gpu in session.provenance.gpus] == ["NVIDIA Pretended 80GB"] * 2


def test_a_measurement_on_the_cpu_leaves_the_cards_alone(tmp_path: Path) -> None:
    session = measure(tmp_path, "lenet", "--device", "cpu", devices=2)
    assert session.measurements[0].setting.device == "cpu"
    assert touched(tmp_path) == []
