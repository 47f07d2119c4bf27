"""Arguments of networks that the data decides, by the names that people give them.

A network of the user's own is filled by this list where the page gives nothing; a page that gives
the argument wins, and may name a fact itself: `args: {nc: "{classes}"}`.
"""

import re
from collections.abc import Mapping
from typing import Any

from lightning_bench.models.errors import ModelError

#: The names of arguments, by the fact of the data set that fills them.
NAMES: Mapping[str, tuple[str, ...]] = {
    "channels": (
        "channels", "in_channels", "in_chans", "in_channel", "input_channels", "num_channels",
        "n_channels", "num_input_channels", "image_channels", "img_channels",
    ),
    "image_size": ("image_size", "img_size", "image_dim", "img_dim", "input_resolution"),
    "classes": (
        "classes", "num_classes", "n_classes", "nb_classes", "num_class", "class_num",
        "class_count", "num_labels", "n_labels", "number_of_classes",
    ),
    "vocab_size": (
        "vocab_size", "vocabulary_size", "n_vocab", "num_vocab", "num_tokens", "n_tokens",
    ),
    "length": (
        "length", "max_len", "max_length", "max_seq_len", "max_seq_length", "seq_len", "seq_length",
        "context_length", "block_size", "max_position_embeddings",
    ),
}  # fmt: skip
_FACT_OF = {name: fact for fact, names in NAMES.items() for name in names}
_REFERENCE = re.compile(r"\{(\w+)\}")


def fact_of(argument: str) -> str:
    """The fact of the data set that fills an argument of this name; empty where none does."""
    return _FACT_OF.get(argument, "")


def facts_of(values: Mapping[str, Any]) -> dict[str, int]:
    """The facts among a model's values, and `inputs`: how many numbers one image is."""
    facts = {name: values[name] for name in NAMES if isinstance(values.get(name), int)}
    if {"channels", "image_size"} <= facts.keys():
        facts["inputs"] = facts["channels"] * facts["image_size"] ** 2
    return facts


def filled(value: Any, facts: Mapping[str, int]) -> Any:
    """The value, with each `{fact}` in it replaced by the data set's."""
    if isinstance(value, Mapping):
        return {key: filled(each, facts) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, facts) for each in value]
    reference = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if reference is None:
        return value
    if reference[1] not in facts:
        known = ", ".join(f"{{{name}}}" for name in facts)
        raise ModelError(f"there is no {value}: of its data, {known} are known")
    return facts[reference[1]]
