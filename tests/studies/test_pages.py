"""Every named study is valid, planned at all its scales, and says what its reader needs."""

import pytest

import studies
from bench import study

SCALES = [(name, scale) for name, path in studies.pages().items() for scale in study.scales(path)]


@pytest.mark.parametrize(("name", "scale"), SCALES)
def test_every_scale_expands(name: str, scale: str) -> None:
    loaded = study.load(name, scale)
    runs = loaded.runs()
    assert {(run.entry, run.spec.seed) for run in runs} == {
        (entry, seed) for entry in loaded.entries for seed in loaded.seeds
    }
    assert {run.dataset for run in runs} == loaded.datasets().keys()


@pytest.mark.parametrize("name", studies.pages())
def test_every_page_opens_with_its_question_and_command(name: str) -> None:
    text = studies.pages()[name].read_text(encoding="utf-8")
    header = text[: text.index("\ntitle:")]
    assert all(line.startswith("#") for line in header.splitlines())
    assert study.load(name).question in header.replace("\n# ", " ")
    assert f"bench run {name}" in header
    assert "Expect" in header
