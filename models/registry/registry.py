"""The registry of named variants: a decorator to add a model or its sizes, a function to make it.

    @variant("Mixer-B/16")
    def mixer_b16(*, channels: int = 3, image_size: int = 224, classes: int = 1000) -> Mixer:
        ...

    model = create("mixer-b16", classes=10)

Every module of this package is read, so that a new model is one file; other packages register
theirs through the entry point group `lightning_bench.models`. A name may also be
`module:callable` or `path/to/file.py:callable` (any function or class that makes a network),
`timm/NAME` or `hf/NAME`.
Importing this module imports no torch; `variants` and `create` do.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

from lightning_bench.common.messages import nearest
from lightning_bench.models.errors import ModelError, UnknownModel
from lightning_bench.models.registry import arguments as signature
from lightning_bench.models.registry import user_code
from lightning_bench.models.registry.arguments import Value
from lightning_bench.models.registry.model_variant import Variant

if TYPE_CHECKING:
    from torch import nn

# Not models: `tasks` train them, and reading Lightning here would cost three seconds; `probes`
# measure them.
SKIPPED = {"lightning_bench.models.probes", "lightning_bench.models.tasks"}

P = ParamSpec("P")
M = TypeVar("M", bound="nn.Module")


#: What variants call their number of blocks or layers.
DEPTH_ARGUMENTS = {"depth", "layers"}
_registered: dict[str, Variant] = {}


def variant(
    title: str, *, family: str = "", depth: int | None = None
) -> Callable[[Callable[P, M]], Callable[P, M]]:
    """Register a function as the variant of its own name, underscores as dashes.

    Reports join the models of one `family` by lines over size, and those that have a `depth` by
    lines over depth: whoever differs in more than its size (in its depth) is of another family (has
    no depth). The family is the variant's own where none is named, the depth the default of the
    argument.
    """

    def register(function: Callable[P, M]) -> Callable[P, M]:
        name = function.__name__.replace("_", "-")
        arguments = signature.read_signature(function)
        _register(Variant(name, title, function, arguments, family or name, depth))
        return function

    return register


def size(
    general: "Callable[..., nn.Module]",
    name: str,
    title: str,
    summary: str,
    fixed: Mapping[str, Value],
    defaults: Mapping[str, Value] | None = None,
    *,
    family: str = "",
    depth: int | None = None,
) -> None:
    """Register a size of a general variant: these arguments are fixed, the others stay open.

    Open ones have the general variant's defaults, or these. So it is with the family.
    """
    own = defaults or {}
    known = next(v for v in _registered.values() if v.function is general)

    def make(**arguments: Value) -> "nn.Module":
        return general(**{**fixed, **own, **arguments})

    make.__doc__, make.__module__ = summary, general.__module__
    left = {
        key: replace(argument, default=own.get(key, argument.default))
        for key, argument in known.arguments.items()
        if key not in fixed
    }
    _register(Variant(name, title, make, left, family or known.family, depth))


def _register(new: Variant) -> None:
    known = _registered.get(new.name)
    if known and known.function.__module__ != new.function.__module__:
        raise ModelError(
            f"{new.name} is registered twice: by {known.function.__module__} "
            f"and by {new.function.__module__}"
        )
    for argument in DEPTH_ARGUMENTS & new.arguments.keys():
        new = replace(new, depth=cast("int | None", new.arguments[argument].default))
    _registered[new.name] = new


@cache
def variants() -> Mapping[str, Variant]:
    """Every variant of this package by name, sorted, after reading it."""
    package = importlib.import_module("lightning_bench.models")
    for module in pkgutil.walk_packages(package.__path__, "lightning_bench.models."):
        if not any(module.name.startswith(skipped) for skipped in SKIPPED):
            importlib.import_module(module.name)
    return dict(sorted(_registered.items()))


def variants_of(point: EntryPoint) -> Mapping[str, Variant]:
    """The variants that another package brings, after importing it.

    That may change what other models compute, if only by what it does to torch: so a process
    imports one such package, to make a model of it.
    """
    own = variants()
    found = point.load()
    registered = [known.function for known in _registered.values()]
    if not isinstance(found, ModuleType) and found not in registered:
        arguments = signature.read_signature(found)
        _register(Variant(point.name, point.name, found, arguments, point.name, None))
    return {name: known for name, known in _registered.items() if name not in own}


def create(name: str, **arguments: Value) -> "nn.Module":
    """Make the model of this name; arguments that are not given keep the variant's defaults."""
    found = look_up(name)
    if user_code.is_user_model(name):  # it is filled from the facts of the data among them
        return found.function(**arguments)
    return found.function(**signature.check(name, found.arguments, arguments))


def look_up(name: str) -> Variant:
    """Return the variant of this name, also of `timm/NAME`, `hf/NAME` and `module:function`."""
    if user_code.is_user_model(name):
        return _imported(name)
    if name.startswith(("timm/", "hf/")):
        from lightning_bench.models.registry import timm_library

        return timm_library.look_up(name)
    if name in variants():
        return variants()[name]
    from lightning_bench.models.registry import catalogue

    return variants_of(catalogue.entry_point_of(name))[name]


def _imported(name: str) -> Variant:
    """Import `module:function` or `path.py:function`."""
    module = user_code.import_module(name)
    attribute = name.rpartition(":")[2]
    if not hasattr(module, attribute):
        raise UnknownModel(
            f"{name}: {name.rpartition(':')[0]} has no {attribute!r}"
            f"{nearest(attribute, vars(module), most=1)}"
        )
    from lightning_bench.models.registry.user_model import user_model

    return user_model(name, getattr(module, attribute))
