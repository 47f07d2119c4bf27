"""The line on what seeds vary, from the specs of a page's entries."""

from typing import Any

import pytest

from lightning_bench.bench.study import randomness
from lightning_bench.bench.study.load import load
from lightning_bench.reports.request import Request
from lightning_bench.reports.text import seeds_vary
from tests.factory import study_page
from tests.reports.tables.test_tuning import ledger

DROPOUT = {"A": {"model": "mlp"}, "B": {"model": "vit", "args": {"patch": 4, "dropout": 0.1}}}


def line(page: Any, searches: Any = (), **changes: Any) -> str:
    study = load(page(study_page(**changes)))
    metrics = {name: list(dataset.metrics) for name, dataset in study.datasets.items()}
    found = randomness.of_entries(study)
    request = Request(study=study, metrics=metrics, randomness=found, searches=list(searches))
    return seeds_vary.line(request)


BASE = "Seeds vary: initial weights, data order"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, f"{BASE}. The same for all: split, hyperparameters."),
        (
            {"recipe": {"crop": 1, "flip": True}},
            f"{BASE}, augmentation (crop and flip). The same for all: split, hyperparameters.",
        ),
        (
            {"entries": DROPOUT},
            f"{BASE}, dropout (B alone). The same for all: split, hyperparameters.",
        ),
        (
            {"data": [{"name": "digits", "shots": 5}]},
            f"{BASE}, few-shot draws. The same for all: split, hyperparameters.",
        ),
        (
            {"data": [{"name": "digits", "split": "seed"}]},
            f"{BASE}, split (test and validation). The same for all: hyperparameters.",
        ),
        (
            {"data": [{"name": "mnist", "split": "validation"}]},
            f"{BASE}, split (validation). The same for all: test split, hyperparameters.",
        ),
        (
            {"data": ["digits", {"name": "mnist", "split": "validation", "image_size": 8}]},
            f"{BASE}, split (validation of mnist). The same for all: split where nobody draws it,"
            " test split, hyperparameters.",
        ),
        (
            {"data": ["python-docs"], "entries": {"A": {"model": "bert-tiny"}}},
            f"{BASE}, augmentation (masks), dropout. The same for all: split, hyperparameters.",
        ),
        ({"seeds": []}, ""),
    ],
)
def test_the_line_names_what_the_specs_draw(page, changes: dict[str, Any], said: str) -> None:
    assert line(page, **changes) == said


def test_what_starts_from_trained_weights_draws_its_new_layers_alone(page) -> None:
    entries = {"A": {"model": "lenet", "start": "first"}, "B": {"model": "mlp"}}
    stages = {"first": {"data": {"name": "mnist", "image_size": 8}, "recipe": {"epochs": 1}}}
    said = line(page, entries=entries, stages=stages)
    assert said.startswith("Seeds vary: initial weights (new layers; not the same of every entry)")
    assert said.endswith("split, the weights they start from, hyperparameters.")


def test_one_search_is_the_same_for_all_and_a_repeated_one_is_not(page) -> None:
    one = line(page, [ledger()])
    assert one.endswith("The same for all: split, tuning.")
    six = line(page, [ledger(repeat=r, final_seed=r) for r in range(6)])
    assert six == (
        f"{BASE}, tuning (each seed has a search of its own). The same for all: split, space and"
        " budget of the searches."
    )
