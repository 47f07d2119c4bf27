"""Nested objects in a model's arguments, made by the libraries whose spellings they are in.

`class_path` and `init_args` are jsonargparse's, as in LightningCLI, `_target_` and `_partial_`
Hydra's.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lightning_bench.common.messages import first_line
from lightning_bench.models.errors import ModelError


def instantiated(value: Any, where: str) -> Any:
    """The value, with each object that it describes made; ModelError says which can't be."""
    if isinstance(value, list):
        return [instantiated(each, where) for each in value]
    if not isinstance(value, Mapping):
        return value
    try:
        if "_target_" in value:
            return _by_hydra(value)
        if "class_path" in value:
            return _by_jsonargparse(value)
    except ModelError:
        raise
    except (Exception, SystemExit) as error:
        named = value.get("_target_") or value.get("class_path")
        raise ModelError(
            f"{where}: {named} can't be made: {type(error).__name__}: {first_line(error)}"
        ) from error
    return {key: instantiated(each, where) for key, each in value.items()}


def class_paths(value: Any) -> Iterator[str]:
    """The dotted names of all that a value describes."""
    if isinstance(value, list):
        for each in value:
            yield from class_paths(each)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if key in {"_target_", "class_path"} and isinstance(each, str):
                yield each
            else:
                yield from class_paths(each)


def _by_hydra(value: Mapping[str, Any]) -> Any:
    try:
        from hydra.utils import instantiate
    except ImportError:
        raise ModelError("`_target_` is Hydra's: pip install hydra-core") from None
    return instantiate(dict(value), _convert_="all")


def _by_jsonargparse(value: Mapping[str, Any]) -> Any:
    try:
        from jsonargparse import ArgumentParser
    except ImportError:
        raise ModelError(
            '`class_path` is jsonargparse\'s: pip install "jsonargparse[signatures]"'
        ) from None
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--made", type=_type_of(str(value["class_path"])))
    parsed = parser.parse_object({"made": dict(value)})
    # Of older versions another name.
    make = getattr(parser, "instantiate", None) or parser.instantiate_classes
    return make(parsed).made


def _type_of(class_path: str) -> Any:
    """The type to ask jsonargparse for: of optimisers and schedulers a callable, so partials."""
    import importlib
    from collections.abc import Callable, Iterable

    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

    module, _, name = class_path.rpartition(".")
    kind = getattr(importlib.import_module(module), name) if module else object
    if isinstance(kind, type) and issubclass(kind, Optimizer):
        return Callable[[Iterable], Optimizer]
    if isinstance(kind, type) and issubclass(kind, LRScheduler):
        return Callable[[Optimizer], LRScheduler]
    return kind
