"""Every study rehearses at every scale, but for what is known to fail, by its number in the audit.

    nox -s rehearse

Data and weights that are not at hand are made up. One rehearsal of all of them, since many runs
share what is equal; a test for each study and scale reads its part.
"""

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import pytest

from lightning_bench import studies
from lightning_bench.bench.study.load import find, scales
from tests.commands import bench

pytestmark = pytest.mark.rehearsal

#: What fails as yet: the error's number in the audit, and study, scale and run as patterns. Whoever
#: mends one deletes its lines: a run that is named here and is sound fails the test.
KNOWN: Mapping[str, list[tuple[str, str, str]]] = {}
AT = [(name, scale) for name in studies.pages() for scale in scales(find(name))]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("rehearsal")
    done = bench("rehearse", "--all", "--format", "json", cwd=folder, timeout_s=5400)
    assert done.returncode in {0, 3}, done.stderr
    assert not any(folder.iterdir())
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


@pytest.mark.parametrize(("name", "scale"), AT)
def test_a_study_rehearses(name: str, scale: str, rows: list[dict[str, Any]]) -> None:
    mine = [row for row in rows if (row["study"], row["scale"]) == (name, scale)]
    failing = {_title(row): row["cause"] for row in mine if row["status"] == "fails"}
    unknown = {title: cause for title, cause in failing.items() if not _numbers(name, scale, title)}
    assert not unknown
    sound = [_title(row) for row in mine if row["status"] == "ok"]
    mended = {t: numbers for t in sound if (numbers := _numbers(name, scale, t))}
    assert not mended, "these work now: take them out of KNOWN"


def test_what_is_known_to_fail_is_a_run_of_a_study(rows: list[dict[str, Any]]) -> None:
    runs = [(row["study"], row["scale"], _title(row)) for row in rows]
    for number, patterns in KNOWN.items():
        for pattern in patterns:
            assert any(_matches(run, pattern) for run in runs), f"{number}: {pattern} is no run"


def _title(row: Mapping[str, Any]) -> str:
    return f"{row['entry']} on {row['dataset']}" + (f" ({row['part']})" if row["part"] else "")


def _numbers(*run: str) -> list[str]:
    """The errors by which a run is known to fail."""
    return [number for number, known in KNOWN.items() if any(_matches(run, p) for p in known)]


def _matches(run: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    return all(fnmatchcase(one, wanted) for one, wanted in zip(run, pattern, strict=True))
