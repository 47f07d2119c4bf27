"""What a study asks to be there before anything starts."""

import pytest

from lightning_bench.bench.study import inputs
from lightning_bench.bench.study.load import load

PAGE = """\
title: Sentences
question: What is asked for?
data: [{data}]
entries: {{One: {{model: {model}}}}}
seeds: 1
scales: {{smoke: {{}}}}
"""


@pytest.mark.parametrize(("sample", "asked"), [("true", False), ("false", True)])
def test_a_sample_does_without_the_further_tests_that_are_lacking(
    sample, asked, tmp_path, monkeypatch
) -> None:
    folder = tmp_path / "mirror/nyu-mll/glue/mnli"
    folder.mkdir(parents=True)
    for split in ("train", "validation_matched"):
        (folder / f"{split}-00000-of-00001.parquet").touch()
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "mirror"))
    page = tmp_path / "sentences.yaml"
    data = f"{{name: mnli, sample: {sample}}}"
    page.write_text(PAGE.format(data=data, model="bag"), encoding="utf-8")
    ((_, patterns),) = inputs.files(load(str(page)))
    assert any("mismatched" in pattern for pattern in patterns) is asked
    assert sum("train" in pattern or "_matched" in pattern for pattern in patterns) == 2


def test_shifted_tests_need_no_files_of_their_own(tmp_path) -> None:
    page = tmp_path / "shifted.yaml"
    data = "{name: cifar10, sample: true, shifts: 2}"
    page.write_text(PAGE.format(data=data, model="mlp"), encoding="utf-8")
    ((dataset, patterns),) = inputs.files(load(str(page)))
    assert set(patterns) == set(dataset.files.values())
