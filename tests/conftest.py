"""What every room's tests share."""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "bench",
    deadline=None,  # the machines that run this are shared
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    derandomize="CI" in os.environ,
)
settings.load_profile("bench")


def pytest_sessionfinish() -> None:
    """Let go of what planning froze, which triton's bindings would call a leak."""
    gc.unfreeze()


@pytest.fixture
def page(tmp_path: Path):
    """Write a study page and return its path as the command line would be given it."""

    def write(text: str, name: str = "study.yaml") -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write
