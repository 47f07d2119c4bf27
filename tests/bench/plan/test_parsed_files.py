"""Parsed files of the package, kept until one of them changes."""

import os
from pathlib import Path

import pytest

from lightning_bench.bench.plan.parsed_files import Parsed, ParsedFiles

KNOWN = Parsed("0123456789ab", [(True, ("a", "b"))])


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "package" / "room"
    folder.mkdir(parents=True)
    (folder / "module.py").write_text("import torch\n", encoding="utf-8")
    return folder.parent


def parsed(package: Path, cache: Path, told: Parsed | None = None) -> Parsed | None:
    """What is known of the module in a new process; None where it had to be parsed."""
    files = ParsedFiles(package, cache)
    missing: list[bool] = []

    def parse() -> Parsed:
        missing.append(True)
        return told or KNOWN

    found = files.of(package / "room" / "module.py", parse)
    files.keep()
    return None if missing else found


def test_a_file_is_parsed_once(package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert parsed(package, cache) is None
    assert parsed(package, cache) == KNOWN


def test_whatever_changes_in_the_package_has_all_parsed_again(
    package: Path, tmp_path: Path
) -> None:
    cache, module = tmp_path / "cache", package / "room" / "module.py"
    parsed(package, cache)
    (package / "other.py").write_text("", encoding="utf-8")  # `from room import other` is one now
    assert parsed(package, cache) is None
    before = module.stat()
    module.write_text("import numpy\n", encoding="utf-8")  # as long
    os.utime(module, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert parsed(package, cache) is None
    (package / "other.py").unlink()
    assert parsed(package, cache) is None
    assert parsed(package, cache) == KNOWN


@pytest.mark.parametrize("content", [b"", b"[]", b'{"stamp": 1}', b"[" * 100_000, b"\xff"])
def test_a_damaged_cache_is_none(package: Path, tmp_path: Path, content: bytes) -> None:
    cache = tmp_path / "cache"
    parsed(package, cache)
    (cache / "parsed-files.json").write_bytes(content)
    assert parsed(package, cache) is None
    assert parsed(package, cache) == KNOWN


def test_a_cache_that_can_not_be_written_is_no_trouble(package: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"a file")
    assert parsed(package, tmp_path / "cache") is None
    assert parsed(package, tmp_path / "cache") is None
