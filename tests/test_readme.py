"""README says what is true: its commands are CI's, its links lead somewhere."""

import re
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

from lightning_bench import studies
from lightning_bench.bench.cli.app import app
from lightning_bench.bench.spec import Recipe
from lightning_bench.bench.study import ranking
from lightning_bench.bench.study.cluster import Cluster
from lightning_bench.bench.study.load import scales
from lightning_bench.bench.study.page import scalar
from lightning_bench.bench.study.search_settings import Search
from lightning_bench.bench.study.stages import NamedData
from lightning_bench.bench.study.study import Entry, Study
from lightning_bench.models.registry import catalogue as model_catalogue
from lightning_bench.models.registry.contract import check
from tests.bench.device_check.cpu_check import report

ROOT = Path(__file__).parents[1]
TEXT = {".py", ".md", ".yaml", ".toml", ".txt", ".html", ".tex", ".json", ".jinja"}
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_ci_calls_the_test_command_word_for_word() -> None:
    install, test = re.findall(r"^python3 -m venv .*$", README, flags=re.MULTILINE)[:2]
    assert install.endswith("bench run quickstart")
    assert test in (ROOT / ".ci/run").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = [t for t in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in t]
    assert all((ROOT / target).exists() for target in targets)


def test_every_command_is_listed() -> None:
    named = set(re.findall(r"^\| `bench ([a-z-]+)", README, flags=re.MULTILINE))
    assert named == {command.name for command in app.registered_commands}


def test_the_pages_in_it_are_of_a_study() -> None:
    pages = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    cluster, search, study, own, data, code = map(scalar, pages)
    assert [Recipe.model_validate(data["recipe"]).schedule] == ["trapezoid"]
    assert TypeAdapter(NamedData).validate_python(data["data"][0]).title == "Tickets"
    assert TypeAdapter(NamedData).validate_python(code["data"][0]).args == {"scale": 16}
    assert ranking.higher_is_better(data["metrics"])["my_metrics:cost"] is False
    assert all(Entry.model_validate(entry).model for entry in own["entries"].values())
    assert set(study) - {"scales"} <= set(Study.model_fields)
    assert Cluster.model_validate(cluster["cluster"]).devices(None) == 8
    assert Search.model_validate(search["search"]).trials == 16


def test_the_model_of_ones_own_in_it_keeps_the_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = re.search(r"```python\n(# models/mynet.py\n.*?)```", README, flags=re.DOTALL)
    assert code is not None
    (tmp_path / "mynet.py").write_text(code[1], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    results = list(check("mynet.py:MyNet"))
    assert [result.name for result in results if result.status == "failed"] == []
    assert sum(result.status == "passed" for result in results) >= 8


def test_no_registry_and_no_machine_is_named() -> None:
    rooms = [path for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "."]
    files = [path for room in rooms for path in room.rglob("*") if path.suffix in TEXT]
    loose = [*ROOT.iterdir(), ROOT / ".ci/run"]
    files += [path for path in loose if path.is_file() and path.name != ".git"]  # of a worktree
    own = Path(__file__)
    named = r"index-url|find-links|pypi\.org|/opt/|/root/|/work/"
    found = [
        str(path.relative_to(ROOT))
        for path in files
        if path != own
        and "bench-store" not in path.parts
        and re.search(named, path.read_text(encoding="utf-8", errors="ignore"))
    ]
    assert found == []


def test_the_table_of_models_is_what_bench_prints() -> None:
    table = re.search(r"<!-- models -->\n\n(.*?)\n<!-- /models -->", README, flags=re.DOTALL)
    assert table is not None
    assert table[1] == model_catalogue.markdown_table()


def test_the_table_of_devices_has_the_columns_of_a_report() -> None:
    table = re.search(r"<!-- devices -->\n\n(.*?)\n\n<!-- /devices -->", README, flags=re.DOTALL)
    assert table is not None
    lines = table[1].splitlines()
    assert len(lines) >= 3
    assert {line.count("|") for line in lines} == {report("ok").markdown_row().count("|")}


def test_the_table_of_studies_is_that_of_the_pages() -> None:
    table = re.search(r"<!-- studies -->\n\n(.*?)\n\n<!-- /studies -->", README, flags=re.DOTALL)
    assert table is not None
    rows = [
        f"| `{name}` | {yaml.safe_load(path.read_text())['question']} | {', '.join(scales(path))} |"
        for name, path in studies.pages().items()
    ]
    assert table[1].splitlines()[2:] == rows
