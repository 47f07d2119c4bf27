"""Facts about models that need torch: exact parameters, and FLOPs on the meta device."""

import importlib.metadata
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import flops as products
from lightning_bench.models.registry import timm_library
from lightning_bench.models.registry.example_inputs import example
from lightning_bench.models.registry.model_variant import Variant
from lightning_bench.models.registry.registry import create, look_up, variants
from lightning_bench.models.tasks.layer_decay import blocks


def parameters(model: nn.Module) -> int:
    """Count the parameters of a model, tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters())


def flops(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> int:
    """Count the FLOPs of one forward pass: two a multiply-add, matrix products only."""
    return products.count(model, inputs).flops


def tokens(model: nn.Module, variant: Variant, arguments: Mapping[str, Any]) -> int | None:
    """The length of the sequences inside: tokens of a text, patches of an image."""
    if variant.kind == "text":
        length = arguments.get("length", variant.arguments["length"].default)
        return int(length) if isinstance(length, int) else None
    count = getattr(getattr(model, "patches", None), "count", None)
    return count if isinstance(count, int) else None


def count() -> dict[str, Any]:
    """Count every registered variant at its own input and head."""
    return {
        "variants": {name: describe_variant(variant) for name, variant in variants().items()},
        "libraries": {
            prefix: {
                "package": package,
                "version": importlib.metadata.version(package),
                "names": timm_library.names(prefix),
                "entry": _shared_entry(prefix),
            }
            for prefix, package in timm_library.PACKAGES.items()
        },
    }


def describe(name: str) -> dict[str, Any]:
    """Count one model, or say in `error` why there is no such model."""
    try:
        return describe_variant(look_up(name))
    except ModelError as error:
        return {"error": str(error)}


def count_one(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The parameters and FLOPs of a model with these arguments, or the `error` that it raises."""
    try:
        variant = look_up(name)
        with torch.device("meta"):
            model = create(name, **arguments)
            inputs = example(variant, batch=1, **arguments)
        counted = {"parameters": parameters(model), "flops": flops(model, inputs)}
    except ModelError as error:
        return {"error": str(error)}
    if (length := tokens(model, variant, arguments)) is not None:
        counted["tokens"] = length
    try:
        return {**counted, "layers": len(blocks(model)[1])}
    except ModelError:  # it has no layers that are alike
        return counted


def describe_variant(variant: Variant, counted: bool = True) -> dict[str, Any]:
    """Return what the catalogue keeps of a variant."""
    costs: dict[str, int | None] = {"parameters": None, "flops": None}
    if counted:
        with torch.device("meta"):
            model = variant.function()
            inputs = example(variant, batch=1)
        costs = {"parameters": parameters(model), "flops": flops(model, inputs)}
    return {
        "name": variant.name,
        "family": variant.family or variant.name,
        "depth": variant.depth,
        "title": variant.title,
        "kind": variant.kind,
        "summary": variant.summary,
        "arguments": {name: asdict(argument) for name, argument in variant.arguments.items()},
        **costs,
        "module": variant.function.__module__,
    }


def _shared_entry(prefix: str) -> dict[str, Any]:
    """Return the entry that all names of a library share, since all take the same arguments."""
    variant = timm_library.look_up(f"{prefix}/{timm_library.names(prefix)[0]}")
    return describe_variant(variant, counted=False)
