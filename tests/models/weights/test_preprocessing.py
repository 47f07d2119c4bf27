"""The preprocessing of published weights, as their configurations state it."""

import json
from pathlib import Path

import pytest

from lightning_bench.models.weights.preprocessing import Preprocessing, known, of_timm, stated

HALF = (0.5, 0.5, 0.5)


def test_timm_s_weights_are_known_by_name() -> None:
    assert known("timm/mixer_b16_224.goog_in21k") == Preprocessing(HALF, HALF, "bicubic", 0.875)
    assert known("timm/resnetv2_50x1_bit.goog_in21k") == Preprocessing(
        HALF, HALF, "bilinear", 0.875
    )
    assert known("timm/no_such_model") is None
    assert known("someone/mixer_b16_224.goog_in21k") is None


@pytest.mark.slow
def test_what_is_kept_of_timm_is_what_timm_states() -> None:
    """Written anew by `python -m lightning_bench.models.weights.preprocessing`."""
    from lightning_bench.models.weights import preprocessing

    assert json.loads(json.dumps(of_timm())) == preprocessing._table()


CONFIGURATIONS = {
    "timm's": (
        "config.json",
        {"pretrained_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3, "crop_pct": 0.9}},
        Preprocessing(HALF, HALF, None, 0.9),
    ),
    "timm's of old": (
        "config.json",
        {"mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bilinear"},
        Preprocessing(HALF, HALF, "bilinear", None),
    ),
    "transformers'": (
        "preprocessor_config.json",
        {
            "image_mean": [0.5] * 3,
            "image_std": [0.5] * 3,
            "resample": 3,
            "do_center_crop": True,
            "size": {"shortest_edge": 256},
            "crop_size": {"height": 224, "width": 224},
        },
        Preprocessing(HALF, HALF, "bicubic", 0.875),
    ),
    "of a text model": ("config.json", {"hidden_size": 3}, None),
}


@pytest.mark.parametrize("what", CONFIGURATIONS)
def test_a_configuration_beside_weights_is_read(what: str, tmp_path: Path) -> None:
    name, configuration, expected = CONFIGURATIONS[what]
    (tmp_path / name).write_text(json.dumps(configuration), encoding="utf-8")
    assert stated(tmp_path) == expected
