"""Studies through a real SLURM: two nodes, no parent, cancelled, preempted, killed, refused."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lightning_bench.bench.execute import slurm
from lightning_bench.bench.store.record import Record
from lightning_bench.bench.store.store import Store, read_record
from tests import commands
from tests.bench.execute.slurm import cluster
from tests.pretended_cuda.environment import pretended

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(cluster.missing()), reason=cluster.missing()),
]

QUICK = """\
title: Two ranks
question: Do they agree with one?
data: [digits]
entries: {MLP: {model: mlp, args: {width: 16}}}
seeds: 1
recipe: {epochs: 2, lr: 3e-3}
cluster: {nodes: 2}
scales: {smoke: {}}
"""

SLOW = """\
title: One slow run
question: Does it survive?
data: [digits]
entries: {Slow: {model: "tests.bench.misbehaving:slow"}}
seeds: 1
recipe: {epochs: 8}
scales: {smoke: {}}
"""


@dataclass
class Bench:
    """The command line in a folder, with or without the cluster."""

    folder: Path
    environment: dict[str, str]

    @property
    def store(self) -> Store:
        return Store(self.folder / "bench-store")

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return commands.start(*words, cwd=self.folder, env=self.environment)

    def __call__(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return commands.bench(*words, cwd=self.folder, env=self.environment)

    def ask(self, *words: str) -> str:
        done = subprocess.run(words, capture_output=True, text=True)
        return done.stdout.strip()

    def jobs(self) -> list[slurm.Queued]:
        return slurm.queued(self.store)

    def epochs(self) -> int:
        """How far the newest attempt at the only run is."""
        for attempt in self.store.scan().values():
            curve = attempt.folder / "curve.jsonl"
            return curve.read_bytes().count(b"\n") if curve.exists() else 0
        return 0

    def attempt(self) -> int:
        return max(attempt.number for attempt in self.store.scan().values())

    def record(self) -> Record:
        (attempt,) = self.store.scan().values()
        assert attempt.record is not None
        return attempt.record


@pytest.fixture(scope="module")
def configuration() -> Iterator[Path]:
    with cluster.running() as path:
        yield path


@pytest.fixture
def bench(tmp_path: Path, configuration: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setenv("SLURM_CONF", str(configuration))
    # The pretended nodes have names that nobody can look up.
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    (tmp_path / "slow.yaml").write_text(SLOW, encoding="utf-8")
    (tmp_path / "quick.yaml").write_text(QUICK, encoding="utf-8")
    return Bench(tmp_path, commands.TESTS_IMPORTABLE | {"COLUMNS": "200"})


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Record]:
    """The record of each study, run on this host without trouble."""
    folder = tmp_path_factory.mktemp("calm")
    local = Bench(folder, commands.TESTS_IMPORTABLE)

    def run(name: str, page: str) -> Record:
        (folder / f"{name}.yaml").write_text(page, encoding="utf-8")
        done = local("run", f"{name}.yaml", "--store", name)
        assert done.returncode == 0, done.stderr + done.stdout
        (attempt,) = Store(folder / name).scan().values()
        assert attempt.record is not None
        return attempt.record

    found: dict[str, Record] = {}
    pages = {"quick": QUICK, "slow": SLOW}
    return lambda name: found.setdefault(name, found.get(name) or run(name, pages[name]))


def wait(done: Callable[[], Any], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.2)


def equal(record: Record, calm: Record) -> bool:
    return (record.metrics, record.curve) == (calm.metrics, calm.curve)


def equal_but_for_rounding(metrics: dict[str, float], others: dict[str, float]) -> bool:
    """Those of class probabilities are rounded to float16 before."""
    exact = {"accuracy", "loss"}
    return metrics == pytest.approx(others, abs=2e-3) and all(
        metrics[name] == pytest.approx(others[name], rel=1e-4) for name in exact
    )


def test_two_nodes_give_the_results_of_one_process(bench: Bench, calm: Any) -> None:
    done = bench("run", "quick.yaml", "--launcher", "slurm", "--cluster", "hours=0.5")
    assert done.returncode == 0, done.stderr + done.stdout
    record, alone = bench.record(), calm("quick")
    assert record.provenance.devices == 2
    assert record.provenance.hosts == ["pretend1", "pretend2"]
    assert equal_but_for_rounding(record.metrics, alone.metrics)
    assert record.scored == alone.scored
    (job,) = bench.jobs()
    shown = bench.ask("scontrol", "--oneliner", "show", "job", job.id)
    assert "NumNodes=2 NumCPUs=2 NumTasks=2" in shown
    assert "TimeLimit=00:30:00" in shown


def test_tasks_that_see_a_gpu_each_train_together(bench: Bench, calm: Any) -> None:
    """As with `--gpus-per-task` or `--gpu-bind=single:1`: each task's GPU is its number 0."""
    names = ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 PCIe")
    bench.environment |= pretended(bench.folder, devices=2, names=names, per_task=True)
    words = ["--device", "cuda", "--devices", "2", "--cluster", "nodes=1"]
    done = bench("run", "quick.yaml", "--launcher", "slurm", *words)
    record = bench.record()
    assert done.returncode == 0, record.failure or done.stderr + done.stdout
    assert (record.provenance.device, record.provenance.visible_devices) == ("cuda", "0")
    # The first rank sees its own GPU alone.
    assert [gpu.name for gpu in record.provenance.gpus] == list(names)
    assert record.provenance.device_kind == " + ".join(names)
    assert record.provenance.hosts == []
    assert equal_but_for_rounding(record.metrics, calm("quick").metrics)


def test_a_rank_lost_on_another_node_is_the_run_s_failure_though_nccl_hangs(bench: Bench) -> None:
    bench.environment |= pretended(bench.folder, devices=2, per_task=True)
    models = {name: f"tests.bench.misbehaving:second_{name}" for name in ("raises", "killed")}
    page = QUICK.replace(
        "entries: {MLP: {model: mlp, args: {width: 16}}}",
        f"entries: { ({name: {'model': model} for name, model in models.items()}) }",
    )
    (bench.folder / "lost.yaml").write_text(page, encoding="utf-8")
    words = ["--device", "cuda", "--devices", "2"]
    done = bench("run", "lost.yaml", "--launcher", "slurm", *words)
    assert done.returncode == 3, done.stderr + done.stdout
    found = {}
    for key in bench.store.scan():
        record = read_record(bench.store.folder(key, 1) / "record.json")
        assert record.failure is not None
        started, ended = map(datetime.fromisoformat, (record.started, record.ended))
        assert (ended - started).total_seconds() < 30
        found[record.spec.model.name] = record.failure
    assert found[models["raises"]].kind == "code"
    assert found[models["raises"]].message == "rank 1: RuntimeError: only here"
    assert found[models["killed"]].kind == "infrastructure"
    assert found[models["killed"]].message.startswith("rank 1 on pretend2 ")


def test_a_task_without_its_gpu_ends_the_run_as_the_machines_failure(bench: Bench) -> None:
    bench.environment |= pretended(bench.folder, devices=1, per_task=True)
    words = ["--device", "cuda", "--devices", "2", "--cluster", "nodes=1"]
    done = bench("run", "quick.yaml", "--launcher", "slurm", *words)
    assert done.returncode == 3, done.stderr + done.stdout
    failure = bench.record().failure
    assert failure
    assert failure.kind == "infrastructure"
    assert "rank 1: NoDevice: " in failure.message
    assert failure.message.endswith(
        "CUDA_VISIBLE_DEVICES 1: no GPU is visible: No CUDA GPUs are available"
    )
    # The first job may still be ending when its record is there: each retry has a job of its own.
    assert len(bench.jobs()) == 3
    assert bench.record().attempt == 3


def test_parents_come_and_go_and_a_cancelled_job_goes_on(bench: Bench, calm: Any) -> None:
    words = ("run", "slow.yaml", "--launcher", "slurm")
    first = bench.start(*words)
    wait(lambda: bench.epochs() >= 1, "the first epoch")
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    reached = bench.epochs()
    second = bench.start(*words)
    wait(lambda: bench.epochs() > reached, "an epoch without a parent")
    (job,) = bench.jobs()  # the second parent has found it, and sent none of its own
    assert job.state == "RUNNING"

    status = bench("status", "slow.yaml")
    assert f"job {job.id} running" in status.stdout
    cancelled = bench("cancel", "slow.yaml")
    assert "asked 1 run to leave a checkpoint" in cancelled.stdout
    out, err = second.communicate(timeout=60)
    assert second.returncode == 130, out + err
    wait(lambda: bench.jobs()[0].over, "the end of the job")
    (attempt,) = bench.store.scan().values()
    assert attempt.state == "interrupted"

    again = bench(*words)
    assert again.returncode == 0, again.stderr + again.stdout
    assert len(bench.jobs()) == 2
    assert bench.record().resumed_from == [1]
    assert equal(bench.record(), calm("slow"))


def test_time_limit_and_preemption_queue_a_job_again(bench: Bench, calm: Any) -> None:
    parent = bench.start("run", "slow.yaml", "--launcher", "slurm")
    wait(lambda: bench.epochs() >= 2, "two epochs")
    (job,) = bench.jobs()
    # The signal that --signal asks for, without the wait for minutes.
    bench.ask("scancel", "--signal=USR1", "--batch", job.id)
    wait(lambda: bench.attempt() == 2 and bench.epochs() >= 4, "four epochs")
    bench.ask(
        "sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null",
        "--wrap=sleep 1",
    )  # fmt: skip
    out, err = parent.communicate(timeout=240)
    assert parent.returncode == 0, out + err
    (job,) = bench.jobs()
    assert "Restarts=2" in bench.ask("scontrol", "--oneliner", "show", "job", job.id)
    record = bench.record()
    assert (record.attempt, record.resumed_from) == (3, [1, 2])
    assert equal(record, calm("slow"))


def test_a_job_killed_without_a_word_is_noticed_and_sent_again(
    bench: Bench, calm: Any, configuration: Path
) -> None:
    parent = bench.start("run", "slow.yaml", "--launcher", "slurm")
    wait(lambda: bench.epochs() >= 2, "two epochs")
    wait(lambda: bench.jobs()[0].state == "RUNNING", "the queue's word")
    for pid in cluster.steps(configuration.parent):
        os.kill(pid, signal.SIGKILL)
    out, err = parent.communicate(timeout=300)
    assert parent.returncode == 0, out + err
    assert "retried" in out
    (attempt,) = bench.store.scan().values()
    failure = read_record(bench.store.folder(attempt.key, 1) / "record.json").failure
    assert failure is not None
    assert failure.kind == "infrastructure"
    assert "without a word" in failure.message
    assert len(bench.jobs()) == 2
    record = bench.record()
    assert (record.attempt, record.resumed_from) == (2, [1])
    assert equal(record, calm("slow"))


def test_what_the_cluster_refuses_is_one_line(bench: Bench) -> None:
    words = ("run", "slow.yaml", "--launcher", "slurm", "--cluster", "partition=nowhere")
    done = bench(*words)
    assert done.returncode == 2
    assert done.stderr == "bench: sbatch: invalid partition specified: nowhere\n"
