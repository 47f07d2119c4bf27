"""What a study asks to be there before anything starts."""

import pytest

from lightning_bench.bench.study import inputs
from lightning_bench.bench.study.load import load
from tests.factory import study_page


@pytest.mark.parametrize(("sample", "asked"), [(True, False), (False, True)])
def test_a_sample_does_without_the_further_tests_that_are_lacking(
    sample, asked, page, tmp_path, monkeypatch
) -> None:
    folder = tmp_path / "mirror/nyu-mll/glue/mnli"
    folder.mkdir(parents=True)
    for split in ("train", "validation_matched"):
        (folder / f"{split}-00000-of-00001.parquet").touch()
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "mirror"))
    text = study_page(data=[{"name": "mnli", "sample": sample}], entries={"One": {"model": "bag"}})
    ((_, patterns),) = inputs.files(load(page(text)))
    assert any("mismatched" in pattern for pattern in patterns) is asked
    assert sum("train" in pattern or "_matched" in pattern for pattern in patterns) == 2


def test_shifted_tests_need_no_files_of_their_own(page) -> None:
    data = [{"name": "cifar10", "sample": True, "shifts": 2}]
    ((dataset, patterns),) = inputs.files(load(page(study_page(data=data))))
    assert set(patterns) == set(dataset.files.values())
