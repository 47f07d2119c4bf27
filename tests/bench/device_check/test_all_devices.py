"""Step 7 finds a model that several ranks train otherwise."""

from pathlib import Path

import pytest

from tests.bench.device_check.cpu_check import faulty, step


@pytest.mark.slow
def test_a_network_that_ranks_train_otherwise_is_named(tmp_path: Path) -> None:
    networks = dict.fromkeys(("MLP", "ResNet", "ViT"), faulty("lonely"))
    result = step(7, tmp_path, networks=networks)
    assert result.result == "failed"
    assert result.summary.startswith("DDP, ResNet, train loss of epoch 1, relative: ")
    assert [f.met for f in result.figures if "test examples" in f.name] == [True] * 4


def test_one_device_has_nobody_to_share_with(tmp_path: Path) -> None:
    assert step(7, tmp_path, devices=1).result == "skipped"
