"""Tests of tasks import modules of the user's as runs do."""

import pytest

from lightning_bench.models.registry import user_code
from lightning_bench.models.tasks import own_callable


@pytest.fixture(autouse=True)
def _import_as_runs_do() -> None:
    own_callable.import_with(user_code.import_module)
