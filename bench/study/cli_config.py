"""A YAML of LightningCLI as an entry or as data: `cli: config.yaml` is what a page says itself.

Of its `model` and `data` sections the class and its arguments are taken, nested ones too, and of
`trainer` what a recipe has; what else would change a result is refused by its name.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lightning_bench.bench.study.page_errors import PageError
from lightning_bench.common.messages import first_line

#: What of a trainer is a recipe's.
_OF_RECIPE = {
    "max_epochs": "epochs",
    "max_steps": "steps",
    "gradient_clip_val": "clip_norm",
    "accumulate_grad_batches": "accumulate",
    "precision": "precision",
}
_PRECISIONS: dict[Any, str] = {
    **dict.fromkeys(("32", "32-true", 32), "fp32"),
    **dict.fromkeys(("bf16", "bf16-mixed"), "bf16"),
    **dict.fromkeys(("16", "16-mixed", 16), "fp16"),
}
#: What changes no result, or is the harness's to say, of every entry alike.
_IGNORED = {
    "accelerator", "strategy", "devices", "num_nodes", "logger", "benchmark", "deterministic",
    "enable_checkpointing", "enable_progress_bar", "enable_model_summary", "log_every_n_steps",
    "default_root_dir", "num_sanity_val_steps", "use_distributed_sampler", "profiler",
    "barebones", "inference_mode", "sync_batchnorm", "detect_anomaly",
}  # fmt: skip
_SECTIONS = {"model", "data", "trainer", "seed_everything", "ckpt_path"}


def expanded(page: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A page whose entries and data say themselves what the YAMLs that they name say."""
    found = dict(page)
    entries = page.get("entries")
    if isinstance(entries, Mapping):
        found["entries"] = {
            label: _entry(entry, folder, label)
            if isinstance(entry, Mapping) and "cli" in entry
            else entry
            for label, entry in entries.items()
        }
    data = page.get("data")
    if isinstance(data, list):
        found["data"] = [
            _data(each, folder, i) if isinstance(each, Mapping) and "cli" in each else each
            for i, each in enumerate(data)
        ]
    return found


def _entry(entry: Mapping[str, Any], folder: Path, label: str) -> dict[str, Any]:
    at = ("entries", label, "cli")
    config = _read(folder, entry["cli"], at)
    rest = {key: value for key, value in entry.items() if key != "cli"}
    name, args = _made_of(config, "model", str(entry.get("model", "")), at)
    recipe = {**_recipe(config.get("trainer") or {}, at), **(entry.get("recipe") or {})}
    rest |= {"model": name, "args": {**args, **(entry.get("args") or {})}}
    return rest | ({"recipe": recipe} if recipe else {})


def _data(data: Mapping[str, Any], folder: Path, place: int) -> dict[str, Any]:
    at = ("data", place, "cli")
    config = _read(folder, data["cli"], at)
    rest = {key: value for key, value in data.items() if key != "cli"}
    source, args = _made_of(config, "data", str(data.get("source", "")), at)
    return rest | {"source": source, "args": {**args, **(data.get("args") or {})}}


def _read(folder: Path, name: Any, at: tuple[str | int, ...]) -> dict[str, Any]:
    path = folder / str(name)
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError:
        raise PageError(at, f"there is no file {path}") from None
    except yaml.YAMLError as error:
        raise PageError(at, f"{name} is no YAML: {first_line(error)}") from None
    if not isinstance(config, dict):
        raise PageError(at, f"{name} is no mapping of model, data and trainer")
    # What `fit --print_config` writes may stand under the command.
    config = config["fit"] if isinstance(config.get("fit"), dict) else config
    for section in config:
        if section not in _SECTIONS:
            raise PageError(at, f"{name}: {section} is none of {', '.join(sorted(_SECTIONS))}, "
                            "and would not be what it is under LightningCLI")  # fmt: skip
    if config.get("ckpt_path"):
        raise PageError(at, f"{name}: ckpt_path would start from weights that nothing records")
    return config


def _made_of(
    config: Mapping[str, Any], section: str, name: str, at: tuple[str | int, ...]
) -> tuple[str, dict[str, Any]]:
    """The callable of a section as `module:Class`, and its arguments without those left out."""
    given = config.get(section)
    if given is None:
        raise PageError(at, f"it has no {section} section")
    args = given
    if isinstance(given, str):
        given = {"class_path": given}
    if "class_path" in given:
        module, _, kind = str(given["class_path"]).rpartition(".")
        if not module:
            raise PageError(at, f"{section}: {kind} is a class without its module")
        name, args = f"{module}:{kind}", given.get("init_args") or {}
    elif not name:
        key = "model" if section == "model" else "source"
        raise PageError(
            at, f"its {section} section has no class_path: say {key}: module:Class beside it"
        )
    return name, dict(args)


def _recipe(trainer: Mapping[str, Any], at: tuple[str | int, ...]) -> dict[str, Any]:
    """What a trainer's settings are in a recipe."""
    found: dict[str, Any] = {}
    for key, value in trainer.items():
        if value is None or key in _IGNORED or (key, value) in {("max_steps", -1)}:
            continue
        if key not in _OF_RECIPE:
            raise PageError(at, f"trainer.{key} would not have its effect here: leave it out")
        if key == "precision":
            if value not in _PRECISIONS:
                raise PageError(at, f"trainer.precision {value} is none of a recipe's")
            value = _PRECISIONS[value]
        elif key == "gradient_clip_val":
            value = float(value)
        found[_OF_RECIPE[key]] = value
    if "steps" in found:
        found.pop("epochs", None)
    return found
