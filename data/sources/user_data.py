"""Data of the user's own code: `module:callable` or `path.py:callable`, found without importing it.

The callable gives a LightningDataModule, or a mapping of datasets by the names of their splits.
What is in it only its import can tell; the harness says how that is done (`connect`), since this
room knows no other.
"""

import json
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from lightning_bench.data.dataset import DataSet
from lightning_bench.data.errors import DataError

#: What stands before the colon of other sources.
PREFIXES = frozenset({"folder", "table", "hub", "text"})
#: Facts of a callable's data with these arguments, as JSON has them.
Describe = Callable[[str, str], Mapping[str, Any]]

_connected: list[tuple[Describe, Callable[[str], ModuleType]]] = []


def is_user_data(name: str) -> bool:
    """Whether a data set is named as `module:callable` or `path.py:callable`."""
    prefix, colon, _ = name.partition(":")
    return bool(colon) and prefix not in PREFIXES


def connect(describe_in_child: Describe, import_module: Callable[[str], ModuleType]) -> None:
    """Have such data described, and their modules imported, by these from now on."""
    _connected[:] = [(describe_in_child, import_module)]


def describe(name: str, arguments: Mapping[str, Any]) -> DataSet:
    """The entry of a callable's data, after a process of its own has looked at them."""
    if not _connected:
        raise DataError(f"unknown data set {name!r}")
    text = json.dumps(arguments, sort_keys=True) if arguments else ""
    facts = {key: _plain(value) for key, value in _connected[0][0](name, text).items()}
    return DataSet(
        name=name,
        title=f"The data of {name}",
        policy="the splits that its own code gives",
        source=name,
        user_arguments=text,
        licence="yours to know",
        citation="",
        carves=(),
        **facts,
    )


def import_module(name: str) -> ModuleType:
    """Import the module of a name."""
    if not _connected:
        raise DataError(f"{name}: nobody has said how a module of the user's is imported")
    return _connected[0][1](name)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
