"""What is used of wandb beyond what it promises to keep."""

from pathlib import Path

import pytest
import wandb

from lightning_bench.bench.tracking.compat import private_settings
from tests.commands import wait_for


def test_a_run_holds_nothing_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "--a-word-of-the-command-line"])
    run = wandb.init(project="p", dir=tmp_path, mode="offline", settings=private_settings())
    run.log({"loss": 1.0})
    run.finish()
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not [path for path in files if path.name == "wandb-metadata.json"]
    (transaction_log,) = [path for path in files if path.suffix == ".wandb"]
    # W&B's own process writes it, on a busy machine a moment after the run has finished.
    wait_for(lambda: b"loss" in transaction_log.read_bytes(), "what was logged")
    sent = transaction_log.read_bytes()
    assert b"--a-word-of-the-command-line" not in sent
