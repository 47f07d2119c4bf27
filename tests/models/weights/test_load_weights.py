"""Starting from weights: all that fits is taken, the rest is new or an error of one line."""

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from lightning_bench.models.errors import ModelError
from lightning_bench.models.layers.position_embedding import resized
from lightning_bench.models.registry.registry import create
from lightning_bench.models.weights.load_weights import load_weights, read_weights
from tests.mirror import MODELS

VIT = {"channels": 1, "image_size": 8, "patch": 4, "width": 16, "depth": 2, "heads": 2}
TEXT = {"vocab_size": 60, "length": 8, "width": 8, "depth": 2, "hidden": 16}
BERT = {"vocab_size": 60, "length": 8, "width": 16, "depth": 1, "heads": 2, "hidden": 16}
MIXER = {"image_size": 8, "patch": 4, "width": 8, "depth": 2, "token_width": 8, "channel_width": 8}
GMLP = {"image_size": 8, "patch": 4, "width": 8, "depth": 2, "hidden": 16}


def pair(name: str, one: dict[str, Any], other: dict[str, Any], **shared: Any) -> Any:
    torch.manual_seed(0)
    return create(name, **shared, **one), create(name, **shared, **other)


@pytest.mark.parametrize("same", [True, False])
def test_the_head_is_new_where_the_outputs_mean_something_else(same: bool) -> None:
    before, after = pair("vit", {}, {}, **VIT, classes=3)
    head = after.head.weight.clone()
    started = load_weights(after, before.state_dict(), source="a", same_outputs=same)
    assert torch.equal(after.blocks[1].mlp.expand.weight, before.blocks[1].mlp.expand.weight)
    assert torch.equal(after.head.weight, before.head.weight if same else head)
    assert started.new == (() if same else ("head.weight", "head.bias"))
    assert started.fresh == (0 if same else 16 * 3 + 3)
    assert started.taken + started.fresh == sum(p.numel() for p in after.parameters())


def test_the_head_is_new_where_the_number_of_classes_differs() -> None:
    before, after = pair("vit", {"classes": 3}, {"classes": 4}, **VIT)
    assert load_weights(after, before.state_dict(), source="a").new == ("head.weight", "head.bias")


def test_positions_are_resized() -> None:
    before, after = create("vit", **VIT), create("vit", **{**VIT, "image_size": 16})
    assert load_weights(after, before.state_dict(), source="a").fresh == 0
    assert torch.equal(after.positions.weight, resized(before.positions.weight, 1 + 4**2, extra=1))


@pytest.mark.parametrize(("name", "settings"), [("mixer", MIXER), ("gmlp", GMLP)])
def test_spatial_matrices_of_another_size_are_an_error(name: str, settings: dict[str, Any]) -> None:
    before, after = create(name, **settings), create(name, **{**settings, "image_size": 16})
    with pytest.raises(ModelError, match="can't be resized") as caught:
        load_weights(after, before.state_dict(), source="a")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "settings"), [("gmlp-text", TEXT), ("bert", BERT)])
def test_a_classifier_starts_from_masked_words(name: str, settings: dict[str, Any]) -> None:
    before, after = pair(name, {"classes": 0}, {"classes": 2}, **settings)
    started = load_weights(after, before.state_dict(), source="a", same_outputs=False)
    tensors = dict(after.named_parameters())
    assert all("head" in key or "classifier" in key or "pooler" in key for key in started.new)
    for key, value in before.named_parameters():
        if key not in started.new and key in tensors:
            assert torch.equal(tensors[key], value), key
    assert started.taken > 5 * started.fresh


def test_bert_s_pooler_goes_from_pairs_to_classes() -> None:
    before, after = pair("bert", {"classes": 2}, {"classes": 2}, **BERT)
    started = load_weights(after, before.state_dict(), source="a", same_outputs=False)
    assert started.new == ("model.classifier.weight", "model.classifier.bias")


def test_statistics_of_batch_norms_are_taken() -> None:
    before, after = pair("resnet-20", {}, {}, image_size=16)
    before.stem[1].running_mean += 1
    load_weights(after, before.state_dict(), source="a")
    assert torch.equal(after.stem[1].running_mean, before.stem[1].running_mean)


def test_counters_of_batch_norms_are_nothing_in_common() -> None:
    before, after = pair("resnet-20", {"width": 16}, {"width": 8}, image_size=16)
    with pytest.raises(ModelError, match="no weights in common"):
        load_weights(after, before.state_dict(), source="a")


def test_another_architecture_is_an_error() -> None:
    with pytest.raises(ModelError, match=r"no weights in common .*is it the same architecture"):
        load_weights(create("vit", **VIT), create("lenet").state_dict(), source="a")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("mixer-s16", "mixer_s16_224"),
        ("gmlp-s16", "gmlp_s16_224"),
        ("vit-s16", "vit_small_patch16_224"),
    ],
)
def test_weights_of_timm_give_the_same_features(ours: str, theirs: str) -> None:
    import timm

    torch.manual_seed(0)
    source = timm.create_model(theirs, num_classes=7).eval()
    model = create(ours, classes=10).eval()
    started = load_weights(model, source.state_dict(), source=theirs)
    assert started.new == ("head.weight", "head.bias")
    model.head = torch.nn.Identity()
    images = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        expected = source.forward_head(source.forward_features(images), pre_logits=True)
        assert torch.allclose(model(images), expected, atol=1e-4)


def test_timm_s_own_models_resize_their_positions() -> None:
    before = create("timm/vit_tiny_patch16_224", image_size=32, classes=2)
    after = create("timm/vit_tiny_patch16_224", image_size=64, classes=2)
    assert load_weights(after, before.state_dict(), source="a").fresh == 0


def test_weights_are_read_from_safetensors_alone(tmp_path: Path) -> None:
    model = create("lenet")
    safetensors.torch.save_file(model.state_dict(), tmp_path / "weights.safetensors")
    assert read_weights(tmp_path / "weights.safetensors").keys() == model.state_dict().keys()
    with pytest.raises(ModelError, match=r"w.bin is no file of weights that can be read"):
        read_weights(tmp_path / "w.bin")


@pytest.mark.skipif(MODELS is None, reason="no mirror of models")
def test_a_published_mobilenet_is_taken_whole() -> None:
    path = MODELS / "mobilenetv2_100.tv_in1k" / "model.safetensors"
    if not path.exists():
        pytest.skip("the mirror has no mobilenetv2_100.tv_in1k")
    started = load_weights(
        create("timm/mobilenetv2_100", image_size=224), read_weights(path), source="it"
    )
    assert (started.taken, started.fresh) == (3_504_872, 0)
    pets = load_weights(
        create("timm/mobilenetv2_100", image_size=224, classes=37), read_weights(path), source="it"
    )
    assert pets.new == ("classifier.weight", "classifier.bias")
