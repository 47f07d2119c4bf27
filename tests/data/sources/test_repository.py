"""Files of a hub repository: in the mirror, in the Hugging Face cache, or said to be missing."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lightning_bench.data.catalogue import find
from lightning_bench.data.errors import DataError
from lightning_bench.data.modules.image_data import ImageData
from lightning_bench.data.modules.text_data import TextData
from lightning_bench.data.sources import repository

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def cached(hub: Path, *names: str) -> Path:
    """A snapshot in the layout that huggingface_hub documents."""
    folder = hub / "datasets--uoft-cs--cifar10"
    snapshot = folder / "snapshots" / COMMIT
    for name in names:
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).write_bytes(b"")
    (folder / "refs").mkdir()
    (folder / "refs/main").write_text(COMMIT, encoding="ascii")
    return snapshot


@pytest.fixture
def hub(tmp_path: Path, no_mirror: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Hugging Face cache; the library reads the environment when it is imported."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.mark.parametrize("revision", [None, COMMIT])
def test_a_snapshot_is_found_and_tells_its_commit(hub: Path, revision: str | None) -> None:
    snapshot = cached(hub, "plain_text/train-0.parquet", "plain_text/test-0.parquet")
    name, patterns = "uoft-cs/cifar10", ["plain_text/test-*"]
    assert repository.locate(name, patterns, revision=revision) == snapshot
    (file,) = repository.files(name, patterns, revision=revision)
    assert file == snapshot / "plain_text/test-0.parquet"
    assert repository.commit(name, patterns, revision=revision) == COMMIT


def test_a_snapshot_without_all_files_or_of_another_commit_is_none(hub: Path) -> None:
    cached(hub, "plain_text/train-0.parquet")
    assert repository.locate("uoft-cs/cifar10", ["plain_text/train-*", "*/test-*"]) is None
    assert repository.locate("uoft-cs/cifar10", ["*/train-*"], revision="f" * 40) is None
    assert repository.locate("uoft-cs/cifar100", ["*/train-*"]) is None
    assert repository.locate("no name of a repository", ["*/train-*"]) is None


def test_a_mirror_goes_first_and_has_no_commit(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached(hub, "plain_text/train-0.parquet")
    mirrored = tmp_path / "mirror/uoft-cs/cifar10/plain_text/train-0.parquet"
    mirrored.parent.mkdir(parents=True)
    mirrored.write_bytes(b"")
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "mirror"))
    assert repository.files("uoft-cs/cifar10", ["*/train-*"]) == [mirrored]
    assert repository.commit("uoft-cs/cifar10", ["*/train-*"]) == ""


@pytest.mark.parametrize(
    ("variable", "folder"),
    [("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")],
)
def test_the_cache_is_where_the_library_keeps_it(
    variable: str, folder: str, tmp_path: Path
) -> None:
    snapshot = cached(tmp_path / folder, "plain_text/train-0.parquet")
    code = (
        "from lightning_bench.data.sources import repository as r;"
        "print(r.locate('uoft-cs/cifar10', ['*/train-*']))"
    )
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "BENCH_", "XDG_"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=kept | {variable: str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()) == snapshot


def test_what_is_missing_offline_is_said_within_five_seconds(
    no_mirror: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", "http://192.0.2.1")  # an address that nobody has
    with pytest.raises(DataError, match="bench prepare"):
        repository.demand("uoft-cs/cifar10", ["plain_text/*"])
    for module, name in ((ImageData, "cifar10"), (TextData, "sst2")):
        started = time.monotonic()
        with pytest.raises(DataError) as caught:
            module(name, batch_size=2, seed=0).setup()
        assert time.monotonic() - started < 5
        for part in (find(name).repository, "bench prepare", "BENCH_DATA"):
            assert part in str(caught.value)
        assert "\n" not in str(caught.value)
