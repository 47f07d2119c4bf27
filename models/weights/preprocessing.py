"""Preprocessing of published weights: mean, deviation, interpolation and crop of their images.

timm states it for each of its weights; `timm.json` keeps that for plans, which don't import timm.
`python -m lightning_bench.models.weights.preprocessing` writes the file. Other repositories state
it in a configuration beside their weights.
"""

import json
import math
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

_TABLE = Path(__file__).with_name("timm.json")
_OWNER = "timm/"
#: PIL's numbers, by which transformers names them.
_RESAMPLING = {2: "bilinear", 3: "bicubic"}


@dataclass(frozen=True)
class Preprocessing:
    """What was done to the images that a network was trained on; None where it isn't stated."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: Literal["bicubic", "bilinear"] | None = None
    crop: float | None = None  # the part of the shorter side that evaluation sees


def known(weights: str) -> Preprocessing | None:
    """What timm states of weights of its own, by `timm/NAME` or `timm/NAME.TAG`."""
    if not weights.startswith(_OWNER):
        return None
    place = _timm().get(weights.removeprefix(_OWNER))
    return _kinds()[place] if place is not None else None


def stated(folder: Path) -> Preprocessing | None:
    """What a configuration beside weights states: timm's `config.json`, or transformers'."""
    for name in ("config.json", "preprocessor_config.json"):
        if (folder / name).is_file():
            found = json.loads((folder / name).read_text(encoding="utf-8"))
            if (read := _read(found.get("pretrained_cfg", found))) is not None:
                return read
    return None


def _read(config: dict[str, Any]) -> Preprocessing | None:
    mean, std = (config.get(name, config.get(f"image_{name}")) for name in ("mean", "std"))
    if not mean or not std:
        return None
    interpolation = config.get("interpolation", _RESAMPLING.get(config.get("resample", -1)))
    whole, part = (config.get(name) for name in ("size", "crop_size"))
    crop = config.get("crop_pct")
    if crop is None and isinstance(whole, dict) and isinstance(part, dict):
        shorter = whole.get("shortest_edge")
        crop = part["height"] / shorter if shorter and config.get("do_center_crop") else None
    return Preprocessing(
        tuple(map(float, mean)),
        tuple(map(float, std)),
        interpolation if interpolation in {"bicubic", "bilinear"} else None,
        min(1.0, float(crop)) if crop else None,
    )


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_TABLE.read_text(encoding="utf-8"))
    return found


@cache
def _timm() -> dict[str, int]:
    return {name: place for place, kind in enumerate(_table()["kinds"]) for name in kind["names"]}


@cache
def _kinds() -> list[Preprocessing]:
    kinds = [kind["preprocessing"] for kind in _table()["kinds"]]
    return [
        Preprocessing(tuple(k["mean"]), tuple(k["std"]), k["interpolation"], k["crop"])
        for k in kinds
    ]


def of_timm() -> dict[str, Any]:
    """What timm states, with the names of the weights of which it does."""
    from timm.models import get_pretrained_cfg, list_models, list_pretrained

    kinds: dict[Preprocessing, list[str]] = {}
    for name in sorted({*list_pretrained(), *list_models()}):
        config = get_pretrained_cfg(name)
        if config is None or len(config.mean) != len(config.std):
            continue
        fields = {"mean": config.mean, "std": config.std, "crop_pct": config.crop_pct}
        if read := _read(fields | {"interpolation": config.interpolation}):
            kinds.setdefault(read, []).append(name)
    listed = sorted(kinds.items(), key=lambda kind: kind[1])
    return {"kinds": [{"preprocessing": asdict(p), "names": names} for p, names in listed]}


def as_text(preprocessing: Preprocessing) -> str:
    """In words, for reports and records."""
    values = (preprocessing.mean, preprocessing.std)
    mean, std = (
        " ".join(f"{v:.3g}" for v in (x[:1] if math.isclose(min(x), max(x)) else x)) for x in values
    )
    parts = [f"mean {mean}", f"std {std}", preprocessing.interpolation]
    parts.append(f"crop {preprocessing.crop:g}" if preprocessing.crop else None)
    return ", ".join(filter(None, parts))


if __name__ == "__main__":
    _TABLE.write_text(json.dumps(of_timm(), indent=0) + "\n", encoding="utf-8")
