"""What is used of wandb beyond what it promises to keep."""

from pathlib import Path

import pytest
import wandb

from lightning_bench.bench.tracking.compat import private_settings


def test_a_run_holds_nothing_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "--a-word-of-the-command-line"])
    run = wandb.init(project="p", dir=tmp_path, mode="offline", settings=private_settings())
    run.log({"loss": 1.0})
    run.finish()
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in files if path.name == "wandb-metadata.json"]
    (sent,) = [path.read_bytes() for path in files if path.suffix == ".wandb"]
    assert b"loss" in sent
    assert b"--a-word-of-the-command-line" not in sent
