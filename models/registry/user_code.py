"""Models of the user's own: finding and importing `module:function` and `path.py:function`.

The project is the folder of the study's page and the working directory. What a model's module
reaches is found by reading import statements, so that a plan knows it without importing anything;
`import_module` alone imports, in the processes that make models.
"""

import ast
import importlib
import importlib.util
import os
import sys
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

from lightning_bench.common.messages import first_line, nearest
from lightning_bench.models.errors import UnknownModel

PACKAGE = "lightning_bench"
#: In the environment, since workers and their ranks look for the same models.
_PAGE_FOLDER = "BENCH_PAGE_FOLDER"
_INSTALLED = {"site-packages", "dist-packages"}
#: What the names of our own sources begin with; an installed package's are told apart.
_ROOMS = {"bench", "data", "models", "reports", "studies"}

Parts = tuple[str, ...]


@dataclass(frozen=True)
class UserModule:
    """The module of a model's name: its file, and the folder that its dotted name starts at."""

    root: Path
    parts: Parts
    file: Path
    by_path: bool

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where its imports are looked for after what is installed."""
        return (*project_folders(), self.file.parent) if self.by_path else project_folders()


def is_ours(module: str) -> bool:
    """Whether a module's name is that of one of our own."""
    return module == PACKAGE or module.startswith(f"{PACKAGE}.")


def is_user_model(name: str) -> bool:
    """Whether a model is named as `module:function` or `path.py:function`."""
    return ":" in name


def look_beside(page: Path) -> None:
    """Let this process, and those that it starts, look for models beside a study's page, too."""
    os.environ[_PAGE_FOLDER] = str(page.absolute().parent)


def project_folders() -> tuple[Path, ...]:
    """Where the user's own code lies: the folder of the page, then the working directory."""
    folders = (os.environ.get(_PAGE_FOLDER, ""), Path.cwd())
    return tuple(dict.fromkeys(Path(folder) for folder in folders if folder))


def locate(name: str) -> UserModule:
    """Find the module of a model's name; UnknownModel where there is none."""
    where, _, function = name.rpartition(":")
    if not where or not function:
        raise UnknownModel(f"{name}: name it as module:function or path/to/file.py:function")
    return _by_path(name, where) if where.endswith(".py") else _by_module(name, where)


def _by_path(name: str, where: str) -> UserModule:
    for folder in project_folders():
        file = Path(os.path.normpath(folder / where))
        if file.is_file():
            break
    else:
        looked = " or ".join(map(str, project_folders()))
        beside = (project_folders()[0] / where).parent
        hint = nearest(Path(where).name, [path.name for path in beside.glob("*.py")])
        raise UnknownModel(f"{name}: there is no file {where} in {looked}{hint}")
    root = next((at for at in project_folders() if file.is_relative_to(at)), None)
    if root is None:
        root = file.parent
        while (root / "__init__.py").is_file():
            root = root.parent
    parts = file.relative_to(root).with_suffix("").parts
    if any("." in part for part in parts):
        raise UnknownModel(f"{name}: a module's name can't have a dot in it; rename the file")
    return UserModule(root, parts[:-1] if parts[-1] == "__init__" else parts, file, by_path=True)


def _by_module(name: str, where: str) -> UserModule:
    parts = tuple(where.split("."))
    home = _home(parts[0])
    for root in (*project_folders(), *([home.root] if home else [])):
        if file := dict(_walk(root, parts)).get(parts):
            return UserModule(root, parts, file, by_path=False)
    known = [path.stem for path in project_folders()[0].joinpath(*parts[:-1]).glob("*.py")]
    raise UnknownModel(
        f"{name}: No module named {where!r}, neither installed nor in "
        f"{' or '.join(map(str, project_folders()))}{nearest(parts[-1], known)}"
    )


@dataclass(frozen=True)
class _Home:
    """Where the import system finds a top-level module or package."""

    root: Path
    regular: bool  # it has a file, other than a namespace package


def _home(top: str) -> _Home | None:
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # of a module without a spec, such as __main__
        return None
    if spec is None:
        return None
    regular = spec.has_location and spec.origin is not None
    if spec.submodule_search_locations is not None:
        places = list(spec.submodule_search_locations)
        return _Home(Path(places[0]).parent, regular) if places else None
    return _Home(Path(spec.origin).parent, regular) if regular and spec.origin else None


def _walk(root: Path, parts: Parts) -> Iterator[tuple[Parts, Path]]:
    """The files of a module and of the packages that it lies in, outermost first."""
    for depth in range(1, len(parts) + 1):
        place = root.joinpath(*parts[:depth])
        files = (Path(f"{place}{end}") for end in ("/__init__.py", ".py", *EXTENSION_SUFFIXES))
        if file := next((file for file in files if file.is_file()), None):
            yield parts[:depth], file
        elif not place.is_dir():
            return


def source_files(name: str) -> tuple[Mapping[str, Path], frozenset[str]]:
    """The user's own files behind a model, by name, and the modules of ours that they import.

    They are those of the project, and of the model's own top-level package, that its module
    reaches by imports. A file that is not installed is named from the page's folder,
    as in `./models/mynet.py`.
    """
    model = locate(name)
    files: dict[str, Path] = {}
    ours: set[str] = set()
    waiting, seen = [(model.root, model.parts)], set[tuple[Path, Parts]]()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        for parts, file in _walk(*module):
            if (known := _name(module[0], file)) in files:
                continue
            files[known] = file
            for relative, imported in imports(file, parts):
                if relative:
                    waiting.append((module[0], imported))
                elif imported[0] == PACKAGE:
                    ours.add(".".join(imported))
                elif root := _own_root(imported[0], model):
                    waiting.append((root, imported))
    return files, frozenset(ours)


def _own_root(top: str, model: UserModule) -> Path | None:
    """The folder of a top-level name that is the user's own, as `import_module` has it found."""
    if top == model.parts[0] and not model.by_path:
        return model.root
    if top in sys.stdlib_module_names:
        return None
    home = _home(top)
    if home is not None and home.regular:
        return home.root if _of_project(home.root / top) else None
    for root in model.folders:
        if (root / top).is_dir() or any(_walk(root, (top,))):
            return root
    return None


def _of_project(path: Path) -> bool:
    """Whether a path is in the project, and was not installed there."""
    within = [path.relative_to(at) for at in project_folders() if path.is_relative_to(at)]
    return bool(within) and not _INSTALLED & set(within[0].parts)


def _name(root: Path, file: Path) -> str:
    """A file's name in records: from the page's folder, wherever the command was started."""
    if not _INSTALLED & set(file.parts):
        name = Path(os.path.relpath(file, project_folders()[0])).as_posix()
        return name if name.startswith("../") else f"./{name}"
    name = file.relative_to(root).as_posix()
    return f"installed/{name}" if name.partition("/")[0] in _ROOMS else name


def imports(file: Path, module: Parts) -> Sequence[tuple[bool, Parts]]:
    """What a module's file may import: whether relatively, and the whole name, resolved.

    `from a import b` is both `a` and `a.b`, since b may be a module.
    """
    stat = file.stat()
    package = module if file.name == "__init__.py" else module[:-1]
    return _imports(file, package, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=1)
def parse(file: Path, size: int, mtime_ns: int) -> ast.Module | None:
    """The syntax tree of a file of this size and time; None where it is compiled, or broken."""
    del size, mtime_ns
    try:
        return ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return None


@lru_cache(maxsize=4096)
def _imports(file: Path, package: Parts, size: int, mtime_ns: int) -> Sequence[tuple[bool, Parts]]:
    tree = parse(file, size, mtime_ns)
    if tree is None:
        return ()
    found: dict[tuple[bool, Parts], None] = {}
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            found |= dict.fromkeys((False, tuple(alias.name.split("."))) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level <= len(package) + 1:
            above = package[: len(package) + 1 - node.level] if node.level else ()
            base = (*above, *(node.module.split(".") if node.module else ()))
            names = [(*base, alias.name) for alias in node.names if alias.name != "*"]
            found |= dict.fromkeys((node.level > 0, each) for each in (base, *names) if each)
    return tuple(found)


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements of a module, which alone may import, and what holds statements of its own."""
    waiting: deque[ast.AST] = deque(tree.body)
    while waiting:
        node = waiting.popleft()
        yield node
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            inner = getattr(node, name, ())  # a lambda's body, or a conditional's, is no list
            waiting.extend(inner if isinstance(inner, list) else ())


def stamp(files: Mapping[str, Path]) -> str:
    """The state of files on disk: names, sizes and times."""
    stats = ((name, path, path.stat()) for name, path in sorted(files.items()))
    return ";".join(f"{name}={path}:{s.st_size}:{s.st_mtime_ns}" for name, path, s in stats)


def import_module(name: str) -> ModuleType:
    """Import the module that a model's name names; UnknownModel says what is wrong with it.

    A named module of the project comes before an installed one of its name. For all that it
    imports, the project comes last, so that nothing in there can take the place of a library.
    """
    model = locate(name)
    sys.path += [str(folder) for folder in model.folders if str(folder) not in sys.path]
    parts = model.parts
    if model.by_path:
        parts = (_parent_of_files(model.root), *parts)
    else:
        _put_first(model, name)
    try:
        return importlib.import_module(".".join(parts))
    except (Exception, SystemExit) as error:  # whatever a user's module does
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "<" not in f.filename]
        last = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        raise UnknownModel(
            f"{name}: its import failed: {type(error).__name__}: {first_line(error)}{last}"
        ) from error


def _parent_of_files(root: Path) -> str:
    """A package to import a folder's files into, so that no other module has their names."""
    name = f"_files_{sha256(str(root).encode()).hexdigest()[:8]}"
    if name not in sys.modules:
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(root)]
        sys.modules[name] = importlib.util.module_from_spec(spec)
    return name


class _TopLevel:
    """A finder of one top-level module or package of the project."""

    def __init__(self, name: str, root: Path) -> None:
        self.name, self.root = name, root

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find it in the project's folder, and nothing else anywhere."""
        del path, target
        return PathFinder.find_spec(name, [str(self.root)]) if name == self.name else None


def _put_first(model: UserModule, name: str) -> None:
    """Have the top-level name of a model's module mean that of its folder."""
    top = model.parts[0]
    home = _home(top)
    if home is not None and home.root == model.root:
        return
    if top in sys.modules:
        raise UnknownModel(
            f"{name}: another module {top!r} is in use here; rename yours, or name its file: "
            f"{_name(model.root, model.file).removeprefix('./')}:{name.rpartition(':')[2]}"
        )
    sys.meta_path.insert(0, _TopLevel(top, model.root))
