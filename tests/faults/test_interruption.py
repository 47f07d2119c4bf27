"""Ctrl-C and `kill`, to the whole process group, from the first imports on."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.commands import start
from tests.factory import study_page

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("after_s", [0.3, 1.0, 2.5, 6.0])
@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_is_one_line_and_leaves_nothing(
    how: signal.Signals, code: int, after_s: float, tmp_path: Path
) -> None:
    page = study_page(recipe={"epochs": 2000}, seeds=3)
    (tmp_path / "page.yaml").write_text(page, encoding="utf-8")
    process = start("run", "page.yaml", cwd=tmp_path)
    time.sleep(after_s)
    os.killpg(process.pid, how)
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, out + err
    assert "Traceback" not in out + err
    assert err == "bench: stopped\n" or "go on with" in out, out + err
    deadline = time.monotonic() + 10
    while left := list(_in_group(process.pid)):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def _in_group(group: int) -> Iterator[str]:
    """The processes of a group that have not ended."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of_group = path.read_text("utf-8", "replace").rpartition(")")[2].split()[:3]
            if int(of_group) == group and state != "Z":
                yield path.parent.name
