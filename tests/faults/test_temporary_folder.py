"""A temporary folder with a long path, as clusters make them, in which no socket has room."""

from pathlib import Path

import pytest

from tests.commands import bench
from tests.factory import study_page

pytestmark = pytest.mark.slow


def test_a_long_path_is_no_trouble_and_nothing_is_left_there(tmp_path: Path) -> None:
    temporary = tmp_path.joinpath(*["a-job-with-a-long-name"] * 6)
    temporary.mkdir(parents=True)
    page = study_page(entries={"A": {"model": "mlp"}}, recipe={"epochs": 1})
    (tmp_path / "page.yaml").write_text(page, encoding="utf-8")
    words = ("run", "page.yaml", "--devices", "2", "--track", "csv")
    done = bench(*words, cwd=tmp_path, env={"TMPDIR": str(temporary)})
    assert done.returncode == 0, done.stdout + done.stderr
    left = {path.name for path in temporary.iterdir()}
    assert not {name for name in left if not name.startswith("torchinductor_")}  # torch's cache
