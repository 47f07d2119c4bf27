"""Runs on two pretended GPUs by the installed script, where NCCL refuses and hangs as NCCL does."""

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightning_bench.bench.store import predictions
from lightning_bench.bench.store.record import Record
from lightning_bench.bench.store.store import Store
from tests import commands, factory
from tests.bench.processes import wait_until_left_alone
from tests.pretended_cuda.environment import pretended

pytestmark = pytest.mark.slow


def run(folder: Path, entries: dict[str, Any], *words: str, code: int = 0) -> dict[str, Record]:
    """Run a page's entries on two GPUs; the newest record of each model."""
    text = factory.study_page(
        entries=entries,
        recipe={"epochs": 2, "lr": 3e-3, "batch_size": 60},
        probes=["receptive-field"],
    )
    (folder / "page.yaml").write_text(text, encoding="utf-8")
    environment = commands.TESTS_IMPORTABLE | pretended(folder, 2, visible="0,1")
    done = commands.bench(
        "run", "page.yaml", "--device", "cuda", "--devices", "2", *words,
        cwd=folder, env=environment,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    attempts = Store(folder / "bench-store").scan().values()
    return {each.record.spec.model.name: each.record for each in attempts if each.record}


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (
            {
                "fp32": {"model": "mlp", "args": {"width": 16}, "recipe": {"ema": 0.5}},
                "fp16": {"model": "lenet", "recipe": {"precision": "fp16", "clip_norm": 1.0}},
                "bf16": {
                    "model": "resnet-small",
                    "args": {"layers": 8, "width": 4},
                    "recipe": {"precision": "bf16"},
                },
            },
            [],
        ),
        ({"sharded": {"model": "lenet"}}, ["--strategy", "fsdp"]),
    ],
    ids=["ddp", "fsdp"],
)
def test_results_are_gathered_while_the_model_is_on_its_gpu(
    entries: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    found = run(tmp_path, entries, *words)
    assert len(found) == len(entries)
    for record in found.values():
        assert (record.status, record.scored) == ("done", 359)
        assert record.provenance.device == "cuda"
        # The last probe saw the model after the last epoch.
        fields = {name: v for name, v in record.metrics.items() if name.startswith("field_")}
        assert fields == {name: record.curve[-1].metrics[name] for name in fields}
        # Each example's probabilities came from one GPU, once.
        assert record.probabilities
        folder = Store(tmp_path / "bench-store").folder(record.key, 1)
        kept = predictions.read_probabilities(folder, record.probabilities)["probabilities"]
        assert kept.shape == (359, 10)
        assert np.allclose(kept.astype(float).sum(axis=1), 1, atol=4e-3)


def test_one_rank_s_failure_is_recorded_though_nccl_would_hang(tmp_path: Path) -> None:
    expected = {
        "raises": ("code", "rank 1: RuntimeError: only here"),
        "killed": ("infrastructure", "rank 1 was killed by SIGKILL"),
    }
    models = {name: f"tests.bench.misbehaving:second_{name}" for name in expected}
    found = run(tmp_path, {name: {"model": model} for name, model in models.items()}, code=3)
    for name, (kind, says) in expected.items():
        record = found[models[name]]
        assert record.failure is not None
        assert record.failure.kind == kind
        assert record.failure.message.startswith(says)
        started, ended = map(datetime.fromisoformat, (record.started, record.ended))
        assert (ended - started).total_seconds() < 30, name
    wait_until_left_alone(tmp_path / "bench-store")
