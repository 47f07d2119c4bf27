"""Which runs are one rehearsal case, and which training stands for others."""

from pathlib import Path

import pytest
import yaml

from lightning_bench.bench.rehearse.case import Case, cases_of
from lightning_bench.bench.study.load import load

PAGE = {
    "title": "Cases",
    "question": "Which runs are one?",
    "data": ["digits"],
    "entries": {"MLP": {"model": "mlp"}},
    "recipe": {"epochs": 3, "lr": 0.1},
    "seeds": 3,
    "scales": {"smoke": None},
}


def cases(tmp_path: Path, **changes: object) -> list[Case]:
    path = tmp_path / "page.yaml"
    path.write_text(yaml.safe_dump({**PAGE, **changes}, sort_keys=False), encoding="utf-8")
    return cases_of([(load(str(path)), "")])


def test_seeds_and_sizes_that_change_no_code_path_are_one_case(tmp_path: Path) -> None:
    entries = {
        "a": {"model": "mlp"},
        "b": {"model": "mlp", "recipe": {"lr": 1.0, "epochs": 9, "batch_size": 128}},
        "c": {"model": "mlp", "recipe": {"warmup": 0.1}},
        "d": {"model": "mlp", "recipe": {"warmup": 0.3}},
        "e": {"model": "mlp", "recipe": {"optimizer": "sgd"}},
        "f": {"model": "timm/resnet10t", "recipe": {"epochs": 0}, "weights": "timm/resnet10t"},
        "g": {"model": "mlp", "args": {"width": 8}},
    }
    found = cases(tmp_path, entries=entries)
    assert [[place.entry for place in case.places] for case in found] == [
        ["a", "b"], ["c", "d"], ["e"], ["f"], ["g"],
    ]  # fmt: skip


def test_of_cases_that_differ_in_their_data_alone_one_shows_the_training(tmp_path: Path) -> None:
    images = [{"name": name, "image_size": 32} for name in ("cifar10", "cifar100", "pets")]
    found = cases(tmp_path, data=[*images, "digits"])
    assert [case.shows_training for case in found] == [True, False, False, True]
    assert len({case.alike for case in found}) == 2


def test_a_stage_comes_before_what_starts_from_it(tmp_path: Path) -> None:
    found = cases(
        tmp_path,
        stages={"first": {"data": "digits"}, "then": {"data": "digits", "start": "first"}},
        entries={"MLP": {"model": "mlp", "start": "then"}, "LeNet": {"model": "lenet"}},
    )
    titles = [case.places[0].title for case in found]
    assert titles[:2] == ["first (MLP) on digits", "then (MLP) on digits"]
    assert [case.started_from for case in found] == [True, True, False, False]
    assert found[2].start == found[1].key
    assert found[1].start == found[0].key


def test_a_search_is_rehearsed_at_its_ends_at_a_draw_and_as_the_page_has_it(tmp_path: Path) -> None:
    search = {
        "trials": 4,
        "sampler": "random",
        "space": {
            "args.width": {"int": [8, 64], "log": True},
            "optimizer": {"choice": ["sgd", "adam", "adamw"]},
            "lr": {"float": [1e-4, 1.0], "log": True},
        },
    }
    found = cases(tmp_path, search=search, entries={"MLP": {"model": "mlp", "args": {"width": 16}}})
    by_part = {case.places[0].part: case.spec for case in found}
    assert by_part["first trial"].model.args == {"width": 16}
    assert by_part["lowest values"].model.args == {"width": 8}
    assert by_part["highest values"].model.args == {"width": 64}
    assert {spec.recipe.optimizer for spec in by_part.values()} == {"sgd", "adam", "adamw"}
    assert by_part["first trial"].tested
    assert not by_part["drawn values"].tested  # a trial never sees the test split


@pytest.mark.parametrize("scale", ["smoke", "full"])
def test_a_study_without_training_has_no_case(scale: str) -> None:
    assert cases_of([(load("mixer-specifications", scale), "")]) == []
