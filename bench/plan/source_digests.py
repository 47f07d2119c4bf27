"""Which source files a run's result depends on, and a digest of each, without importing them.

The digest is of the syntax tree without docstrings, so that a comment, a docstring or a new
format makes no run stale; anything that could change a number does. A file of ours is named by
its room and its own name (`models/gate.py`), and its digest takes modules of ours by their own
names, wherever they lie: to move a module makes nothing stale. A file of the user's own is named
from the project (`./models/mynet.py`).
"""

import ast
import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache, lru_cache, partial
from pathlib import Path

from lightning_bench.bench.plan.parsed_files import Parsed, ParsedFiles
from lightning_bench.bench.spec import DataSpec, RunSpec
from lightning_bench.bench.study.inputs import dataset_of, task_module
from lightning_bench.common.folders import cache_folder
from lightning_bench.data.sources.user_data import is_user_data
from lightning_bench.models.errors import ModelError
from lightning_bench.models.probes import PROBES
from lightning_bench.models.registry import catalogue as model_catalogue
from lightning_bench.models.registry import user_code
from lightning_bench.models.registry.instantiate import class_paths
from lightning_bench.models.tasks.metric_names import parse

PACKAGE = "lightning_bench"
_HERE = Path(__file__).parents[2]

#: What trains every model on every data set, with all that it imports of the packages followed.
_TRAINING = "lightning_bench.bench.run.training"
#: What takes the weights that a run starts from.
_INITIAL_WEIGHTS = "lightning_bench.bench.run.initial_weights"
_PREPROCESSING = "lightning_bench.models.weights.preprocessing"
#: What decodes images as they are read.
_STREAMED = "lightning_bench.data.modules.streamed_images"
#: What keeps the states of a frozen encoder.
_ENCODER_CACHE = "lightning_bench.bench.run.encoder_cache"
#: What trains a LightningModule of the user's own.
_OWN_TRAINING = "lightning_bench.bench.run.own_training"
#: Packages whose modules are followed from one import to the next.
_FOLLOWED = ("lightning_bench.bench.run.", "lightning_bench.data.", "lightning_bench.models.")
#: Modules that are not followed, though something that is followed imports them, and why.
NOT_FOLLOWED = {
    "lightning_bench.bench.run.distributed": "how ranks meet; the sums are the trainer's",
    _PREPROCESSING: "named by itself, for runs that start from weights",
    _INITIAL_WEIGHTS: "named by itself, for runs that start from weights",
    _ENCODER_CACHE: "named by itself, for runs with a frozen encoder",
    _OWN_TRAINING: "named by itself, for runs of a LightningModule of the user's own",
    "lightning_bench.data.catalogue": "finds an entry, whose facts are digested",
    "lightning_bench.data.errors": "words",
    "lightning_bench.data.prepare": "fetches ahead; a run's data have a fingerprint",
    "lightning_bench.data.previews": "pictures for reports",
    "lightning_bench.data.progress": "a display",
    "lightning_bench.data.sources.fetch": "fetches; a run's data have a fingerprint",
    "lightning_bench.data.sources.locations": "finds folders",
    "lightning_bench.data.sources.repository": "finds files; a run's data have a fingerprint",
    "lightning_bench.models.errors": "words",
    "lightning_bench.models.probes": "names the probes, each of which is named by its runs",
    "lightning_bench.models.registry.catalogue": "describes models",
    "lightning_bench.models.registry.contract": "checks models",
    "lightning_bench.models.registry.model_variant": "describes a model",
    "lightning_bench.models.registry.registry": "finds models",
    "lightning_bench.models.registry.user_code": "finds the user's models",
}


def of_run(spec: RunSpec) -> Mapping[str, str]:
    """The sources behind a run, as they are now, and what the catalogue says of its data."""
    extra = tuple(PROBES[name].module for name in spec.probes if name in PROBES)
    if spec.start is not None or spec.weights:
        extra += (_INITIAL_WEIGHTS, _PREPROCESSING)
    if spec.recipe.resized_crop:  # decoded as they are read, whatever their size
        extra += (_STREAMED,)
    if spec.model.args.get("encoder"):
        extra += (_ENCODER_CACHE,)
    own = user_names(spec)
    theirs = user_code.is_user_model(spec.model.name)
    if theirs and model_catalogue.find(spec.model.name).form == "lightning":
        extra += (_OWN_TRAINING,)
    folders = user_code.project_folders() if own or theirs else ()
    found = _of_run(spec.model.name, spec.data, (*extra, *own), folders)
    nested = _of_nested(spec.model.args.values()) if theirs else {}
    return dict(sorted({**found, **_digests(nested)}.items())) if nested else found


def user_names(spec: RunSpec) -> tuple[str, ...]:
    """What of the user's own a run calls beside its model: data, loss, metrics, callbacks, …."""
    recipe = spec.recipe
    named = [recipe.loss, recipe.optimizer, recipe.schedule]
    named += [spec.data.name] if is_user_data(spec.data.name) else []
    named += [parse(spelled).name for spelled in (*spec.metrics, *spec.callbacks)]
    return tuple(dict.fromkeys(name for name in named if user_code.is_user_model(name)))


def _of_nested(args: Iterable[object]) -> dict[str, Path]:
    """The files of the user's own behind the classes that his arguments name."""
    files: dict[str, Path] = {}
    for path in class_paths(list(args)):
        name = ":".join(path.rpartition(".")[::2])
        with suppress(ModelError):  # told when it is to be made
            if name[0] != ":" and user_code.locate(name).root in user_code.project_folders():
                files |= user_code.source_files(name)[0]
    return files


def of_model(name: str) -> Mapping[str, str]:
    """The sources of a model alone, as they are now."""
    files, modules = _of_model(name)
    return _digests(files | files_behind(modules))


@cache
def _of_run(
    model: str, data_spec: DataSpec, extra: tuple[str, ...], folders: tuple[Path, ...]
) -> Mapping[str, str]:
    del folders  # where the model is looked for
    dataset = dataset_of(data_spec)
    theirs, modules = _of_model(model)
    for name in filter(user_code.is_user_model, extra):
        files, more = _of_model(name)
        theirs, modules = theirs | files, (*modules, *more)
    extra = tuple(name for name in extra if not user_code.is_user_model(name))
    ours = files_behind((_TRAINING, *modules, dataset.module, task_module(dataset), *extra))
    _ours().keep()
    facts = repr(sorted(dataset.what_counts().items())).encode()
    return {
        **_digests(theirs | ours),
        f"data/catalogue.py:{dataset.name}": hashlib.sha256(facts).hexdigest()[:12],
    }


def _of_model(name: str) -> tuple[dict[str, Path], tuple[str, ...]]:
    """The files of the user's own behind a model, and modules of ours."""
    if not user_code.is_user_model(name):
        # Another package's, too, by its entry point.
        name = f"{model_catalogue.find(name).module}:{name}"
    if user_code.is_ours(module := name.rpartition(":")[0]):
        return {}, (module,)
    files, modules = user_code.source_files(name)
    return dict(files), tuple(sorted(modules))


def files_behind(modules: Iterable[str]) -> dict[str, Path]:
    """The files of these modules of ours, and of all that they import of the packages followed."""
    files: dict[str, Path] = {}
    waiting, seen = list(modules), set[str]()
    while waiting:
        module = waiting.pop()
        file = _file(module)
        if module in seen or file is None:
            continue
        seen.add(module)
        parsed = _ours().of(file, partial(_parse, file))
        # Most packages' __init__ is all docstring.
        if parsed.digest != _NOTHING or file.name != "__init__.py":
            files[stable_name(file)] = file
        imported = (".".join(parts) for _, parts in parsed.imports)
        waiting += [m for m in imported if m.startswith(_FOLLOWED) and m not in NOT_FOLLOWED]
    return files


@cache
def _ours() -> ParsedFiles:
    return ParsedFiles(_HERE, cache_folder())


def _parse(file: Path) -> Parsed:
    # The imports first: the tree is then at hand, once.
    imported = user_code.imports(file, _parts(file))
    return Parsed(digest(file), imported)


def stable_name(file: Path) -> str:
    """The name of a file of ours in records: its room and its own name, wherever in there it is."""
    room, *_, name = file.relative_to(_HERE).parts
    return f"{room}/{file.parent.name}/{name}" if name == "__init__.py" else f"{room}/{name}"


def is_of_version_0_1(recorded: Mapping[str, str]) -> bool:
    """Whether sources were recorded by 0.1, which named other modules; each run had this one."""
    return "bench/standing.py" in recorded


def changed(recorded: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """Files whose digest differs, or that came or went."""
    if recorded == current:
        return []
    names = recorded.keys() | current.keys()
    return sorted(name for name in names if recorded.get(name) != current.get(name))


@cache
def _file(module: str) -> Path | None:
    """The file of a module of ours; None where there is none of that name."""
    place = _HERE.joinpath(*module.split(".")[1:])
    files = (Path(f"{place}{end}") for end in (".py", "/__init__.py"))
    return next((file for file in files if file.is_file()), None)


def _parts(file: Path) -> tuple[str, ...]:
    """A file of ours as the parts of a module's name."""
    return PACKAGE, *file.relative_to(_HERE).with_suffix("").parts


def _last(module: str) -> str:
    return module.rpartition(".")[2]


def _digests(files: Mapping[str, Path]) -> dict[str, str]:
    return {
        name: _ours().of(file, partial(_parse, file)).digest
        if file.is_relative_to(_HERE)
        else digest(file)
        for name, file in sorted(files.items())
    }


def digest(file: Path) -> str:
    """The first 12 hexadecimal digits of the SHA-256 of the file's syntax tree."""
    stat = file.stat()
    return _digest(file, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=4096)
def _digest(file: Path, size: int, mtime_ns: int) -> str:
    tree = user_code.parse(file, size, mtime_ns)
    content = file.read_bytes() if tree is None else _Dump().of_module(tree).encode()
    return hashlib.sha256(content).hexdigest()[:12]


class _Dump:
    """A syntax tree as text, without docstrings, and without where modules of ours lie."""

    def __init__(self) -> None:
        self._imports: set[str] = set()

    def of_module(self, tree: ast.Module) -> str:
        """The text; imports of ours come last, sorted by modules' own names, as these may move."""
        code = self._text(tree)
        return "\n".join((code, *sorted(self._imports)))

    def _text(self, node: object) -> str:
        if isinstance(node, list):
            return f"[{','.join(filter(None, map(self._text, node)))}]" if node else "[]"
        if not isinstance(node, ast.AST):
            return repr(_last(node) if isinstance(node, str) and user_code.is_ours(node) else node)
        if isinstance(node, ast.Name):  # of all nodes most
            return f"Name({node.id!r})"
        if isinstance(node, ast.ImportFrom) and self._takes(node):
            return ""
        if isinstance(node, ast.Import) and all(user_code.is_ours(a.name) for a in node.names):
            self._imports.update(f"import {_last(a.name)} as {a.asname}" for a in node.names)
            return ""
        fields = [getattr(node, name, None) for name in node._fields if name != "ctx"]
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            fields[node._fields.index("body")] = node.body[1:]
        return f"{type(node).__name__}({','.join(map(self._text, fields))})"

    def _takes(self, node: ast.ImportFrom) -> bool:
        if node.level or node.module is None or not user_code.is_ours(node.module):
            return False
        for alias in node.names:
            # A module of a package is told by its own name, whatever the package.
            is_module = _file(f"{node.module}.{alias.name}") is not None
            origin = "" if is_module else f"from {_last(node.module)} "
            self._imports.add(f"{origin}import {alias.name} as {alias.asname}")
        return True


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_NOTHING = hashlib.sha256(_Dump().of_module(ast.Module([], [])).encode()).hexdigest()[:12]
