"""Records of a check are compared only where they come from the devices that were asked for."""

import pytest

from lightning_bench.bench.device_check.context import demand_done
from tests.factory import record, spec


def test_a_run_that_was_elsewhere_is_compared_with_nothing() -> None:
    on_cpu = record(spec())
    demand_done({"A": on_cpu}, "cpu")
    with pytest.raises(RuntimeError, match="A ran on 1 × cpu, not 2 × cuda"):
        demand_done({"A": on_cpu}, "cuda", 2)
