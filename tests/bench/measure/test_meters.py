"""Memory, energy and the machine's state, on known work and on files made for it."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lightning_bench.bench.measure import energy, machine

MB = 1_000_000


def in_a_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_known_allocation_is_measured_within_five_per_cent():
    found = in_a_process(
        "from lightning_bench.common import memory\n"
        "before = memory.resident_bytes()\n"
        "assert memory.reset_peak()\n"
        "held = bytearray(300_000_000); held[::4096] = b'x' * len(held[::4096]); del held\n"
        "print(memory.peak_bytes() - before)"
    )
    assert int(found) == pytest.approx(300 * MB, rel=0.05)


def test_children_are_part_of_the_tree():
    found = in_a_process(
        "import subprocess, sys\n"
        "from lightning_bench.common import memory\n"
        "code = 'held = b\"x\" * 100_000_000; print(1, flush=True); input()'\n"
        "child = subprocess.Popen([sys.executable, '-c', code], stdin=-1, stdout=-1)\n"
        "child.stdout.readline()\n"
        "alone = memory._field(memory.tree()[0], 'VmRSS')\n"
        "print(memory.resident_bytes() - alone)\n"
        "child.kill(); child.wait()"
    )
    assert int(found) > 100 * MB


def test_too_much_is_an_error_and_nobody_is_killed():
    found = in_a_process(
        "from lightning_bench.common import memory\n"
        "memory.limit_to_available()\n"
        "try: held = bytearray(memory.available_bytes() * 2)\n"
        "except MemoryError: print('refused')"
    )
    assert found == "refused"


def zone(folder: Path, name: str, energy_uj: int) -> Path:
    made = folder / name
    made.mkdir()
    (made / "energy_uj").write_text(f"{energy_uj}\n")
    (made / "max_energy_range_uj").write_text("262143328850\n")
    return made


def test_rapl_adds_up_packages_and_survives_a_full_counter(tmp_path: Path):
    first, second = zone(tmp_path, "intel-rapl:0", 262143328000), zone(tmp_path, "intel-rapl:1", 5)
    part = zone(tmp_path, "intel-rapl:0:0", 0)  # is in the package's sum already
    meter = energy.of_cpu(tmp_path)
    assert meter is not None
    assert meter.source == "RAPL"
    (first / "energy_uj").write_text("2999149\n")  # 850 to the end, one step to zero
    (second / "energy_uj").write_text("1000005\n")
    (part / "energy_uj").write_text("900000\n")
    assert meter.read_j() == pytest.approx(3.0 + 1.0)


def test_without_a_counter_there_is_no_meter(tmp_path: Path):
    assert energy.of_cpu(tmp_path) is None


def test_nvml_counts_millijoules():
    nvml = SimpleNamespace(nvmlDeviceGetTotalEnergyConsumption=lambda handle: 1500 * handle)
    assert energy.Nvml(nvml, 2).read_j() == 3.0


def test_a_gpus_foreign_processes_are_those_that_are_not_ours():
    nvml = SimpleNamespace(
        NVML_CLOCK_SM=1,
        nvmlDeviceGetName=lambda _: "A GPU",
        nvmlDeviceGetClockInfo=lambda _, kind: 1410,
        nvmlDeviceGetComputeRunningProcesses=lambda _: [
            SimpleNamespace(pid=10),
            SimpleNamespace(pid=11),
        ],
    )
    found = machine._gpu(nvml, 0, frozenset({11}))
    assert (found.name, found.clock_mhz, found.foreign_processes) == ("A GPU", 1410, 1)


def test_the_machine_tells_its_state():
    found = machine.look(gpus=False)
    assert found.usable_cores >= 1
    assert found.available_bytes > 0
    before = machine.busy_s()
    sum(range(3_000_000))
    assert machine.busy_s() > before
