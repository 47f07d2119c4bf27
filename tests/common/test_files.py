"""Atomic writes leave the old file or the new one; locks die with their holders."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lightning_bench.common import files
from lightning_bench.common.files import (
    is_locked,
    lock_at_once,
    locked,
    temporary_beside,
    write_atomically,
)


@pytest.mark.parametrize("durable", [True, False])
def test_a_written_file_is_whole_readable_and_alone(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "record.json"
    path.write_text("old")
    write_atomically(path, "new – with ü", durable=durable)
    assert path.read_text(encoding="utf-8") == "new – with ü"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text("old")

    def half() -> None:
        with temporary_beside(tmp_path) as (_, stream):
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_lock_is_seen_from_elsewhere_and_dies_with_a_killed_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import sys, time; from pathlib import Path\n"
        "from lightning_bench.common.files import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    assert not is_locked(path)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert is_locked(path)
        assert lock_at_once(path) is None
        holder.send_signal(signal.SIGKILL)
    assert not is_locked(path)
    with locked(path):
        assert is_locked(path)
    descriptor = lock_at_once(path)
    assert descriptor is not None
    os.close(descriptor)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content" * 1000)
    assert files.read_regular(tmp_path / "file") == b"content" * 1000
    with files.open_regular(tmp_path / "file") as stream:
        assert stream.read(7) == b"content"
    (tmp_path / "empty").write_bytes(b"")
    assert files.read_regular(tmp_path / "empty") == b""
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, says in (
        ("link", "A link, which is not followed"),
        ("folder", "Is a directory"),
        ("pipe", "Not a regular file"),
        ("nothing", "No such file"),
    ):
        with pytest.raises(OSError, match=says):
            files.read_regular(tmp_path / name)
        with pytest.raises(OSError, match=says):
            files.open_regular(tmp_path / name)
    with pytest.raises(OSError, match="File too large"):
        files.read_regular(tmp_path / "file", most_bytes=100)
