"""A line that mentions a device and that no test runs is printed, unless it says why."""

import sys
from pathlib import Path

import pytest

from benchmarks import device_coverage
from tests.pretended_cuda.environment import ROOT, SITE

sys.path.append(str(SITE))
import device_lines

MODULE = """\
def of(device):
    if device == "cuda":
        return "a GPU"
    # not run: needs a Mac
    if device == "mps":
        return "another device"  # not run: needs one, too
    return device
"""


def test_what_was_not_run_is_counted_and_an_excuse_has_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/of.py").write_text(MODULE, encoding="utf-8")
    for module in (device_lines, device_coverage):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    folder = tmp_path / "lines"
    folder.mkdir()
    device_lines.prepare(folder)
    monkeypatch.setattr(sys, "argv", ["device_coverage", "--lines", str(folder), "none"])
    assert device_coverage.main() == 1
    *missed, total = capsys.readouterr().out.splitlines()
    assert missed == [
        "bench/of.py:1: def of(device):",
        'bench/of.py:2: if device == "cuda":',
        'bench/of.py:3: return "a GPU"',
        "bench/of.py:7: return device",
    ]
    assert total == "6 lines mention a device: 4 were not run without a reason, 2 say why"
    (folder / device_lines.MARKS).write_bytes(bytes([1, 1, 1, 0, 0, 1]))
    assert device_coverage.main() == 0
    told = "6 lines mention a device: 0 were not run without a reason, 2 say why"
    assert capsys.readouterr().out.splitlines() == [told]


def test_every_test_of_the_list_is_there() -> None:
    for test in device_coverage.tests():
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text("utf-8"), test
