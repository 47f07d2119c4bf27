"""Step 11 on a real SLURM with two pretended nodes, and without any."""

import json
from pathlib import Path

import pytest

from lightning_bench.bench.study.cluster import Cluster
from tests.bench.device_check.cpu_check import step
from tests.bench.execute.slurm import cluster
from tests.commands import bench

NODES = ("--launcher", "slurm", "--cluster", "nodes=2")


@pytest.mark.slow
@pytest.mark.skipif(bool(cluster.missing()), reason=cluster.missing())
def test_two_nodes_train_together_and_tell_their_failures(tmp_path: Path) -> None:
    with cluster.running() as configuration:
        done = bench(
            "check-device", *NODES, "--quick", "--folder", ".", "--json", "report.json",
            cwd=tmp_path, timeout_s=600,
            # The pretended nodes have names that nobody can look up.
            env={"SLURM_CONF": str(configuration), "MASTER_ADDR": "127.0.0.1"},
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["steps"]
    assert result["summary"].startswith("2 nodes: 2 devices")
    assert all(figure["met"] for figure in result["figures"])


def test_without_a_cluster_it_fails_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert step(11, tmp_path).result == "skipped"
    monkeypatch.setenv("PATH", str(tmp_path))
    result = step(11, tmp_path, slurm=Cluster(nodes=2))
    assert result.result == "failed"
    assert result.summary.startswith("UserError: --launcher slurm: there is no s")
