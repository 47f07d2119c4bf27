"""The real data and weights that tests of this room use, and a cache of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mirror import DATA, MODELS


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is read from, or left in, the cache of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("huggingface")))
        patch.setenv("HF_HUB_OFFLINE", "1")
        for variable in ("BENCH_DATA", "BENCH_MODELS", "HF_HUB_CACHE"):
            patch.delenv(variable, raising=False)
        yield


@pytest.fixture
def no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has neither data nor models."""
    for variable in ("BENCH_DATA", "BENCH_MODELS"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(scope="session")
def mirror() -> Iterator[Path]:
    """The mirror of real data repositories."""
    if DATA is None:
        pytest.skip("no data mirror: set BENCH_DATA")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_DATA", str(DATA))
        yield DATA


@pytest.fixture(scope="session")
def weights() -> Iterator[Path]:
    """The mirror of real models, and of the tokenisers with them."""
    if MODELS is None:
        pytest.skip("no mirror of models: set BENCH_MODELS")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_MODELS", str(MODELS))
        yield MODELS
