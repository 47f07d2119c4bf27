"""The registry of named variants: one decorator to add a model, one function to make it.

    @variant("Mixer-B/16")
    def mixer_b16(*, channels: int = 3, image_size: int = 224, classes: int = 1000) -> Mixer:
        ...

    model = create("mixer-b16", classes=10)

Every module of this package is read, so that a new model is one file; other packages register
theirs through the entry point group `lightning_bench.models`. A name may also be
`module:function` or `path/to/file.py:function` (any function with the same kind of arguments),
`timm/NAME` or `hf/NAME`.
Importing this module imports no torch; `variants` and `create` do.
"""

import importlib
import importlib.metadata
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
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

ENTRY_POINTS = "lightning_bench.models"
# Not models: `tasks` train them, and reading Lightning here would cost three seconds; `probes`
# measure them.
SKIPPED = {"lightning_bench.models.probes", "lightning_bench.models.tasks"}

P = ParamSpec("P")
M = TypeVar("M", bound="nn.Module")


#: What variants call their number of blocks or layers.
DEPTH_ARGUMENTS = {"depth", "layers"}
_registered: dict[str, Variant] = {}


def variant(
    title: str,
    of: "Callable[..., nn.Module] | None" = None,
    *,
    family: str = "",
    depth: int | None = None,
) -> Callable[[Callable[P, M]], Callable[P, M]]:
    """Register a function as the variant of its own name, underscores as dashes.

    `of` is the general variant that receives the function's `**options`. Reports join the models
    of one `family` by lines over size, and those that have a `depth` by lines over depth: whoever
    differs in more than its size (in its depth) is of another family (has no depth). The family is
    that of the general variant where none is named, the depth the default of the argument.
    """

    def register(function: Callable[P, M]) -> Callable[P, M]:
        _register(function, function.__name__.replace("_", "-"), title, of, family, depth)
        return function

    return register


def _register(
    function: "Callable[..., nn.Module]",
    name: str,
    title: str,
    of: "Callable[..., nn.Module] | None" = None,
    family: str = "",
    depth: int | None = None,
) -> None:
    base = signature.read_signature(of) if of else None
    arguments = signature.read_signature(function, base)
    if not family:
        family = next((v.family for v in _registered.values() if v.function is of), name)
    for argument in DEPTH_ARGUMENTS & arguments.keys():
        depth = cast("int | None", arguments[argument].default)
    known = _registered.get(name)
    if known and known.function.__module__ != function.__module__:
        raise ModelError(
            f"{name} is registered twice: by {known.function.__module__} "
            f"and by {function.__module__}"
        )
    _registered[name] = Variant(name, title, function, arguments, family, depth)


@cache
def variants() -> Mapping[str, Variant]:
    """Every registered variant by name, sorted, after reading this package and entry points."""
    package = importlib.import_module("lightning_bench.models")
    for module in pkgutil.walk_packages(package.__path__, "lightning_bench.models."):
        if not any(module.name.startswith(skipped) for skipped in SKIPPED):
            importlib.import_module(module.name)
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        found = point.load()
        if not isinstance(found, ModuleType) and found not in [
            known.function for known in _registered.values()
        ]:
            _register(found, point.name, point.name)
    return dict(sorted(_registered.items()))


def create(name: str, **arguments: Value) -> "nn.Module":
    """Make the model of this name; arguments that are not given keep the variant's defaults."""
    found = look_up(name)
    return found.function(**signature.check(name, found.arguments, arguments))


def look_up(name: str) -> Variant:
    """Return the variant of this name, also of `timm/NAME`, `hf/NAME` and `module:function`."""
    if user_code.is_user_model(name):
        return _imported(name)
    if name.startswith(("timm/", "hf/")):
        from lightning_bench.models.registry import timm_library

        return timm_library.look_up(name)
    if name not in variants():
        raise UnknownModel(f"there is no model {name!r}{nearest(name, variants(), most=1)}")
    return variants()[name]


def _imported(name: str) -> Variant:
    """Import `module:function` or `path.py:function`."""
    module = user_code.import_module(name)
    attribute = name.rpartition(":")[2]
    if not hasattr(module, attribute):
        raise UnknownModel(
            f"{name}: {name.rpartition(':')[0]} has no {attribute!r}"
            f"{nearest(attribute, vars(module), most=1)}"
        )
    function = getattr(module, attribute)
    return Variant(name, attribute, function, signature.read_signature(function))
