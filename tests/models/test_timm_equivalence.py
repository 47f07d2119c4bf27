"""Our Mixer, gMLP and ViT with timm's weights against timm, outputs and gradients."""

from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import save_file

from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry.registry import create
from lightning_bench.models.weights.convert_timm import convert
from lightning_bench.models.weights.heads import head_modules
from lightning_bench.models.weights.load_weights import load_weights, read_weights

PAIRS = {
    "mixer-s32": "mixer_s32_224",
    "gmlp-ti16": "gmlp_ti16_224",
    "vit-ti16": "vit_tiny_patch16_224",
    "vit-s32": "vit_small_patch32_224",
}
SLOW_PAIRS = {
    "mixer-s16": "mixer_s16_224",
    "mixer-b16": "mixer_b16_224",
    "gmlp-s16": "gmlp_s16_224",
    "vit-b16": "vit_base_patch16_224",
    "vit-hybrid-b16": "vit_base_r50_s16_224",
    "deit-b16": "deit_base_patch16_224",
}


def disturbed(name: str) -> Any:
    """Make a model of timm with noise on its weights: fresh heads and tokens are zero."""
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=1000)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    return model.eval()


def compare(name: str, timms: str) -> None:
    theirs, ours = disturbed(timms), create(name)
    assert load_weights(ours, theirs.state_dict(), source=timms).new == ()
    ours.eval()
    x = torch.randn(1, 3, 224, 224)
    got, wanted = ours(x), theirs(x)
    assert wanted.abs().max() > 0.1
    torch.testing.assert_close(got, wanted, rtol=0, atol=1e-5)
    got.square().sum().backward()
    wanted.square().sum().backward()
    gradients = convert({key: value.grad for key, value in theirs.named_parameters()})
    largest = max(value.abs().max() for value in gradients.values())
    for key, value in gradients.items():
        mine = ours.get_parameter(key).grad
        # 1e-4 of the tensor's largest; some, like the keys' biases, are zero but for rounding.
        assert (mine - value).abs().max() <= 1e-4 * max(value.abs().max(), 1e-2 * largest), key


@pytest.mark.parametrize("name", PAIRS)
def test_same_outputs_and_gradients_as_timm(name: str) -> None:
    compare(name, PAIRS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW_PAIRS)
def test_same_outputs_and_gradients_as_timm_for_larger_models(name: str) -> None:
    compare(name, SLOW_PAIRS[name])


def test_a_checkpoint_file_of_timm_is_read(tmp_path: Path) -> None:
    theirs = disturbed("vit_tiny_patch16_224")
    save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    ours = create("vit-ti16").eval()
    load_weights(ours, read_weights(tmp_path / "model.safetensors"), source="it")
    x = torch.randn(1, 3, 224, 224)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)


def test_a_head_for_other_classes_is_left_fresh() -> None:
    theirs = disturbed("mixer_s32_224")
    ours = create("mixer-s32", classes=7)
    before = ours.head.weight.clone()
    assert load_weights(ours, theirs.state_dict(), source="it").new == ("head.weight", "head.bias")
    assert torch.equal(ours.head.weight, before)
    assert torch.equal(ours.norm.weight, theirs.norm.weight)


def test_a_missing_head_is_left_fresh() -> None:
    weights = {k: v for k, v in disturbed("mixer_s32_224").state_dict().items() if "head" not in k}
    assert load_weights(create("mixer-s32"), weights, source="it").new == (
        "head.weight",
        "head.bias",
    )


def test_weights_of_another_architecture_are_an_error() -> None:
    with pytest.raises(ModelError, match="is it the same architecture"):
        load_weights(
            create("mixer-s32"), disturbed("vit_tiny_patch16_224").state_dict(), source="it"
        )


def test_positions_of_another_image_size_are_resized() -> None:
    theirs = disturbed("vit_tiny_patch16_224")
    ours = create("vit-ti16", image_size=384)
    load_weights(ours, theirs.state_dict(), source="it")
    wanted = timm.layers.resample_abs_pos_embed(theirs.pos_embed, (24, 24))[0]
    torch.testing.assert_close(ours.positions.weight, wanted, rtol=1e-4, atol=1e-5)


def test_the_number_of_patches_of_mixer_cant_be_changed_and_the_error_says_why() -> None:
    weights = timm.create_model("mixer_s32_224").state_dict()
    with pytest.raises(ModelError, match="spatial matrices of Mixer and gMLP depend on S"):
        load_weights(create("mixer-s32", image_size=384), weights, source="it")


@pytest.mark.parametrize("name", ["timm/resnet18", "timm/vit_tiny_patch16_224"])
def test_models_of_timm_take_our_arguments(name: str) -> None:
    model = create(name, channels=1, image_size=64, classes=5, drop_path=0.1).eval()
    assert model(torch.randn(2, 1, 64, 64)).shape == (2, 5)
    assert head_modules(model)


def test_what_timm_cant_make_is_a_clear_error() -> None:
    with pytest.raises(ModelError, match=r"timm can't make resnet18\.no_such_weights"):
        create("timm/resnet18.no_such_weights")
