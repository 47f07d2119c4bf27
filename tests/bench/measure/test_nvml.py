"""What NVML says of a GPU, and what is left out where it won't say."""

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from lightning_bench.bench.measure.nvml import GpuState, NvmlGpu


def card(**changes: Any) -> NvmlGpu:
    """A GPU behind pynvml's own names, with some of its answers changed."""
    heat = pynvml.nvmlClocksThrottleReasonHwThermalSlowdown
    answers: dict[str, Any] = {
        "nvmlDeviceGetTotalEnergyConsumption": 1500,
        "nvmlDeviceGetClockInfo": 1410,
        "nvmlDeviceGetCurrentClocksThrottleReasons": heat | pynvml.nvmlClocksThrottleReasonGpuIdle,
        "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=pid) for pid in (10, 11)],
        "nvmlDeviceGetMigMode": [pynvml.NVML_DEVICE_MIG_DISABLE] * 2,
    } | changes

    def answer(name: str) -> Any:
        def call(*_: object) -> Any:
            if isinstance(answers[name], Exception):
                raise answers[name]
            return answers[name]

        return call

    fake = SimpleNamespace(**vars(pynvml))
    for name in answers:
        setattr(fake, name, answer(name))
    return NvmlGpu(fake, None)


def refusal() -> Exception:
    refused: Exception = pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
    return refused


def test_it_counts_millijoules_and_tells_its_state() -> None:
    gpu = card()
    assert gpu.metered()
    assert gpu.read_j() == 1.5
    assert gpu.state() == GpuState(1410, ("heat",), frozenset({10, 11}))


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("nvmlDeviceGetClockInfo", GpuState(None, ("heat",), frozenset({10, 11}))),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", GpuState(1410, (), frozenset({10, 11}))),
        ("nvmlDeviceGetComputeRunningProcesses", GpuState(1410, ("heat",), None)),
        ("nvmlDeviceGetMigMode", GpuState(1410, ("heat",), frozenset({10, 11}))),
    ],
)
def test_one_query_without_permission_costs_that_fact_alone(query: str, left: GpuState) -> None:
    assert card(**{query: refusal()}).state() == left


def test_a_part_of_a_gpu_has_no_meter_and_its_neighbours_are_not_counted() -> None:
    instance = card(nvmlDeviceGetMigMode=[pynvml.NVML_DEVICE_MIG_ENABLE] * 2)
    assert not instance.metered()
    assert instance.state().processes is None
    assert not card(nvmlDeviceGetTotalEnergyConsumption=refusal()).metered()


def test_without_a_driver_there_is_none() -> None:
    assert NvmlGpu.of_uuid("no-such-gpu") is None
