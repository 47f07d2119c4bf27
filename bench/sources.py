"""Which source files a run's result depends on, and a digest of each, without importing them.

The digest is of the syntax tree without docstrings, so that a comment, a docstring or a new
format makes no run stale; anything that could change a number does.
"""

import ast
import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import data.catalogue
import models.catalogue
from bench.spec import RunSpec

#: What trains every model on every data set.
_TRAINING = "bench.training"
#: Rooms whose modules are followed from one import to the next.
_ROOMS = ("data", "models")
#: Modules that find, describe or check things, but compute nothing of a run.
_INDEXES = {
    "data.catalogue",
    "models.catalogue",
    "models.check",
    "models.errors",
    "models.registry",
}


def of_run(spec: RunSpec) -> Mapping[str, str]:
    """The sources behind a run, as they are now."""
    dataset = data.catalogue.entries()[spec.data.name]
    return behind(models.catalogue.find(spec.model.name).module, dataset.module)


@cache
def behind(model_module: str, data_module: str) -> Mapping[str, str]:
    """The digest of every file of ours behind a run, by path such as `models/mixer.py`."""
    found: dict[str, str] = {}
    waiting = [_TRAINING, model_module, data_module]
    while waiting:
        module = waiting.pop()
        path = _path(module)
        name = "/".join([*module.split(".")[:-1], path.name]) if path else module
        if path is None or name in found:
            continue
        found[name] = digest(path)
        waiting.extend(_imports(path))
    return dict(sorted(found.items()))


def changed(recorded: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """Files whose digest differs, or that came or went."""
    names = recorded.keys() | current.keys()
    return sorted(name for name in names if recorded.get(name) != current.get(name))


@cache
def digest(path: Path) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of the file's syntax tree."""
    tree = _parse(path)
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:12]


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _imports(path: Path) -> Iterator[str]:
    """Modules of the followed rooms that a file imports."""
    for node in ast.walk(_parse(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            # `from models.layers import norm` names a module, `from data.batch import Batch` not.
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (n for n in names if n.split(".")[0] in _ROOMS and n not in _INDEXES)


@cache
def _path(module: str) -> Path | None:
    """The file of a module, or None where the name is none of a source file with code."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:  # `a.b.C` where `a.b` is no package
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)
