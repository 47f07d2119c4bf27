"""Devices and their slots, what a cluster is asked for, and how local processes end."""

import os
import signal
import time
from pathlib import Path

import pytest

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute import devices, slurm
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


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("0,1,2", ["0", "1", "2"]),
        ("", []),
        ("-1", []),
        ("2,-1,3", ["2"]),
        ("NoDevFiles", []),
        ("GPU-1b2c, MIG-7", ["GPU-1b2c", "MIG-7"]),
    ],
)
def test_gpus_are_those_that_cuda_would_see(
    monkeypatch: pytest.MonkeyPatch, named: str, found: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", named)
    assert devices.gpus() == found


EIGHT = [f"GPU-{i}" for i in range(8)]


def test_eight_gpus_take_two_runs_of_four_or_eight_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(EIGHT))
    assert devices.demand("auto", 4, threads=1) == 2
    assert [devices.share(EIGHT, 4, slot) for slot in range(2)] == [
        ("GPU-0", "GPU-1", "GPU-2", "GPU-3"),
        ("GPU-4", "GPU-5", "GPU-6", "GPU-7"),
    ]
    assert devices.demand("cuda", 1, threads=1) == 8
    assert [devices.share(EIGHT, 1, slot) for slot in range(8)] == [(gpu,) for gpu in EIGHT]
    # Three do not divide eight: two are left over. More slots than room share.
    assert devices.demand("auto", 3, threads=1) == 2
    assert devices.share(EIGHT, 4, 2) == devices.share(EIGHT, 4, 0)
    with pytest.raises(UserError, match="--devices 9: there are 8 GPUs here"):
        devices.demand("auto", 9, threads=1)


def test_on_a_cpu_ranks_and_threads_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert devices.demand("auto", 2, threads=1) == 4
    assert devices.demand("cpu", 2, threads=2) == 2
    assert devices.demand("cpu", 4, threads=4) == 1  # crowded, but somebody wants it
    with pytest.raises(UserError, match="--devices 9: there are 8 CPU cores here"):
        devices.demand("auto", 9, threads=1)
    with pytest.raises(UserError, match="no GPU is visible here"):
        devices.demand("cuda", 1, threads=1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    with pytest.raises(UserError, match="--devices 2: there is 1 CPU core here"):
        devices.demand("auto", 2, threads=1)


def test_a_missing_compiler_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UserError, match="compiler no-such-compiler on this host"):
        devices.demand_compiler()
    (tmp_path / "c++").write_text("")
    (tmp_path / "c++").chmod(0o755)
    monkeypatch.setenv("CXX", str(tmp_path / "c++"))
    monkeypatch.setattr(devices.sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(UserError, match="Python's C headers are not on this host"):
        devices.demand_compiler()


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
