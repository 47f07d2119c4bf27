"""What `module:callable` names: a loss, metric, optimiser, schedule or callback of the user's own.

How a module of the user's is found and imported is the registry's, which imports this package; so
whoever makes tasks says here how (`bench.run.loading`).
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from lightning_bench.models.errors import ModelError

_importers: list[Callable[[str], ModuleType]] = []


def import_with(import_module: Callable[[str], ModuleType]) -> None:
    """Have the modules of names imported so from now on."""
    _importers[:] = [import_module]


def own_callable(name: str) -> Callable[..., Any]:
    """What `module:callable` names; a ModelError where the module has none of this name."""
    if not _importers:
        raise ModelError(f"{name}: nobody has said how a module of the user's is imported")
    found = getattr(_importers[0](name), name.rpartition(":")[2], None)
    if not callable(found):
        raise ModelError(f"{name}: the module has nothing to call by this name")
    return found
