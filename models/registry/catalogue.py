"""The catalogue of models: their arguments, parameters and FLOPs, without importing torch.

`python -m lightning_bench.models.registry.catalogue` writes the facts that need torch (exact
parameters, FLOPs) into `catalogue.json`, together with a digest of the sources that they were
counted from. Where the installed sources differ from that digest, the facts are counted again in a
subprocess and kept in the user's cache directory. So are those of models that another package
brings and of the user's own, each package or module in a process that imports no other.
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal

from lightning_bench.common.files import write_atomically
from lightning_bench.common.folders import cache_folder
from lightning_bench.common.messages import nearest
from lightning_bench.models.errors import ModelError, UnknownModel
from lightning_bench.models.registry import arguments as signature
from lightning_bench.models.registry import user_code
from lightning_bench.models.registry.arguments import Argument, Value
from lightning_bench.models.registry.encoders import refuse_leaky
from lightning_bench.models.registry.model_variant import Kind

__all__ = ["Argument", "Entry", "check_arguments", "entries", "find", "markdown_table"]

ENTRY_POINTS = "lightning_bench.models"
HERE = Path(__file__).parents[1]
#: What counts, by name alone: importing it imports torch.
COUNTING = "lightning_bench.models.registry.counting"
COMMITTED = Path(__file__).parent / "catalogue.json"


@dataclass(frozen=True)
class Entry:
    """A named model: its arguments, and its cost at its own input and head.

    Models of one `family` differ in size alone, those of them that have a `depth` in depth alone.
    `parameters` and `flops` (of one example's forward pass, two a multiply-add) are None where
    nothing was counted, as for the thousand models of timm.
    """

    name: str
    family: str
    depth: int | None
    title: str
    kind: Kind
    summary: str
    arguments: Mapping[str, Argument]
    parameters: int | None
    flops: int | None
    module: str
    form: Literal["variant", "network", "lightning"] = "variant"

    @property
    def ours(self) -> bool:
        """Whether to make it imports our own modules and libraries, and nothing else."""
        return user_code.is_ours(self.module) and not user_code.is_user_model(self.name)


@cache
def entries() -> Mapping[str, Entry]:
    """Every registered variant by name, sorted; those of installed entry points too."""
    found = dict(_own_entries())
    for point in entry_points():
        for name, facts in _facts_of(point)["variants"].items():
            if name in found:
                raise ModelError(
                    f"{name} is registered twice: by {found[name].module} and by {facts['module']}"
                )
            found[name] = _entry(facts)
    return dict(sorted(found.items()))


@cache
def _own_entries() -> Mapping[str, Entry]:
    return {name: _entry(facts) for name, facts in _facts()["variants"].items()}


@cache
def entry_points() -> Sequence[EntryPoint]:
    """What other packages bring, none of which is imported here."""
    return sorted(importlib.metadata.entry_points(group=ENTRY_POINTS))


def entry_point_of(name: str) -> EntryPoint:
    """The entry point that brings the model of this name; UnknownModel where none does."""
    find(name)
    return next(point for point in entry_points() if name in _facts_of(point)["variants"])


def find(name: str) -> Entry:
    """Return the entry of a name, also of `timm/NAME`, `hf/NAME` and `module:function`."""
    folders = user_code.project_folders() if user_code.is_user_model(name) else ()
    return _find(name, folders)


@cache
def _find(name: str, folders: tuple[Path, ...]) -> Entry:
    if folders:
        return _entry(_user_facts(name))
    prefix, slash, rest = name.partition("/")
    if slash and prefix in _facts()["libraries"]:
        return _library_entry(prefix, rest)
    if name in _own_entries():  # no other package has to be counted
        return _own_entries()[name]
    if name not in entries():
        if name.endswith(".py"):
            raise UnknownModel(f"{name}: name its function, too, as in {name}:make")
        raise UnknownModel(f"there is no model {name!r}{nearest(name, _all_names(), most=1)}")
    return entries()[name]


def check_arguments(entry: Entry, arguments: Mapping[str, object]) -> dict[str, Value]:
    """Return the arguments coerced to their kinds, without those that equal the default."""
    return signature.check(entry.name, entry.arguments, arguments)


def counts(wanted: Sequence[tuple[str, Mapping[str, Value]]]) -> list[Mapping[str, Any]]:
    """The `parameters` and `flops` of models with these arguments, or the `error` that they raise.

    Counted in a process for each module of others, since that takes torch and may change it, and
    kept in the user's cache.
    """
    apart: dict[str, list[int]] = {}
    for place, (name, _) in enumerate(wanted):
        apart.setdefault(_imports(name), []).append(place)
    found: dict[int, Mapping[str, Any]] = {}
    for places in apart.values():
        found |= zip(places, _counts([wanted[place] for place in places]), strict=True)
    return [found[place] for place in range(len(wanted))]


def _imports(name: str) -> str:
    """What has to be imported to make a model, beside our own modules."""
    if user_code.is_user_model(name):
        return name.rpartition(":")[0]
    return "" if find(name).ours else entry_point_of(name).value


def _counts(wanted: Sequence[tuple[str, Mapping[str, Value]]]) -> list[Mapping[str, Any]]:
    asked = json.dumps([[name, dict(arguments)] for name, arguments in wanted], sort_keys=True)
    sources = "\0".join(_state(name) for name in sorted({name for name, _ in wanted}))
    results = _kept("counts", f"{asked}\0{digest()}\0{sources}", "--count", asked)
    counted: list[Mapping[str, Any]] = results["counts"]
    return counted


def _state(name: str) -> str:
    """The state of what a model imports beside our own modules, on disk."""
    if user_code.is_user_model(name):
        return user_code.stamp(user_code.source_files(name)[0])
    return "" if find(name).ours else _stamp(entry_point_of(name).module)


def markdown_table() -> str:
    """Return the Markdown table of all variants with exact parameters and FLOPs."""
    lines = [
        "| name | model | parameters | forward GFLOPs | input |",
        "| --- | --- | ---: | ---: | --- |",
    ]
    for entry in entries().values():
        parameters = "–" if entry.parameters is None else f"{entry.parameters:,}"
        flops = "–" if entry.flops is None else f"{entry.flops / 1e9:,.3f}"
        default = {name: argument.default for name, argument in entry.arguments.items()}
        if entry.kind == "image":
            shape = f"{default['channels']}×{default['image_size']}×{default['image_size']}"
        else:
            shape = f"{default['length']} tokens of {default['vocab_size']:,}"
        lines.append(f"| `{entry.name}` | {entry.title} | {parameters} | {flops} | {shape} |")
    return "\n".join(lines) + "\n"


def digest() -> str:
    """Hash the sources of this package, but for those that make no model."""
    sources = hashlib.sha256()
    for path in sorted(HERE.rglob("*.py")):
        if not {"tasks", "probes"} & set(path.relative_to(HERE).parts):
            sources.update(path.relative_to(HERE).as_posix().encode() + b"\0")
            sources.update(path.read_bytes() + b"\0")
    return sources.hexdigest()


def _all_names() -> list[str]:
    libraries = _facts()["libraries"]
    return [*entries(), *(f"{key}/{name}" for key, it in libraries.items() for name in it["names"])]


def _entry(facts: Mapping[str, Any]) -> Entry:
    taken = {
        name: Argument(
            **{**given, "choices": tuple(given["choices"]) if given["choices"] else None}
        )
        for name, given in facts["arguments"].items()
    }
    return Entry(**{**facts, "arguments": taken})


def _library_entry(prefix: str, name: str) -> Entry:
    library = _facts()["libraries"][prefix]
    # timm names a set of weights after a dot; a hub address has a slash and can't be known here.
    base = name.partition(".")[0] if prefix == "timm" else name
    same_version = library["version"] == importlib.metadata.version(library["package"])
    if prefix == "hf":
        refuse_leaky(name, name)
    if base not in library["names"] and "/" not in name and same_version:
        raise UnknownModel(
            f"{library['package']} {library['version']} has no model {name!r}"
            f"{nearest(base, library['names'], most=1)}"
        )
    own = {"name": f"{prefix}/{name}", "family": f"{prefix}/{name}"}
    return _entry({**library["entry"], **own, "title": f"{name} ({library['package']})"})


def _facts() -> Mapping[str, Any]:
    return _read_or_count(digest())


@cache
def _read_or_count(current: str) -> Mapping[str, Any]:
    """Read the facts of this digest from the package or the cache, else count and cache them."""
    for path in (COMMITTED, cache_folder() / f"catalogue-{current[:16]}.json"):
        facts = _read(path)
        if facts.get("digest") == current:
            return facts
    facts = _run("--print")
    _write_to_cache(path, facts)
    return facts


@cache
def _facts_of(point: EntryPoint) -> Mapping[str, Any]:
    """Facts of the variants that an entry point brings, as `_read_or_count` has those of ours."""
    made_of = f"{point.name}={point.value}\0{_stamp(point.module)}\0{digest()}"
    try:
        return _kept("entry-point", made_of, "--entry-point", point.name, point.value)
    except ModelError as error:
        raise ModelError(f"{point.value}, an installed entry point: {error}") from None


def _user_facts(name: str) -> Mapping[str, Any]:
    """Facts of `module:function`, which only its import can tell; kept until its sources change."""
    path = _user_facts_file(name)
    facts = _read(path)
    if not facts:
        (facts,) = _run("--describe", name)["described"]
        if "error" not in facts:  # it may be mended by what the stamp can't see
            _write_to_cache(path, facts)
    if "error" in facts:
        raise UnknownModel(facts["error"])
    return facts


def describe_together(names: Sequence[str]) -> None:
    """Have the facts of users' models of one module told by one process, and kept."""
    apart: dict[str, list[str]] = {}
    for name in dict.fromkeys(filter(user_code.is_user_model, names)):
        try:
            known = _user_facts_file(name).exists()
        except ModelError:  # told by whoever asks for this one
            continue
        if not known:
            apart.setdefault(_imports(name), []).append(name)
    for together in apart.values():
        if len(together) > 1:
            described = _run("--describe", *together)["described"]
            for name, facts in zip(together, described, strict=True):
                if "error" not in facts:
                    _write_to_cache(_user_facts_file(name), facts)


def _user_facts_file(name: str) -> Path:
    sources = user_code.stamp(user_code.source_files(name)[0])
    stamp = hashlib.sha256(f"{name}\0{sources}\0{digest()}".encode()).hexdigest()
    return cache_folder() / f"model-{stamp[:16]}.json"


def _kept(kind: str, made_of: str, *arguments: str) -> dict[str, Any]:
    """What a counting process prints, kept in the cache under what it is of."""
    stamp = hashlib.sha256(made_of.encode()).hexdigest()
    path = cache_folder() / f"{kind}-{stamp[:16]}.json"
    facts = _read(path)
    if not facts:
        facts = _run(*arguments)
        if "error" not in facts:  # it may be mended by what the stamp can't see
            _write_to_cache(path, facts)
    return facts


def _stamp(module: str) -> str:
    """Tell the state of a module's top-level package on disk, without importing it."""
    found = importlib.util.find_spec(module.partition(".")[0])
    places: Sequence[str | None] = []
    if found is not None:
        places = found.submodule_search_locations or [found.origin]
    files = [
        path
        for place in map(Path, filter(None, places))
        for path in (sorted(place.rglob("*.py")) if place.is_dir() else [place])
        if path.exists()
    ]
    return ";".join(f"{path}:{path.stat().st_size}:{path.stat().st_mtime_ns}" for path in files)


def _run(*arguments: str) -> dict[str, Any]:
    """Count in a process of its own, since that has to import torch."""
    path = os.pathsep.join([*filter(None, sys.path), str(HERE.parents[1])])
    # Without -P it would take the working directory's torch.py for torch.
    done = subprocess.run(
        [sys.executable, "-P", "-m", COUNTING, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    if done.returncode:
        raise ModelError(f"the models could not be counted: {_last_line(done.stderr)}")
    # A user's module may print, too.
    try:
        facts: dict[str, Any] = json.loads(_last_line(done.stdout))
    except ValueError:
        raise ModelError(
            "the models could not be counted: the process ended before it had, as sys.exit or "
            "os._exit in a model's code would have it"
        ) from None
    return facts


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1]


def _read(path: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):  # absent, unreadable or half of a file: count again
        return {}
    return facts


def _write_to_cache(path: Path, facts: Mapping[str, Any]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(facts))
    except OSError as error:  # a read-only home costs time at every start, not the result
        print(f"the catalogue could not be kept in {path.parent}: {error}", file=sys.stderr)  # noqa: T201


if __name__ == "__main__":
    importlib.import_module(COUNTING).main()
