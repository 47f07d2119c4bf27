"""Whole studies by the installed command on GPUs that are none (see `tests.pretended_cuda`)."""

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertModel

from lightning_bench.bench.store.record import Record
from lightning_bench.bench.store.store import Store
from tests import commands
from tests.bench.search.test_search_commands import PRUNED
from tests.factory import study_page
from tests.pretended_cuda.environment import pretended, touched

pytestmark = pytest.mark.slow

RECIPE = {"epochs": 2, "batch_size": 60, "lr": 3e-3}
KIND = "NVIDIA Pretended 80GB"


class Host:
    """A folder with a study's page, on a host with so many pretended GPUs."""

    def __init__(self, folder: Path, page: str, **gpus: Any) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "page.yaml").write_text(page, encoding="utf-8")
        self.folder = folder
        self.environment = pretended(folder, watchdog_s=5.0, **gpus) | {"HF_HUB_OFFLINE": "1"}

    def bench(self, *words: str, code: int = 0) -> str:
        """Run `bench` to its end; what it printed."""
        done = commands.bench(*words, cwd=self.folder, env=self.environment, timeout_s=300)
        assert done.returncode == code, done.stdout + done.stderr + self.logs()
        return done.stdout + done.stderr

    def run(self, *options: str, code: int = 0) -> dict[str, Record]:
        """Run the study; its records by the model's name."""
        self.bench("run", "page.yaml", "--device", "cuda", *options, code=code)
        return self.records()

    def records(self) -> dict[str, Record]:
        attempts = Store(self.folder / "bench-store").scan().values()
        records = [attempt.record for attempt in attempts if attempt.record]
        return {record.spec.model.name.rpartition(":")[2]: record for record in records}

    def logs(self) -> str:
        """What its processes said, for a test that fails."""
        paths = sorted(self.folder.glob("bench-store/runs/*/log*.txt"))
        return "\n".join(f"--- {path}\n{path.read_text(encoding='utf-8')}" for path in paths)

    def kept(self) -> Mapping[str, bool]:
        """Which rules of `bench check` are kept."""
        done = commands.bench(
            "check", "page.yaml", "--format", "json", cwd=self.folder, env=self.environment
        )
        return {row["name"]: row["kept"] for row in json.loads(done.stdout)}


def test_every_precision_on_pairs_of_gpus_and_again(tmp_path: Path) -> None:
    entries = {
        "Scaled": {"model": "lenet", "recipe": {"precision": "fp16", "clip_norm": 1.0}},
        "Norm": {
            "model": "resnet-small",
            "args": {"layers": 8, "width": 4},
            "recipe": {"precision": "bf16", "accumulate": 2},
        },
        "Plain": {"model": "mlp", "args": {"width": 16}},
        # What it does in training has no deterministic form: it begins again, on both ranks.
        "Puts": {"model": "tests.bench.misbehaving:attends", "args": {"puts": True}},
    }
    host = Host(tmp_path, study_page(entries=entries, recipe=RECIPE), devices=4)
    records = host.run("--devices", "2")
    assert records.keys() == {"lenet", "resnet-small", "mlp", "attends"}
    assert "put_" in records["attends"].nondeterministic
    assert not records["lenet"].nondeterministic
    for record in records.values():
        assert (record.status, record.scored) == ("done", 359), record.failure
        made = record.provenance
        assert (made.device, made.devices, made.strategy) == ("cuda", 2, "ddp")
        assert record.cost is not None
        assert record.cost.peak_memory_bytes < 100_000_000  # tensors alone
    # Only workers and their ranks ask a card for anything.
    assert all("forkserver" in line or "spawn" in line for line in touched(tmp_path))
    assert len({record.provenance.environment for record in records.values()}) == 1
    page = (tmp_path / "bench-store/reports/page-smoke/report.md").read_text(encoding="utf-8")
    assert "runs differ in precisions" in page
    assert "not deterministic: " in page
    assert "environments" not in page
    assert f"2 × {KIND}" in page
    assert "GPU memory" in page
    assert host.kept()["hardware"]
    again = host.bench("reproduce", records["lenet"].key)
    assert f"{records['lenet'].key}: equal bit for bit" in again


def test_a_compiled_model_learns_what_it_learns_without(tmp_path: Path) -> None:
    """Torch's compiler asks CUDA for streams, Triton for its target; the kernels are the CPU's."""
    recipe = RECIPE | {"epochs": 1, "precision": "fp16", "clip_norm": 1.0}
    page = study_page(entries={"MLP": {"model": "mlp", "args": {"width": 16}}}, recipe=recipe)
    eager = Host(tmp_path / "eager", page).run()["mlp"]
    compiled = Host(tmp_path / "compiled", page).run("--compile")["mlp"]
    assert (compiled.status, compiled.attempt) == ("done", 1), compiled.failure
    assert compiled.provenance.compiled
    assert not eager.provenance.compiled
    assert compiled.provenance.device_kind == KIND
    assert compiled.curve[0].train_loss == pytest.approx(eager.curve[0].train_loss, rel=1e-2)


@pytest.mark.parametrize(("name", "devices"), [("Automatic", 1), ("Predicts", 2)])
def test_a_lightning_module_of_ones_own_trains_on_gpus(
    name: str, devices: int, tmp_path: Path
) -> None:
    entry: dict[str, Any] = {"model": f"tests.bench.own_modules:{name}"}
    if name == "Automatic":
        entry["metrics"] = {"val/acc": "accuracy"}
    page = study_page(entries={"Own": entry}, recipe={"epochs": 1, "batch_size": 60})
    host = Host(tmp_path, page, devices=2)
    host.environment["BENCH_CACHE"] = str(tmp_path / "cache")  # it is tried with a batch before
    record = host.run("--devices", str(devices))[name]
    assert (record.status, record.scored) == ("done", 359), record.failure
    made = record.provenance
    assert (made.device, made.devices, made.device_kind) == ("cuda", devices, KIND)
    assert record.metrics["accuracy"] > 0.5
    assert all("forkserver" in line or "spawn" in line for line in touched(tmp_path))


STAGED = study_page(
    stages={"first": {"data": "digits", "recipe": {"epochs": 1}}},
    entries={
        "Mixer": {
            "model": "mixer",
            "args": {"patch": 4, "width": 8, "depth": 2, "token_width": 8, "channel_width": 8},
            "start": "first",
        }
    },
    recipe=RECIPE | {"ema": 0.9, "precision": "bf16", "clip_norm": 1.0},
)


def test_a_sharded_model_starts_from_the_stage_before(tmp_path: Path) -> None:
    host = Host(tmp_path, STAGED, devices=2)
    host.run("--devices", "2", "--strategy", "fsdp")
    attempts = Store(tmp_path / "bench-store").scan().values()
    stage, child = sorted(
        (attempt.record for attempt in attempts if attempt.record), key=lambda r: bool(r.start)
    )
    assert stage.provenance.strategy == child.provenance.strategy == "fsdp"
    assert child.start is not None
    assert child.start.key == stage.key
    assert child.scored == 359


def test_the_ranks_read_one_cache_of_a_frozen_encoder(tmp_path: Path) -> None:
    torch.manual_seed(1)
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    encoder = tmp_path / "encoder"
    BertModel(BertConfig(vocab_size=200, intermediate_size=32, **sizes)).save_pretrained(encoder)
    args = {"encoder": str(encoder), "width": 16, "depth": 1, "hidden": 32}
    entries = {"Frozen": {"model": "gmlp-text", "args": args}}
    host = Host(
        tmp_path,
        study_page(data=["entailment"], entries=entries, recipe={"epochs": 1, "lr": 3e-3}),
        devices=2,
    )
    host.environment["BENCH_CACHE"] = str(tmp_path / "cache")
    (record,) = host.run("--devices", "2").values()
    assert record.status == "done"
    assert host.logs().count("the encoder's states of 7,800 texts") == 2
    assert len(list(tmp_path.glob("cache/data/entailment-states-*-*/states.npy"))) == 1


def test_a_search_prunes_a_trial_of_two_ranks(tmp_path: Path) -> None:
    host = Host(tmp_path, PRUNED, devices=2)
    host.run("--jobs", "1", "--devices", "2", "--set", "recipe.precision=fp16")
    attempts = Store(tmp_path / "bench-store").scan().values()
    records = [attempt.record for attempt in attempts if attempt.record]
    assert {(r.provenance.device, r.provenance.devices) for r in records} == {("cuda", 2)}
    trials = {r.spec.model.args.get("told", 5): r.status for r in records if not r.spec.tested}
    assert trials == {5: "done", 1: "pruned", 10: "done"}
    (final,) = [record for record in records if record.spec.tested]
    assert (final.status, final.scored) == ("done", 359)


def test_stopped_in_half_precision_it_goes_on_bit_for_bit(tmp_path: Path) -> None:
    slow = {"model": "tests.bench.misbehaving:slow", "recipe": {"precision": "fp16"}}
    page = study_page(
        entries={"Slow": slow}, recipe={"epochs": 4, "batch_size": 100, "clip_norm": 1.0}
    )
    calm = Host(tmp_path / "calm", page, devices=2).run("--devices", "2")["slow"]
    host = Host(tmp_path / "stopped", page, devices=2)
    words = ("run", "page.yaml", "--devices", "2")
    process = commands.start(*words, cwd=host.folder, env=host.environment)
    curves = host.folder.glob
    commands.wait_for(
        lambda: any(path.stat().st_size for path in curves("bench-store/runs/*/curve.jsonl")),
        "the first epoch",
    )
    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    record = host.run("--devices", "2")["slow"]
    assert record.resumed_from == [1]
    assert record.metrics == calm.metrics
    assert record.curve == calm.curve
    assert record.predictions == calm.predictions


def test_a_card_that_is_too_small_fails_the_runs_that_need_more_and_no_other(
    tmp_path: Path,
) -> None:
    entries = {
        "Wide": {"model": "mlp", "args": {"width": 4096}},  # 67 MB of weights
        "Second": {"model": "tests.bench.misbehaving:second_out_of_memory"},
        "Narrow": {"model": "lenet"},
    }
    host = Host(
        tmp_path, study_page(entries=entries, recipe=RECIPE), devices=2, capacity=50_000_000
    )
    records = host.run("--devices", "2", code=3)
    assert records["lenet"].status == "done"
    for name in ("mlp", "second_out_of_memory"):
        failure = records[name].failure
        assert failure is not None
        assert failure.kind == "out-of-memory", failure
        assert "CUDA out of memory" in failure.message
        assert records[name].attempt == 1  # it is the run's own, and is not tried again
    status = host.bench("status", "page.yaml")
    assert status.count("out-of-memory") == 2


def test_what_the_gpus_here_can_not_do_is_one_line(
    tmp_path: Path,
) -> None:
    host = Host(tmp_path, study_page(recipe={"precision": "fp16"}), devices=2)
    said = host.bench("run", "page.yaml", "--devices", "3", code=2)
    assert "--devices 3: there are 2 GPUs here" in said
    host.environment["CC"] = "no-such-compiler"
    said = host.bench("run", "page.yaml", "--device", "cuda", "--compile", code=2)
    assert "--compile: there is no C compiler no-such-compiler" in said
    host.environment["CUDA_VISIBLE_DEVICES"] = ""
    assert "precision fp16 needs a GPU" in host.bench("run", "page.yaml", code=2)
    assert "no GPU is visible" in host.bench("run", "page.yaml", "--device", "cuda", code=2)
    assert not (tmp_path / "bench-store").exists()
