"""Every named study is valid, planned at all its scales, and says what its reader needs."""

import re
import time

import pytest

from lightning_bench import studies
from lightning_bench.bench.cli.options import make_plan
from lightning_bench.bench.store.store import Store
from lightning_bench.bench.study.load import load
from lightning_bench.bench.study.load import scales as scales_of
from lightning_bench.reports.tables.published_pages import for_study

SCALES = [(name, scale) for name, path in studies.pages().items() for scale in scales_of(path)]


def header(name: str) -> str:
    text = studies.pages()[name].read_text(encoding="utf-8")
    return text[: text.index("\ntitle:")]


def one_line(name: str) -> str:
    return header(name).replace("\n# ", " ").replace("\n#", "")


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_every_scale_expands(name: str, scale: str) -> None:
    loaded = load(name, scale)
    runs = loaded.runs()
    assert {(run.entry, run.spec.seed) for run in runs} >= {
        (entry, seed) for entry in loaded.entries for seed in loaded.seeds if not loaded.search
    }
    met = loaded.datasets.keys() if loaded.seeds and not loaded.search else set()
    assert {run.dataset for run in runs} == met


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_every_scale_is_planned_in_no_time(name: str, scale: str, tmp_path) -> None:
    loaded = load(name, scale)
    started = time.process_time()
    plan = make_plan(loaded, Store(tmp_path))
    assert time.process_time() - started < 2.0
    assert plan.counts()["missing"] == len(plan.all)


@pytest.mark.parametrize("name", studies.pages())
def test_every_page_opens_with_question_command_expectation_and_time(name: str) -> None:
    assert all(line.startswith("#") for line in header(name).splitlines())
    assert one_line(name).startswith(f"# {load(name).question}")
    assert f"bench run {name}" in header(name)
    assert "expect" in header(name).lower()
    assert re.search(r"second|minute|hour|day|week|month", header(name))


@pytest.mark.parametrize("name", studies.pages())
def test_a_page_has_three_scales_and_says_what_each_is(name: str) -> None:
    scales = scales_of(studies.pages()[name])
    assert scales == ["smoke", "small", "full"]
    if "at any scale" in one_line(name):
        return
    # By which command each is run, and then, apart from it, what it is.
    command = (
        f"bench run {name} [--scale {'|'.join(scales)}]      ({scales[0]} where none is named)"
    )
    assert command in header(name)
    assert set(re.findall(r"\b(smoke|small|full)\b", one_line(name).replace(command, ""))) >= set(
        scales
    )


def test_real_results_are_asked_for_by_their_scale() -> None:
    for name in filter(lambda each: each.startswith("cpu-"), studies.pages()):
        assert header(name).splitlines()[2].startswith(f"#   bench run {name} --scale full ")


@pytest.mark.parametrize("name", studies.pages())
def test_every_printed_row_is_an_entry_or_said_to_be_published_only(name: str) -> None:
    loaded = [load(name, scale) for scale in scales_of(studies.pages()[name])]
    entries = {entry.published for each in loaded for entry in each.entries.values()} - {""}
    printed = {row.label for each in loaded for row in for_study(each)}
    assert entries <= printed
    only = one_line(name).partition("Published only:")[2]
    assert [label for label in sorted(printed - entries) if label not in only] == []


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_printed_columns_stand_beside_columns_of_ours(name: str, scale: str) -> None:
    loaded = load(name, scale)
    ours = {f"{title}/{metric}" for title, of in loaded.datasets.items() for metric in of.metrics}
    ours |= {
        "parameters",
        "throughput",
        "core_days",
        *(f"average/{title}" for title in loaded.averages),
    }
    ours |= {f"{title}/{m}" for title, of in loaded.datasets.items() for m in of.reported}
    assert {ids for columns in loaded.published.values() for ids in columns.values()} <= ours
