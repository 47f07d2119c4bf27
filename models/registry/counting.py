"""Facts about models that need torch: exact parameters, and FLOPs on the meta device."""

import argparse
import importlib.metadata
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import EntryPoint
from typing import Any

import torch
from torch import nn

from lightning_bench.common.files import write_atomically
from lightning_bench.common.messages import first_line
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import catalogue, timm_library, user_model
from lightning_bench.models.registry import flops as products
from lightning_bench.models.registry.arguments import Argument, missing
from lightning_bench.models.registry.data_arguments import facts_of
from lightning_bench.models.registry.example_inputs import example
from lightning_bench.models.registry.model_variant import Variant
from lightning_bench.models.registry.registry import create, look_up, variants, variants_of
from lightning_bench.models.registry.user_model import UserModel
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


def count_entry_point(point: EntryPoint) -> dict[str, Any]:
    """Count the variants that another package brings."""
    return {"variants": {name: describe_variant(v) for name, v in variants_of(point).items()}}


def describe(name: str) -> dict[str, Any]:
    """Count one model, or say in `error` why there is no such model."""
    try:
        found = look_up(name)
        if isinstance(found, UserModel):
            return describe_user_model(found)
        return describe_variant(found)
    except ModelError as error:
        return {"error": str(error)}


def count_one(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The parameters and FLOPs of a model with these arguments, or the `error` that it raises."""
    try:
        variant = look_up(name)
        if isinstance(variant, UserModel):
            return _count_user_model(variant, arguments)
        with torch.device("meta"):
            model = create(name, **arguments)
            inputs = example(variant, batch=1, **arguments)
        counted = {"parameters": parameters(model), **asdict(products.count(model, inputs))}
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
        "arguments": {name: _plain(argument) for name, argument in variant.arguments.items()},
        **costs,
        "module": variant.function.__module__,
    }


def describe_user_model(model: UserModel) -> dict[str, Any]:
    """What the catalogue keeps of a user's model, counted at its defaults where it has them all."""
    facts = {**describe_variant(model, counted=False), "form": model.form}
    if missing(model.arguments, {}):
        return facts
    try:
        made, inputs = user_model.at_defaults(model)
    except ModelError:  # a page gives it other arguments, and data
        return facts
    facts["parameters"] = parameters(made)
    if inputs is not None:
        with suppress(ModelError):
            facts["flops"] = flops(made, inputs)
    return facts


def _count_user_model(model: UserModel, arguments: dict[str, Any]) -> dict[str, Any]:
    """The counts of a user's model; `unfit` where it does not fit its data, or can't be made."""
    try:
        made, inputs = user_model.tried_out(model, arguments)
    except ModelError as error:
        return {"error": str(error), "unfit": True}
    counted: dict[str, Any] = {"parameters": parameters(made)}
    if package := user_model.lightning_package(type(made)):
        from lightning_bench.models.tasks import own_module  # which imports Lightning

        try:
            counted |= own_module.try_out(model.name, package, made, facts_of(arguments))
        except ModelError as error:
            return {"error": str(error), "unfit": True}
    try:
        products_of = products.count(made, inputs)
    except ModelError as error:
        return {**counted, "error": str(error)}
    except Exception as error:  # noqa: BLE001 -- a LightningModule need have no forward
        return {**counted, "error": f"the FLOPs can't be counted: {first_line(error)}"}
    return {**counted, **asdict(products_of)}


def _plain(argument: Argument) -> dict[str, Any]:
    """An argument as data; what only networks of users have is left out where there is none."""
    of_users = {"required", "fact"}
    return {k: v for k, v in asdict(argument).items() if v or k not in of_users}


def _shared_entry(prefix: str) -> dict[str, Any]:
    """Return the entry that all names of a library share, since all take the same arguments."""
    variant = timm_library.look_up(f"{prefix}/{timm_library.names(prefix)[0]}")
    return describe_variant(variant, counted=False)


def main() -> None:
    """Write the catalogue's facts of all variants, or print those that are asked for."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--print", action="store_true", help="print instead of writing the file")
    parser.add_argument("--count", metavar="JSON", help="print the counts of a list of models")
    parser.add_argument("--entry-point", nargs=2, help="print the facts of what it brings")
    parser.add_argument("--describe", nargs="+", metavar="NAME", help="print the facts of models")
    options = parser.parse_args()
    found: dict[str, Any]
    if options.count:
        wanted = json.loads(options.count)
        found = {"counts": [count_one(name, arguments) for name, arguments in wanted]}
    elif options.entry_point:
        name, value = options.entry_point
        found = count_entry_point(EntryPoint(name, value, catalogue.ENTRY_POINTS))
    elif options.describe:
        found = {"described": [describe(name) for name in options.describe]}
    else:
        found = {"digest": catalogue.digest(), **count()}
        if not options.print:
            text = json.dumps(found, indent=1, ensure_ascii=False)
            write_atomically(catalogue.COMMITTED, text + "\n")
            return
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main()
