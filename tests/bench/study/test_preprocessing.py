"""Published weights bring their own preprocessing, into the runs and into their keys."""

from typing import Any

import pytest
import yaml

from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.study.load import load

HALF = (0.5, 0.5, 0.5)


def runs(page, data: Any, **entries: Any) -> dict[str, RunSpec]:
    text = {"title": "t", "question": "q", "data": data, "seeds": 1, "entries": entries}
    text |= {"scales": {"smoke": {}}}
    if "B" in entries:
        stage = {"data": "cifar100", "weights": "timm/vit_base_patch16_224.augreg_in21k"}
        text |= {"stages": {"between": stage | {"recipe": {"epochs": 1}}}}
    study = load(page(yaml.safe_dump(text)))
    return {run.entry: run.spec for run in [*study.before(), *study.runs()]}


def test_weights_decide_how_images_are_normalised_whatever_the_study_says(page) -> None:
    weights = {"model": "mixer-b16", "weights": "timm/mixer_b16_224.goog_in21k"}
    for own in ({}, {"mean": [0.1, 0.2, 0.3], "std": [1.0, 1.0, 1.0]}):
        data = [{"name": "cifar10", "image_size": 224, **own}]
        found = runs(page, data, A=weights, plain={"model": "mixer-b16"})
        assert (found["A"].data.mean, found["A"].data.std) == (HALF, HALF)
        assert found["A"].data.crop is None  # who trains sees whole images
        assert found["plain"].data.mean == (tuple(own["mean"]) if own else None)


def test_keys_of_runs_without_weights_and_of_weights_that_want_the_same_stay(page) -> None:
    found = runs(page, ["cifar10"], plain={"model": "mlp"})
    assert found["plain"].canonical() == ('{"data":{"name":"cifar10"},"model":{"name":"mlp"}}')
    resnet = {"model": "resnet-50", "weights": "timm/resnet50.a1_in1k"}
    assert runs(page, ["imagenet1k"], A=resnet)["A"].data.model_fields_set == {"name"}


def test_what_is_only_scored_is_cropped_as_the_weights_are_and_in_their_interpolation(page) -> None:
    bit = {"model": "timm/resnetv2_50x1_bit", "weights": "timm/resnetv2_50x1_bit.goog_in21k"}
    trained = runs(page, ["imagenet1k"], A=bit)["A"].data
    assert (trained.interpolation, trained.mean, trained.crop) == ("bilinear", HALF, None)
    resnet = {"model": "resnet-50", "weights": "timm/resnet50.a1_in1k", "recipe": {"epochs": 0}}
    assert runs(page, ["imagenet1k"], A=resnet)["A"].data.crop == 0.95


@pytest.mark.parametrize("entry", ["between (B)", "B"])
def test_a_stage_hands_down_what_its_weights_want(page, entry: str) -> None:
    found = runs(page, [{"name": "cifar10"}], B={"model": "vit-b16", "start": "between"})
    assert found[entry].data.mean == HALF


def test_weights_that_a_model_of_timm_loads_itself_are_no_exception(page) -> None:
    loads = {"model": "timm/mixer_b16_224.goog_in21k", "args": {"pretrained": True}}
    assert runs(page, ["cifar10"], A=loads)["A"].data.mean == HALF
