"""`bench plan` of a study with a search: a line a search, with what it has spent."""

from pathlib import Path

import pytest

from lightning_bench.bench.cli.app import run
from tests.bench.search.test_tuner import tuned_page


def test_a_search_that_has_not_begun_has_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "page.yaml").write_text(tuned_page(), encoding="utf-8")
    assert run(["plan", "page.yaml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (head,) = [number for number, line in enumerate(lines) if line.startswith("search")]
    columns = ("search", "data", "trials", "done", "pruned", "failed", "device time", "state")
    assert lines[head].split() == " ".join(columns).split()
    assert lines[head + 1].startswith("MLP")
    assert "0 of 8" in lines[head + 1]
