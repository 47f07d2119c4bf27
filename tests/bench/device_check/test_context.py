"""Runs of a check end, and are compared only where they ran on what was asked for."""

from pathlib import Path

import pytest

from lightning_bench.bench.device_check import context
from lightning_bench.bench.device_check.context import TookTooLong, demand_done
from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute.job import Execution
from lightning_bench.bench.study.cluster import Cluster
from tests.bench.device_check.cpu_check import check, faulty
from tests.factory import record, spec


def test_a_run_that_was_elsewhere_is_compared_with_nothing() -> None:
    on_cpu = record(spec())
    demand_done({"A": on_cpu}, "cpu")
    with pytest.raises(RuntimeError, match="A ran on 1 × cpu, not 2 × cuda"):
        demand_done({"A": on_cpu}, "cuda", 2)


def test_a_run_on_one_device_asks_a_cluster_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(nodes=2, gpus="a100:4")
    one = context._one_device(cluster)
    assert (one.nodes, one.gpus) == (1, "a100:1")
    assert context._one_device(Cluster()).gpus is None
    queued = check(tmp_path, queue=cluster)
    store = queued.store("there")
    store.prepare()
    monkeypatch.setenv("PATH", "")
    for devices in (1, 8):
        with pytest.raises(UserError, match="--launcher slurm: there is no squeue on this host"):
            queued._launcher(store, Execution(device="cuda", devices=devices), runs=3)


def test_runs_that_get_on_may_take_long_and_those_that_hang_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(context.time, "monotonic", lambda: now[0])
    limit = context._Limit("there: A, B", context.LIMIT_S)
    for _ in range(5):
        now[0] += 100.0
        limit.tick()
        limit.progressed(*[None] * 2)  # type: ignore[arg-type]
    now[0] += 121.0
    with pytest.raises(TookTooLong, match="there: A, B: nothing was heard of them for 120 s"):
        limit.tick()


@pytest.mark.slow
def test_the_executor_asks_while_a_run_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "LIMIT_S", 5.0)
    with pytest.raises(TookTooLong, match="hangs: Still"):
        check(tmp_path, devices=1).train("hangs", {"Still": faulty("stands_still")})
