"""Rates of this host: measured once, in a process of their own, and kept."""

import subprocess
from pathlib import Path

import pytest

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.measure import host_rates


@pytest.mark.slow
def test_rates_are_measured_once_and_then_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    first = host_rates.host()
    # No processor that torch runs on is slower, and none is as fast with one thread.
    assert 1e9 < first.flops["fp32"] < 1e13
    assert 1e8 < first.convolution_flops["fp32"] < 1e13
    assert 1e8 < first.bytes_per_s < 1e13
    assert 1e-7 < first.launch_s < 1e-3
    # A step is longer than a kernel, an epoch than a step, and a run than an epoch.
    assert first.launch_s < first.step_s < first.epoch_s < first.start_s < 30

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(subprocess, "run", refuse)
    assert host_rates.host() == first
    both = host_rates.host(threads=2)
    assert both.flops["fp32"] == pytest.approx(1.8 * first.flops["fp32"])
    assert both.devices <= first.devices


def test_what_could_not_be_measured_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(host_rates, "_MODULE", "lightning_bench.no_such_module")
    with pytest.raises(UserError, match=r"the rates of this host could not be measured: .*no_such"):
        host_rates.host()
