"""Parameter counts: exact where the documents' audits are, rounded where only a print is."""

from typing import Any

import pytest
import torch

from lightning_bench.models.registry.catalogue import entries, find
from lightning_bench.models.registry.counting import flops, parameters
from lightning_bench.models.registry.registry import create
from lightning_bench.reports.tables import published_pages

# From the audits of the published tables, and for ViT, ResNet and the others the counts of timm.
EXACT = {
    "mixer-s32": 19_104_624,
    "mixer-s16": 18_528_264,
    "mixer-b32": 60_293_428,
    "mixer-b16": 59_880_472,
    "mixer-l32": 206_939_264,
    "mixer-l16": 208_196_168,
    "gmlp-ti16": 5_867_328,
    "gmlp-s16": 19_422_656,
    "gmlp-b16": 73_075_392,
    "bert-6": 66_987_066,
    "bert-12": 109_514_298,
    "bert-24": 194_568_762,
    "bert-48": 364_677_690,
    "resnet-20": 269_722,  # 0.27 million in He et al., 2016
    "resnet-110": 1_727_962,  # 1.7 million there
}
IN_MILLIONS = {
    "mixer-h14": 432.4,  # 431 in print, which counts no head
    "gmlp-text-18": 58.8,
    "gmlp-text-36": 101.7,
    "gmlp-text-72": 187.5,
    "gmlp-text-144": 359.1,  # 357 in print
    "rcnn-96": 0.67,
    "rcnn-128": 1.19,
    "rcnn-160": 1.86,
    "mixer-small": 4.5,
    "resnet-152": 60.2,
    "efficientnet-b0": 5.3,
    "efficientnet-b7": 66.3,
    "efficientnet-l2": 480.3,
    "nfnet-f0": 71.5,
    # 527 in print; 524,954,484 in the authors' code, whose stem ends with 192 maps, not F4's 128.
    "nfnet-f4plus": 524.9,
    "bit-r152x4": 936.5,
    "halonet-h4": 19.1,
    "vit-h14": 632.0,
    "deit-b16": 86.6,
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_counts(name: str) -> None:
    assert find(name).parameters == EXACT[name]


@pytest.mark.parametrize("name", IN_MILLIONS)
def test_printed_counts(name: str) -> None:
    digits = 2 if name.startswith("rcnn") else 1
    assert round(find(name).parameters / 1e6, digits) == IN_MILLIONS[name]


def count(name: str, **arguments: Any) -> int:
    with torch.device("meta"):
        return parameters(create(name, **arguments))


@pytest.mark.parametrize(
    "name",
    ["mixer-b16", "gmlp-s16", "vit-s16", "vit-b32", "vit-l16", "vit-hybrid-b16", "vit-h14"],
)
def test_ours_has_as_many_parameters_as_timms(name: str) -> None:
    timms = {
        "mixer-b16": "mixer_b16_224",
        "gmlp-s16": "gmlp_s16_224",
        "vit-s16": "vit_small_patch16_224",
        "vit-b32": "vit_base_patch32_224",
        "vit-l16": "vit_large_patch16_224",
        "vit-hybrid-b16": "vit_base_r50_s16_224",
        "vit-h14": "vit_huge_patch14_224",
    }
    assert count(name) == count(f"timm/{timms[name]}")


@pytest.mark.parametrize("gate", ["linear", "additive", "multiplicative"])
def test_the_gates_without_a_split_are_92_million_with_2048_channels(gate: Any) -> None:
    assert round(count("gmlp-text-36", gate=gate, hidden=2048) / 1e6) == 92
    assert round(count("gmlp-text-36", gate=gate) / 1e6) == 130


def test_a_toeplitz_matrix_has_2s_minus_1_weights_instead_of_s_squared() -> None:
    saved = count("gmlp-text-18") - count("tmlp-text-18")
    assert saved == 18 * (128**2 - (2 * 128 - 1))


def test_the_tiny_attention_has_one_head_of_64() -> None:
    # Query, key and value of 64 from 512, and from 64 to the half of 3,072, with biases.
    added = count("amlp-text-18") - count("gmlp-text-18")
    assert added == 18 * ((512 + 1) * 3 * 64 + (64 + 1) * 1536)


def test_the_lectures_layers_at_200_pixels() -> None:
    def hidden(name: str) -> int:
        with torch.device("meta"):
            return parameters(create(name).hidden)

    assert hidden("fully-connected") == 16_000_000_000
    assert hidden("locally-connected") == 40_000_000
    assert hidden("weight-sharing") == 1_000


def test_lenet_reads_16_maps_of_6_by_6_at_32_pixels() -> None:
    assert create("lenet").hidden[0].in_features == 16 * 6 * 6


@pytest.mark.parametrize("name", ["mixer-s16", "gmlp-text-18", "lenet"])
def test_the_catalogue_holds_what_is_counted(name: str) -> None:
    assert entries()[name].parameters == count(name)


def test_flops_are_two_a_multiply_add() -> None:
    model = torch.nn.Linear(30, 40)
    assert flops(model, (torch.randn(5, 30),)) == 2 * 5 * 30 * 40


def test_flops_of_a_mixer_layer_are_those_of_its_four_products() -> None:
    # The course work counts 2 D_S S C and 2 D_C S C multiply-adds a layer.
    s, c, d_s, d_c = 196, 512, 256, 2048
    layers = 8 * 2 * (2 * d_s * s * c + 2 * d_c * s * c)
    ends = 2 * (196 * 16 * 16 * 3 * 512 + 512 * 1000)
    assert entries()["mixer-s16"].flops == layers + ends


def test_the_print_of_table_1_rounds_the_count_without_the_head() -> None:
    """All seven are right; the audit that every report prints says so, with these counts."""
    printed = published_pages.load("mixer-specifications")
    for row in printed.rows:
        name = f"mixer-{row.label.lower().replace('/', '')}"
        width = int(row.values["hidden_c"])
        without = find(name).parameters - 1000 * (width + 1)
        assert round(without / 1e6) == int(row.values["params_m"]), name
        assert f"{without:,}" in printed.audit["params_m"]
        assert f"{find(name).parameters:,}" in printed.audit["params_m"]
