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

from lightning_bench.bench.spec import DataSpec, RunSpec
from lightning_bench.bench.study.inputs import dataset_of, task_module
from lightning_bench.models.probes import PROBES
from lightning_bench.models.registry import catalogue as model_catalogue

PACKAGE = "lightning_bench"

#: What trains every model on every data set.
_TRAINING = (
    "lightning_bench.bench.run.training",
    "lightning_bench.bench.run.loading",
    "lightning_bench.bench.run.trainer",
    "lightning_bench.bench.run.callbacks",
    "lightning_bench.bench.run.control",
    "lightning_bench.bench.run.checkpoint_state",
    "lightning_bench.bench.run.checkpoint",
    "lightning_bench.bench.run.fsdp",
)
#: What takes the weights that a run starts from.
_START = "lightning_bench.bench.run.initial_weights"
#: What gives a frozen encoder its memory.
_CONTEXTUAL = "lightning_bench.bench.run.encoder_cache"
#: Rooms whose modules are followed from one import to the next.
_ROOMS = ("lightning_bench.data.", "lightning_bench.models.")
#: Modules that find, describe or check things, but compute nothing of a run.
_INDEXES = {
    "lightning_bench.data.catalogue",
    "lightning_bench.data.catalogue.dataset",
    "lightning_bench.data.errors",
    "lightning_bench.data.previews",
    "lightning_bench.data.sources.fetch",
    "lightning_bench.data.catalogue.known_images",
    "lightning_bench.data.catalogue.known_text",
    "lightning_bench.data.catalogue.known_vtab",
    "lightning_bench.data.sources.locations",
    "lightning_bench.data.prepare",
    "lightning_bench.data.progress",
    "lightning_bench.data.sources.repository",
    "lightning_bench.models.registry.catalogue",
    "lightning_bench.models.registry.contract",
    "lightning_bench.models.errors",
    "lightning_bench.models.probes",
    "lightning_bench.models.registry.registry",
}


def of_run(spec: RunSpec) -> Mapping[str, str]:
    """The sources behind a run, as they are now, and what the catalogue says of its data."""
    extra = tuple(PROBES[name].module for name in spec.probes if name in PROBES)
    if spec.start is not None or spec.weights:
        extra += (_START,)
    if spec.model.args.get("encoder"):
        extra += (_CONTEXTUAL,)
    return _of(spec.model.name, spec.data, extra)


@cache
def _of(model: str, data_spec: DataSpec, extra: tuple[str, ...]) -> Mapping[str, str]:
    dataset = dataset_of(data_spec)
    module = model_catalogue.find(model).module
    modules = behind(module, dataset.module, task_module(dataset), extra)
    facts = repr(sorted(dataset.what_counts().items())).encode()
    return {
        **modules,
        f"data/catalogue.py:{dataset.name}": hashlib.sha256(facts).hexdigest()[:12],
    }


@cache
def behind(
    model_module: str,
    data_module: str,
    task_module: str = "lightning_bench.models.tasks.classify",
    extra: tuple[str, ...] = (),
) -> Mapping[str, str]:
    """The digest of every file of ours behind a run, by path such as `models/mixer.py`."""
    return _followed([*_TRAINING, model_module, data_module, task_module, *extra])


def of_model(name: str) -> Mapping[str, str]:
    """The sources of a model alone, as they are now."""
    return _followed([model_catalogue.find(name).module])


def _followed(waiting: list[str]) -> Mapping[str, str]:
    """The digests of these modules' files and of those that they import, of the rooms followed."""
    found: dict[str, str] = {}
    while waiting:
        name, path = _file(waiting.pop())
        if path is not None and name not in found:
            found[name], imported = _understood(path)
            waiting.extend(imported)
    return dict(sorted(found.items()))


def changed(recorded: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """Files whose digest differs, or that came or went."""
    if recorded == current:
        return []
    names = recorded.keys() | current.keys()
    return sorted(name for name in names if recorded.get(name) != current.get(name))


def digest(path: Path) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of the file's syntax tree."""
    return _understood(path)[0]


@cache
def _understood(path: Path) -> tuple[str, tuple[str, ...]]:
    """A file's digest, and the modules of the followed rooms that it imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = tuple(_imports(tree))
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:12], imported


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            # `from models.layers import norm` names a module, `from data.batch import Batch` not.
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (n for n in names if n.startswith(_ROOMS) and n not in _INDEXES)


@cache
def _file(module: str) -> tuple[str, Path | None]:
    """The name and place of a module's file; None where no file of that name is code.

    Only the top package is asked of the import system: `find_spec("a.b")` would import `a`.
    """
    top, *rest = module.split(".")
    spec = find_spec(top)
    if spec is None or spec.origin is None:
        return module, None
    origin = Path(spec.origin)
    if not rest:
        return (f"{top}/__init__.py" if origin.stem == "__init__" else origin.name), origin
    # Ours are told without the package's name.
    folder, within = (origin.parent, rest) if top == PACKAGE else (origin.parents[1], [top, *rest])
    name = "/".join(within)
    for candidate in (f"{name}.py", f"{name}/__init__.py"):
        if (path := folder / candidate).is_file():
            return candidate, path
    return name, None
