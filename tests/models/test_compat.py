"""What `models.compat` takes of libraries beyond their documents is still there, and as it was."""

import inspect
import sys

import pytest
import timm
import torch
from torch import nn

from lightning_bench.models.compat import TorchDispatchMode, checkpoint_filter


def test_a_dispatch_mode_hears_of_every_operation_and_of_what_comes_out() -> None:
    heard: list[tuple[str, torch.Size]] = []

    class Listener(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            out = func(*args, **(kwargs or {}))
            heard.append((func.overloadpacket.__name__, out.shape))
            return out

    with torch.no_grad(), Listener():
        torch.relu(torch.ones(2, 3) @ torch.ones(3, 4))
    assert heard[-2:] == [("mm", (2, 4)), ("relu", (2, 4))]


# Of those whose positions it resizes, or whose names it changes.
@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "mixer_s32_224", "convnext_tiny"])
def test_timm_has_a_filter_of_checkpoints_for_each_architecture(name: str) -> None:
    model = timm.create_model(name)
    adapt = checkpoint_filter(model)
    assert adapt is sys.modules[type(model).__module__].checkpoint_filter_fn
    assert list(inspect.signature(adapt).parameters)[:2] == ["state_dict", "model"]
    state = model.state_dict()
    assert adapt(dict(state), model).keys() == state.keys()


def test_other_models_have_no_filter() -> None:
    assert checkpoint_filter(nn.Linear(1, 1)) is None


def test_timm_says_which_models_are_bound_to_an_image_size() -> None:
    bound = {
        name: timm.get_pretrained_cfg(name).fixed_input_size
        for name in ("vit_tiny_patch16_224", "mixer_s32_224", "resnet18")
    }
    assert bound == {"vit_tiny_patch16_224": True, "mixer_s32_224": True, "resnet18": False}
