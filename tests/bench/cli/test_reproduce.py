"""`bench reproduce`: carried out as recorded, unless options say otherwise, and refused early."""

from pathlib import Path
from typing import Any

import pytest

from lightning_bench.bench.cli.app import run
from lightning_bench.bench.store.store import Store
from tests.bench import processes
from tests.commands import bench
from tests.factory import PROVENANCE, record, spec

PRECISE = {"precision": "fp16"}


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run in fp16 whose record says two GPUs, on a host that has none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    store, of = Store(tmp_path / "bench-store"), spec(recipe=PRECISE)
    made = PROVENANCE.model_copy(update={"device": "cuda", "devices": 2, "strategy": "ddp"})
    with store.claim(of, 1) as folder:
        store.write_record(folder, record(of, provenance=made))
    return of.key


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "was trained on 2 × cuda: --device cuda: no GPU is visible here"),
        (["--device", "cpu", "--devices", "1"], "precision fp16 needs a GPU"),
        (["--device", "cpu", "--devices", "500"], "--devices 500: there "),
    ],
)
def test_what_this_host_can_not_do_is_one_line_before_anything_starts(
    options: list[str], says: str, key: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["reproduce", key, *options]) == 2
    captured: Any = capsys.readouterr()
    assert says in captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "bench-store/reproductions").exists()


def test_a_compiled_run_needs_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CXX", "no-such-compiler")
    store, of = Store(tmp_path / "bench-store"), spec()
    made = PROVENANCE.model_copy(update={"device": "cpu", "devices": 1, "compiled": True})
    with store.claim(of, 1) as folder:
        store.write_record(folder, record(of, provenance=made))
    assert run(["reproduce", of.key]) == 2
    assert "--compile: there is no C++ compiler no-such-compiler" in capsys.readouterr().err


@pytest.mark.slow
def test_two_ranks_are_two_ranks_again_unless_an_option_says_otherwise(tmp_path: Path) -> None:
    of = spec("lenet", recipe={"epochs": 1, "batch_size": 60, "lr": 3e-3})
    processes.run(processes.order(tmp_path / "bench-store", of, devices=2))
    as_recorded = bench("reproduce", of.key[:8], cwd=tmp_path)
    assert as_recorded.returncode == 0, as_recorded.stdout + as_recorded.stderr
    assert as_recorded.stdout == f"{of.key}: equal bit for bit\n"
    alone = bench("reproduce", of.key[:8], "--devices", "1", "--threads", "2", cwd=tmp_path)
    assert "  devices: 2 → 1\n  threads: 1 → 2\n" in alone.stdout, alone.stderr
    again = Store(tmp_path / "bench-store/reproductions").scan()[of.key].record
    assert again is not None
    assert (again.provenance.devices, again.provenance.threads) == (1, 2)
