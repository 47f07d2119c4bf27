"""Energy and the machine's state, on known work and on files made for it."""

from pathlib import Path

import pytest

from lightning_bench.bench.measure import energy, machine_state


def zone(folder: Path, name: str, energy_uj: int) -> Path:
    made = folder / name
    made.mkdir()
    (made / "energy_uj").write_text(f"{energy_uj}\n")
    (made / "max_energy_range_uj").write_text("262143328850\n")
    return made


def test_rapl_adds_up_packages_and_survives_a_full_counter(tmp_path: Path):
    first, second = zone(tmp_path, "intel-rapl:0", 262143328000), zone(tmp_path, "intel-rapl:1", 5)
    part = zone(tmp_path, "intel-rapl:0:0", 0)  # is in the package's sum already
    meter = energy.cpu_meter(tmp_path)
    assert meter is not None
    assert meter.source == "RAPL"
    (first / "energy_uj").write_text("2999149\n")  # 850 to the end, one step to zero
    (second / "energy_uj").write_text("1000005\n")
    (part / "energy_uj").write_text("900000\n")
    assert meter.read_j() == pytest.approx(3.0 + 1.0)


def test_without_a_counter_there_is_no_meter(tmp_path: Path):
    assert energy.cpu_meter(tmp_path) is None


def test_the_machine_tells_its_state():
    found = machine_state.observe()
    assert found.usable_cores >= 1
    assert found.available_bytes > 0
    before = machine_state.busy_s()
    sum(range(3_000_000))
    assert machine_state.busy_s() > before
