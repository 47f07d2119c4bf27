"""Counts: closed forms of our own architectures, and no product that counts as nothing."""

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from lightning_bench.bench.measure import model_counts
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import flops
from lightning_bench.models.registry.catalogue import entries
from lightning_bench.models.registry.registry import create

#: Of these modules the architectures are timm's and transformers'.
THEIRS = {"lightning_bench.models.bert", "lightning_bench.models.timm_convnets"}
#: Its stem is timm's ResNet.
NOT_OURS = {"vit-hybrid-b16"}


def patches(r, p, c):
    return (r // p) ** 2 * 3 * p * p * c


def mixer(p, c, depth, d_s, d_c, r=224, k=1000):
    s = (r // p) ** 2
    return patches(r, p, c) + depth * (2 * d_s * s * c + 2 * s * c * d_c) + c * k


def gmlp(c, h, s, depth, attention=0):
    tiny = 3 * s * c * attention + 2 * s * s * attention + s * attention * h // 2
    return depth * (s * c * h + s * s * h // 2 + s * (h // 2) * c + tiny)


def transformer(c, f, s, depth):
    return depth * (4 * s * c * c + 2 * s * s * c + 2 * s * c * f)


def vit(p, c, depth, r=224, k=1000):
    return patches(r, p, c) + transformer(c, 4 * c, (r // p) ** 2 + 1, depth) + c * k


def masked(c, s, words=30522):
    return s * c * c + s * c * words


def gmlp_image(c, h):
    return patches(224, 16, c) + gmlp(c, h, 196, 30) + c * 1000


def gmlp_text(depth, attention=0):
    return gmlp(512, 3072, 128, depth, attention) + masked(512, 128)


def resnet(layers, w=16):
    n = (layers - 2) // 6
    stages = 2 * n * 32**2 * 9 * w * w + 16**2 * 9 * (2 * w * w + (2 * n - 1) * 4 * w * w)
    stages += 8**2 * 9 * (8 * w * w + (2 * n - 1) * 16 * w * w)
    return 32**2 * 9 * 3 * w + stages + 4 * w * 10


def rcnn(w, steps=3):
    layers = 2 * (16**2 + 8**2) * (1 + steps) * 9 * w * w
    return 32**2 * 25 * 3 * w + layers + w * 10


VIT = {"ti": (192, 12), "s": (384, 12), "b": (768, 12), "l": (1024, 24), "h": (1280, 32)}
MIXER = {
    "s": (512, 8, 256, 2048),
    "b": (768, 12, 384, 3072),
    "l": (1024, 24, 512, 4096),
    "h": (1280, 32, 640, 5120),
}
#: Multiply-adds of one example, from the sizes that the papers print.
MULTIPLY_ADDS = {
    **{
        name: vit(int(name[-2:]), *VIT[name[4:-2]])
        for name in entries()
        if name.startswith("vit-") and name not in NOT_OURS
    },
    "vit": vit(16, 384, 12),
    "deit-b16": vit(16, 768, 12),
    **{
        name: mixer(int(name[-2:]), *MIXER[name[6]])
        for name in entries()
        if name.startswith("mixer-") and name != "mixer-small"
    },
    "mixer": mixer(16, *MIXER["s"]),
    "mixer-small": mixer(4, 256, 8, 256, 1024, r=32, k=10),
    "gmlp": gmlp_image(256, 1536),
    "gmlp-ti16": gmlp_image(128, 768),
    "gmlp-s16": gmlp_image(256, 1536),
    "gmlp-b16": gmlp_image(512, 3072),
    "gmlp-text": gmlp_text(18),
    **{f"gmlp-text-{depth}": gmlp_text(depth) for depth in (18, 36, 72, 144)},
    "tmlp-text-18": gmlp_text(18),
    "amlp-text-18": gmlp_text(18, attention=64),
    "transformer-text": transformer(512, 2048, 128, 6) + masked(512, 128),
    "lstm": 128 * 4 * 256 * (256 + 256) + 256 * 2,
    "bag": 2 * 256 * 512 + 256 * 2,
    "mlp": 3 * 32**2 * 512 + 512 * 512 + 512 * 10,
    "convnet": 32**2 * 9 * (3 * 32 + 32 * 32) + 32 * 10,
    "lenet": 30**2 * 9 * 6 + 13**2 * 9 * 6 * 16 + 576 * 120 + 120 * 84 + 84 * 10,
    **{f"resnet-{layers}": resnet(layers) for layers in (20, 32, 44, 56, 110)},
    "resnet-small": resnet(20),
    "rcnn": rcnn(96),
    **{f"rcnn-{width}": rcnn(width) for width in (96, 128, 160)},
    "fully-connected": 200**2 * 10 * 200**2 + 10 * 10,
    "locally-connected": 200**2 * 10 * 100 + 10 * 10,
    "weight-sharing": 200**2 * 10 * 100 + 10 * 10,
}


@pytest.mark.parametrize(
    "name", [n for n, e in entries().items() if e.module not in THEIRS and n not in NOT_OURS]
)
def test_flops_are_those_of_the_closed_form(name):
    assert entries()[name].flops == pytest.approx(2 * MULTIPLY_ADDS[name], rel=0.01)


@pytest.mark.parametrize("name", ["vit-s16", "transformer-text", "amlp-text-18", "bert-tiny"])
def test_attention_is_counted_with_and_without_weights(name):
    """On the meta device it falls apart into products, on a CPU it is one fused operation."""
    small = {"image_size": 32} if name.startswith("vit") else {"length": 16, "vocab_size": 100}
    found = model_counts.look_up(name)
    real = model_counts.count_model(
        create(name, **small), model_counts.example(found, 1, **small), found, small
    )
    on_meta = model_counts.count(name, small)
    # Fused attention puts out no S×S matrix.
    assert on_meta == real.model_copy(update={"activations": on_meta.activations})
    assert on_meta.activations > real.activations


@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(8, 16),
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        nn.MultiheadAttention(8, 2, batch_first=True),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_what_would_count_as_zero_is_an_error(layer):
    x = torch.randn(2, 5, 8)
    inputs = (x, x, x) if isinstance(layer, nn.MultiheadAttention) else (x,)
    with pytest.raises(ModelError, match="FLOPs can't be counted"):
        flops.count(layer, inputs)
    on_meta = tuple(each.to("meta") for each in inputs)
    assert flops.count(layer.to("meta"), on_meta).flops > 0


@pytest.mark.parametrize("name", ["gmlp-ti16", "resnet-20", "lstm", "efficientnet-b0"])
def test_the_sum_is_that_of_torchs_own_counter(name):
    with torch.device("meta"):
        model = create(name).eval()
        inputs = model_counts.example(model_counts.look_up(name), 1)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(*inputs)
    assert model_counts.count(name, {}).flops == counter.get_total_flops()


@pytest.mark.parametrize("name", ["mixer-s16", "vit-ti16", "gmlp-ti16", "resnet-20", "mlp"])
def test_training_is_three_forward_passes(name):
    """But for the first layer, whose input needs no gradient."""
    with torch.device("meta"):
        model = create(name)
        inputs = model_counts.example(model_counts.look_up(name), 2)
    with FlopCounterMode(display=False) as counter:
        model(*inputs).sum().backward()
    counted = model_counts.count(name, {})
    assert counted.flops_train == 3 * counted.flops
    share = counter.get_total_flops() / 2 / counted.flops_train
    assert 0.7 < share <= 1 if name == "mlp" else 0.97 < share <= 1


def test_tied_and_embedding_parameters():
    counted = model_counts.count("gmlp-text-18", {"vocab_size": 1000})
    table = 1000 * 512
    assert counted.parameters_untied - counted.parameters == table
    assert counted.embedding == table + 2 * 512  # and two segments
    assert counted.trainable == counted.parameters
    assert counted.tokens == 128


def test_patches_are_the_tokens_of_an_image():
    assert model_counts.count("mixer-s16", {"image_size": 64}).tokens == 16
    assert model_counts.count("lenet", {}).tokens is None


def test_activations_are_what_products_put_out():
    model = nn.Sequential(nn.Linear(3, 7), nn.ReLU(), nn.Linear(7, 2))
    counted = flops.count(model, (torch.ones(1, 3),))
    assert (counted.flops, counted.activations) == (2 * (21 + 14), 7 + 2)
    # The rectifier puts out seven more; to transpose a matrix puts out nothing new.
    assert (counted.outputs, counted.operations, counted.convolved) == (7 + 7 + 2, 3, 0)


def test_flops_of_convolutions_are_told_apart():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(16, 2))
    counted = flops.count(model, (torch.ones(1, 1, 4, 4),))
    assert (counted.convolved, counted.flops) == (2 * 9 * 16, 2 * 9 * 16 + 2 * 32)
