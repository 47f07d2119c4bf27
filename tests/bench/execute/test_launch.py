"""What a cluster is asked for, and how local processes end."""

import os
import signal
import time
from pathlib import Path

import pytest

from lightning_bench.bench.cli import preflight
from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute import slurm
from lightning_bench.bench.execute.job import JobSpec, read_job_spec, write_job_spec
from lightning_bench.bench.execute.local import Local, LocalJob
from lightning_bench.bench.store.store import Store
from lightning_bench.bench.study.cluster import Cluster
from tests.factory import SPEC


def order(folder: Path, **changes: object) -> JobSpec:
    values = {
        "store": folder, "spec": SPEC, "attempt": 1, "device": "cpu", "gpus": (), "threads": 1,
        "sources": {"a.py": "0"}, "command": ["bench", "run"],
    }  # fmt: skip
    return JobSpec(**{**values, **changes})


def test_a_job_spec_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    made = order(tmp_path, gpus=("GPU-1", "MIG-2"), devices=2, strategy="fsdp", compile=True)
    write_job_spec(made, tmp_path / "order.json")
    assert read_job_spec(tmp_path / "order.json") == made


def test_a_cluster_is_told_all_that_the_page_asks_for(tmp_path: Path) -> None:
    cluster = Cluster.model_validate(
        {
            "partition": "gpu", "account": "vision", "qos": "high", "constraint": "a100&nvlink",
            "nodes": 2, "gpus": "a100:4", "memory_gb": 1.5, "hours": 0.75, "grace_s": 90,
            "extra": "--exclusive",
        }
    )  # fmt: skip
    assert cluster.devices(None) == cluster.devices(8) == 8
    assert slurm.options(cluster, order(tmp_path, devices=8, threads=3)) == [
        "--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=3", "--signal=B:USR1@90",
        "--gpus-per-node=a100:4", "--partition=gpu", "--account=vision", "--qos=high",
        "--constraint=a100&nvlink", "--time=45", "--mem=1536M", "--exclusive",
    ]  # fmt: skip
    assert slurm.options(Cluster(), order(tmp_path)) == [
        "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=1", "--signal=B:USR1@120",
    ]  # fmt: skip


def test_a_page_that_asks_for_gpus_has_its_runs_on_them() -> None:
    for page, device in (
        ({}, "cpu"), ({"gpus": 4}, "cuda"), ({"extra": "--gpus-per-task=1"}, "cuda"),
        ({"extra": ["--exclusive", "--gres=shard:2,gpu:1"]}, "cuda"), ({"partition": "gpu"}, "cpu"),
    ):  # fmt: skip
        cluster = Cluster.model_validate(page)
        assert slurm.device_of("auto", cluster) == device
        assert preflight.device_of("auto", cluster, local=False) == device
    assert slurm.device_of("cpu", Cluster(gpus="4")) == "cpu"


@pytest.mark.parametrize(
    ("page", "given", "says"),
    [
        ({"nodes": 2}, 3, "2 nodes can't share 3 devices equally"),
        ({"nodes": 2, "gpus": 4}, 4, "2 × 4 GPUs are not the 4 of --devices"),
    ],
)
def test_devices_have_to_fit_the_nodes(page: dict[str, object], given: int, says: str) -> None:
    with pytest.raises(UserError, match=says):
        Cluster.model_validate(page).devices(given)


def test_the_queue_of_a_store_that_never_sent_a_job_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert slurm.queued(Store(tmp_path)) == []
    with pytest.raises(UserError, match="there is no squeue on this host"):
        slurm.Slurm(1, Store(tmp_path), Cluster(), "study-smoke")


@pytest.fixture(scope="module")
def local() -> Local:
    return Local(1)


def end_of(local: Local, job: LocalJob) -> tuple[str, str]:
    deadline = time.monotonic() + 120
    while (ending := job.ended()) is None:
        assert time.monotonic() < deadline
        local.wait([job])
    return ending.kind, ending.how


@pytest.mark.slow
def test_endings_of_local_processes(local: Local, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.prepare()
    with store.claim(SPEC, 1):
        job = local.start(order(tmp_path), 0)
        assert end_of(local, job)[0] == "taken"
    # The spare one is killed meanwhile: nobody notices.
    local.wait([job])
    assert local._spare is not None
    local._spare.kill()
    job = local.start(order(tmp_path, attempt=2), 0)
    os.kill(job.process.pid, signal.SIGKILL)
    assert end_of(local, job) == ("ended", "was killed by SIGKILL")
    spare = local._spare
    local.close()
    if spare is not None:
        spare.process.join(10)
        assert spare.process.exitcode == 0


@pytest.mark.slow
def test_a_process_that_has_just_begun_can_be_asked_to_stop(local: Local, tmp_path: Path) -> None:
    Store(tmp_path).prepare()
    for attempt, wait_s in enumerate((0.0, 0.002, 0.01, 0.05), start=1):
        job = local.start(order(tmp_path, attempt=attempt), 0)
        time.sleep(wait_s)
        job.stop()
        assert end_of(local, job)[0] == "stopped"
    local.close()
