"""Provenance: complete, and without secrets."""

import sys
from pathlib import Path

import pytest

import lightning_bench
from lightning_bench.bench.store import provenance
from lightning_bench.bench.store.record import Gpu


def test_no_variable_gets_in_unless_it_is_known_to_be_harmless(monkeypatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "s3cret-1")
    monkeypatch.setenv("MY_TOKEN", "s3cret-2")
    kept = {
        "OMP_NUM_THREADS": "3",
        "NCCL_P2P_DISABLE": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "NVIDIA_TF32_OVERRIDE": "0",
    }
    for name, value in kept.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    text = provenance.environment([]).model_dump_json()
    assert "s3cret" not in text
    settings = provenance.environment([]).settings
    assert settings.items() >= kept.items()
    # Which GPUs a run has is the run's own: its neighbours' environment is the same.
    assert "CUDA_VISIBLE_DEVICES" not in settings


def test_a_run_on_gpus_says_which_and_of_what_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,3")
    given = {"sources": {}, "command": [], "environment": None, "devices": 2, "threads": 1}
    cards = [Gpu(name="NVIDIA T4"), Gpu(name="NVIDIA A10")]
    made = provenance.collect(**given, device="cuda", gpus=cards)
    assert (made.device_kind, made.visible_devices) == ("NVIDIA T4 + NVIDIA A10", "7,3")
    made = provenance.collect(**given, device="cuda", gpus=cards[:1] * 2)
    assert made.device_kind == "NVIDIA T4"
    assert provenance.collect(**given, device="cpu").visible_devices == ""


def test_a_cpus_environment_has_the_digest_that_it_always_had() -> None:
    dumped = provenance.environment([]).model_dump()
    assert not {"driver", "libraries"} & dumped.keys()
    found = provenance.environment(["NVIDIA T4"], driver="550", libraries={"cuda": "13.2"})
    assert {"driver", "libraries"} <= found.model_dump().keys()


@pytest.mark.parametrize(
    ("word", "kept"),
    [
        ("postgresql://ann:pa55@host/db", "postgresql://ann:***@host/db"),
        ("--storage=postgresql://a.b:p:q@h/d", "--storage=postgresql://a.b:***@h/d"),
        ("https://host:80/path", "https://host:80/path"),
        ("recipe.lr=1e-3", "recipe.lr=1e-3"),
    ],
)
def test_passwords_in_addresses_are_left_out(monkeypatch, word: str, kept: str) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", word])
    assert provenance.command_line() == ["bench", kept]


def test_the_machine_and_its_packages_are_named() -> None:
    found = provenance.environment(["A GPU"])
    assert found.gpus == ["A GPU"]
    assert found.cpu
    assert found.cores >= 1
    assert found.memory_bytes > 2**28
    assert {"torch", "pytorch-lightning", "numpy"} <= found.packages.keys()


def test_the_revision_is_that_of_the_source() -> None:
    commit, dirty = provenance.revision()
    if (Path(lightning_bench.__file__).parent.parent / ".git").exists():
        assert commit is not None
        assert len(commit) == 40
        assert dirty in {True, False}


def test_an_unpacked_archive_that_is_not_installed_has_no_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lightning_bench").mkdir()
    monkeypatch.setattr(lightning_bench, "__file__", str(tmp_path / "lightning_bench/__init__.py"))
    monkeypatch.setattr(sys, "path", [str(tmp_path)])  # where distributions are looked for
    provenance.revision.cache_clear()
    try:
        assert provenance.revision() == (None, None)
    finally:
        provenance.revision.cache_clear()
