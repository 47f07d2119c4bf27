"""A log's bound: its beginning and its end stay, and who prints notices nothing."""

from pathlib import Path

import pytest

from lightning_bench.common import bounded_log


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_log, "MOST_BYTES", 1000)
    monkeypatch.setattr(bounded_log, "KEPT_BYTES", 100)


def test_the_middle_of_a_long_log_is_cut(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with log.open("ab", buffering=0) as process:
        process.write(b"began\n" + b"a" * 1000)
        bounded_log.shorten(log)
        process.write(b"ended\n")
    text = log.read_text(encoding="utf-8")
    assert text.startswith("began\naaa")
    assert "MiB of this log are cut" in text
    assert text.endswith("ended\n")
    assert len(text) < 200


def test_a_short_log_stays(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_bytes(b"a" * 1000)
    bounded_log.shorten(log)
    assert log.read_bytes() == b"a" * 1000


def test_what_a_link_leads_to_is_not_cut(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"a" * 2000)
    log = tmp_path / "log.txt"
    log.symlink_to(other)
    bounded_log.shorten(log)
    assert other.stat().st_size == 2000
