"""Loading a study: its page at one scale, with the command line's settings, validated."""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lightning_bench import studies
from lightning_bench.bench.errors import UserError
from lightning_bench.bench.study import cli_config
from lightning_bench.bench.study import page as pages
from lightning_bench.bench.study.cluster import Cluster
from lightning_bench.bench.study.page import Location, Page
from lightning_bench.bench.study.page_errors import PageError, page_error
from lightning_bench.bench.study.study import Study
from lightning_bench.bench.study.validation import validated
from lightning_bench.common.messages import nearest
from lightning_bench.models.registry import user_code

SCALES = ("smoke", "small", "full")
#: What a study knows of how it was loaded; no page may say it.
_RESERVED = {"name", "scale", "command", "looks"}


def find(name: str) -> Path:
    """The page of a named study, or of a path to a page of one's own."""
    known = studies.pages()
    if name in known:
        return known[name]
    path = Path(name)
    if path.suffix in {".yaml", ".yml"}:
        if path.is_file():
            return path
        raise UserError(f"no study page at {name}")
    raise UserError(f"unknown study {name!r}{nearest(name, known)}")


def scales(path: Path) -> list[str]:
    """The scales that a page has, smallest first."""
    declared = pages.load(path).data.get("scales")
    return [scale for scale in SCALES if scale in declared] if isinstance(declared, dict) else []


def load(
    name: str,
    scale: str | None = None,
    settings: Iterable[str] = (),
    cluster: Iterable[str] = (),
) -> Study:
    """Read, validate and resolve a study; any mistake in it is a UserError of one line.

    `settings` are `key=value` texts from the command line, laid over the page: `recipe.epochs=3`;
    `cluster` are such for the part of the page that changes no result.
    """
    page = pages.load(find(name))
    if name not in studies.pages():
        user_code.look_beside(page.path)
    scale, merged = _at_scale(page, scale)
    settings = list(settings)
    options: dict[Location, str] = {}  # which option of the command line set a value
    for text in settings:
        merged = _merge(merged, _setting(text, options))
    for text in cluster:
        merged = _merge(merged, _setting(text, options, "--cluster", ("cluster",)))

    def where(at: Location) -> str:
        for depth in range(len(at), 0, -1):
            if at[:depth] in options:
                return options[at[:depth]]
        return page.where(("scales", scale, *at), at)

    if "looks" in merged:
        line = where(("looks",))
        raise UserError(f"{line}: looks stand under seeds, as in seeds: {{looks: [6, 9, 12]}}")
    for reserved in merged.keys() & _RESERVED:
        raise UserError(f"{where((reserved,))}: the page's file name is its name, not {reserved!r}")
    shown = name if not Path(name).is_absolute() else page.path.name
    merged |= {
        "name": page.path.stem,
        "scale": scale,
        "command": shlex.join(
            ["bench", "run", shown, "--scale", scale]
            + [word for text in settings for word in ("--set", text)]
        ),
    }
    try:
        merged = cli_config.expanded(merged, page.path.parent)
        return validated(Study.model_validate(merged))
    except ValidationError as error:
        mistake = page_error(error, Study, hidden=_RESERVED)
    except PageError as error:
        mistake = error
    raise UserError(f"{where(mistake.at)}: {mistake}")


def read_cluster(settings: Iterable[str]) -> Cluster:
    """A cluster by settings such as `partition=gpu` alone, without a page."""
    merged: dict[str, Any] = {}
    for text in settings:
        merged = _merge(merged, _setting(text, {}, "--cluster", ("cluster",)))
    try:
        return Cluster.model_validate(merged.get("cluster", {}))
    except ValidationError as error:
        raise UserError(f"--cluster: {page_error(error, Cluster)}") from None


def _at_scale(page: Page, scale: str | None) -> tuple[str, dict[str, Any]]:
    """The scale that is meant, by default the smallest, and what the page says at it."""
    declared = page.data.get("scales")
    if not isinstance(declared, dict) or not declared:
        raise UserError(f"{page.path}: `scales:` must name at least one of {', '.join(SCALES)}")
    for unknown in declared.keys() - set(SCALES):
        line = page.where(("scales", unknown))
        raise UserError(f"{line}: unknown scale {unknown!r}{nearest(unknown, SCALES)}")
    scale = scale or next(s for s in SCALES if s in declared)
    if scale not in declared:
        raise UserError(f"{page.path} has no scale {scale!r}{nearest(scale, declared)}")
    changes = declared[scale] or {}
    if not isinstance(changes, Mapping):
        line = page.where(("scales", scale))
        raise UserError(f"{line}: a scale is a mapping of what it changes in the page")
    unscaled = {key: value for key, value in page.data.items() if key != "scales"}
    return scale, _merge(unscaled, changes)


def _setting(
    text: str,
    options: dict[Location, str],
    option: str = "--set",
    inside: tuple[str, ...] = (),
) -> dict[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not all(key.split(".")):
        example = "partition=gpu" if inside else "recipe.epochs=3"
        raise UserError(f"{option} {text}: expected key=value, for instance {example}")
    location = (*inside, *key.split("."))
    options[location] = f"{option} {key}"
    nested: Any = pages.scalar(value)
    for part in reversed(location):
        nested = {part: nested}
    return dict(nested)


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay `over` on `base`: mappings key by key, everything else replaced."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else value
    return merged
