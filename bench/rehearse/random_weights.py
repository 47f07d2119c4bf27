"""Random weights of published configurations, for weights that this machine doesn't have.

A checkpoint of timm has its configuration in timm; of transformers' the ones that the studies name
are written here, as their repositories have them.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lightning_bench.bench.run import initial_weights
from lightning_bench.bench.spec import WEIGHTS, RunSpec, Scalar
from lightning_bench.common.files import locked
from lightning_bench.data.errors import DataError
from lightning_bench.data.sources import repository
from lightning_bench.models.weights.load_weights import read_weights

#: Of repositories of encoders, what differs from transformers' BertConfig, which is BERT-base's.
BERT_CONFIGURATIONS: Mapping[str, Mapping[str, int]] = {
    "google-bert/bert-base-uncased": {},
    "google-bert/bert-large-uncased": {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
    "sentence-transformers/all-MiniLM-L6-v2": {
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
}


class NoConfiguration(Exception):
    """Nothing here says how the weights of this name are shaped."""


def arguments(spec: RunSpec, folder: Path) -> tuple[dict[str, Scalar], list[str]]:
    """The model's arguments with folders of weights that there are, and the names of random ones.

    `hf/OWNER/NAME` names its weights itself.
    """
    given, invented = dict(spec.model.args), []
    named = spec.model.name.partition("/")[2]
    if spec.model.name.startswith("hf/") and "/" in named and not given.get("weights"):
        given["weights"] = named
    for argument in sorted(WEIGHTS & given.keys()):
        name = str(given[argument])
        if given[argument] is None or Path(name).is_dir():
            continue
        found = repository.locate(name, repository.WEIGHTS, kind="model")
        if found is not None:
            given[argument] = str(found)
        else:
            given[argument] = str(_random_encoder(name, folder))
            invented.append(name)
    if given.get("pretrained") and spec.model.name.startswith("timm/"):
        given["pretrained"] = False
        invented.append(spec.model.name)
    return given, invented


def is_at_hand(name: str) -> bool:
    """Whether published weights are on this machine."""
    try:
        initial_weights.published(name)
    except DataError:
        return False
    return True


def state(name: str, device: str) -> dict[str, Tensor]:
    """The weights that are published under a name on a device, else random ones like them."""
    if is_at_hand(name):
        read = read_weights(initial_weights.published(name))
    else:
        read = _timm_model(name, device).state_dict()
    return {key: value.detach().to(device) for key, value in read.items()}


def save_random(name: str, folder: Path) -> Path:
    """The file of such weights, made once for all cases of a session."""
    import safetensors.torch

    path = folder / f"{name.replace('/', '--')}.safetensors"
    with locked(folder / f"{path.name}.lock"):
        if not path.is_file():
            made = {key: v.contiguous() for key, v in _timm_model(name, "cpu").state_dict().items()}
            beside = path.with_suffix(".part")
            safetensors.torch.save_file(made, beside)
            beside.replace(path)
    return path


def _timm_model(name: str, device: str) -> nn.Module:
    """The architecture of a checkpoint; some on the hub have tags that timm doesn't list."""
    import timm

    prefix, _, model = name.partition("/")
    architecture = model.partition(".")[0]
    if prefix != "timm" or not timm.is_model(architecture):
        raise NoConfiguration(f"the configuration of {name} is not at hand")
    listed = model in timm.list_pretrained()
    with torch.device(device):
        made: nn.Module = timm.create_model(model if listed else architecture, pretrained=False)
    return made


def _random_encoder(name: str, folder: Path) -> Path:
    """A folder with a configuration and random weights, as transformers reads it."""
    if name not in BERT_CONFIGURATIONS:
        raise NoConfiguration(f"the configuration of {name} is not at hand")
    from transformers import BertConfig, BertForMaskedLM

    logging.getLogger("transformers").setLevel(logging.ERROR)
    target = folder / name.replace("/", "--")
    with locked(folder / f"{target.name}.lock"):
        if not (target / "config.json").is_file():
            settings: dict[str, Any] = dict(BERT_CONFIGURATIONS[name])
            beside = target.with_suffix(".part")
            BertForMaskedLM(BertConfig(**settings)).save_pretrained(beside)
            beside.replace(target)
    return target
