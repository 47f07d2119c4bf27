"""Runs on pretended GPUs, fed by threads: what a CPU has, also when it was interrupted."""

import os
import signal
import time
from pathlib import Path

import pytest

from lightning_bench.bench.store.record import Record
from lightning_bench.bench.store.store import Store
from tests.commands import bench, start
from tests.pretended_cuda.environment import pretended

pytestmark = pytest.mark.slow

STUDY = """\
title: A fed study
question: Does a GPU see what a CPU sees?
data: [digits, polarity]
entries:
  LeNet:
    model: lenet
    recipe: {flip: true, crop: 1, randaugment: 9, erasing: 0.25, mixup: 0.8, cutmix: 1.0}
  Bag: {model: bag, args: {width: 8, hidden: 8}}
recipe: {epochs: 2, lr: 3e-3, batch_size: 60}
seeds: [0]
scales: {smoke: {}}
"""
BAG = "  Bag: {model: bag, args: {width: 8, hidden: 8}}\n"
LONG = STUDY.replace(", polarity", "").replace(BAG, "").replace("epochs: 2", "epochs: 30")


def records(folder: Path) -> dict[str, Record]:
    attempts = Store(folder / "bench-store").scan().values()
    return {each.record.spec.model.name: each.record for each in attempts if each.record}


def run(folder: Path, *words: str, gpus: int = 0, page: str = STUDY) -> dict[str, Record]:
    """The records of the study on so many GPUs, or on the CPU."""
    folder.mkdir(exist_ok=True)
    (folder / "page.yaml").write_text(page, encoding="utf-8")
    env = pretended(folder, gpus, visible=",".join(map(str, range(gpus)))) if gpus else None
    device = "cuda" if gpus else "cpu"
    done = bench("run", "page.yaml", "--device", device, *words, cwd=folder, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return records(folder)


@pytest.mark.parametrize("devices", [1, 2])
def test_a_run_on_gpus_sees_the_batches_of_one_on_cpus(devices: int, tmp_path: Path) -> None:
    words = ["--devices", str(devices)]
    on_cpu = run(tmp_path / "cpu", *words)
    on_gpu = run(tmp_path / "gpu", *words, gpus=devices)
    assert on_gpu.keys() == on_cpu.keys() == {"lenet", "bag"}
    for name, record in on_gpu.items():
        assert record.provenance.device == "cuda"
        assert record.curve == on_cpu[name].curve
        assert record.metrics == on_cpu[name].metrics


def test_ctrl_c_ends_a_fed_run_at_once_and_it_goes_on_as_if_it_had_not(tmp_path: Path) -> None:
    undisturbed = run(tmp_path / "undisturbed", gpus=1, page=LONG)["lenet"]
    folder = tmp_path / "interrupted"
    folder.mkdir()
    (folder / "page.yaml").write_text(LONG, encoding="utf-8")
    env = pretended(folder, 1, visible="0")
    parent = start("run", "page.yaml", "--device", "cuda", cwd=folder, env=env)
    deadline = time.monotonic() + 120
    while not list(folder.glob("bench-store/runs/*/checkpoints/*.pt")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    interrupted = time.monotonic()
    os.killpg(parent.pid, signal.SIGINT)
    parent.communicate(timeout=60)
    assert parent.returncode == 130
    assert time.monotonic() - interrupted < 20
    assert not records(folder)
    resumed = run(folder, gpus=1, page=LONG)["lenet"]
    assert resumed.resumed_from == [1]
    assert resumed.curve == undisturbed.curve
    assert resumed.metrics == undisturbed.metrics
