"""A YAML page as plain data that remembers on which line each value stands."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any

import yaml

from lightning_bench.bench.errors import UserError
from lightning_bench.common.messages import first_line, visible

#: A page of at most so many bytes, of so many values once its aliases are followed, so deep.
_MOST_BYTES, _MOST_VALUES, _DEEPEST = 10**6, 10_000, 50
Location = tuple[str | int, ...]
#: Tells where in a page, or on the command line, a value was given.
Where = Callable[[Location], str]


class _Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
    """Parses YAML without any schema; the scalars of YAML 1.2's core schema are added below."""


class _Constructor(yaml.constructor.SafeConstructor):  # type: ignore[misc]
    """Makes Python's values of nodes; of integers as YAML 1.2 reads them: 010 is 10."""

    def integer(self, node: yaml.ScalarNode) -> int:
        """`0o17` and `0x1F` are octal and hexadecimal, everything else is decimal."""
        text = str(self.construct_scalar(node))
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


_Constructor.add_constructor("tag:yaml.org,2002:int", _Constructor.integer)
#: The core schema's scalars, with the characters that they can begin with.
_SCALARS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
}
for _tag, (_form, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_form})$"), _first)


@dataclass(frozen=True)
class Page:
    """The page's contents and the line of every value, by its path of keys and indices."""

    path: Path
    data: dict[str, Any]
    lines: dict[Location, int]

    def where(self, *locations: Location) -> str:
        """Return `path:line` of the first that is in the page, or of the last's nearest parent."""
        for location in locations:
            if location in self.lines:
                return f"{self.path}:{self.lines[location]}"
        shortened = locations[-1]
        while shortened and shortened not in self.lines:
            shortened = shortened[:-1]
        return f"{self.path}:{self.lines.get(shortened, 1)}"


def load(path: Path) -> Page:
    """Read a page; bad syntax, a key given twice or no mapping at all is a UserError."""
    try:
        status = path.stat()
        if not S_ISREG(status.st_mode):
            raise UserError(f"{path}: not a regular file")
        if status.st_size > _MOST_BYTES:
            raise UserError(f"{path}: larger than a page may be, {_MOST_BYTES // 10**6} MB")
        node = _compose(path.read_text(encoding="utf-8"), path)
        lines: dict[Location, int] = {}
        data = _construct(node, (), lines, path) if node else {}
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{path}:{line}: not valid YAML: {error.problem}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else first_line(error)
        raise UserError(f"{path}: can't be read: {reason}") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}:1: a study page is a mapping of keys to values")
    return Page(path, data, lines)


def scalar(text: str) -> Any:
    """Read one value as a page would, for `--set key=value`."""
    try:
        node = _compose(text, Path("--set"))
        return _construct(node, (), {}, Path("--set")) if node else None
    except yaml.YAMLError:
        return text


def _compose(text: str, path: Path) -> yaml.Node | None:
    """The nodes of a page; what is nested too deep is refused, before the parser recurses."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                line = event.start_mark.line + 1
                raise UserError(f"{path}:{line}: nested deeper than {_DEEPEST} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    return node


def _construct(node: yaml.Node, at: Location, lines: dict[Location, int], path: Path) -> Any:
    lines[at] = node.start_mark.line + 1
    if len(at) > _DEEPEST:
        raise UserError(f"{path}:{lines[at]}: an alias in the page refers to itself")
    if len(lines) > _MOST_VALUES:
        raise UserError(
            f"{path}:{lines[at]}: more than {_MOST_VALUES:,} values, with those of each alias"
        )
    if isinstance(node, yaml.MappingNode):
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            _demand_text(key, line, path)
            if key in result:
                raise UserError(f"{path}:{line}: {key!r} is given twice")
            result[key] = _construct(value_node, (*at, key), lines, path)
            lines[(*at, key)] = line
        return result
    if isinstance(node, yaml.SequenceNode):
        return [_construct(item, (*at, i), lines, path) for i, item in enumerate(node.value)]
    _demand_text(str(node.value), lines[at], path)
    try:
        return _Constructor().construct_object(node)
    except (ValueError, OverflowError) as error:
        raise UserError(f"{path}:{lines[at]}: no number: {first_line(error)}") from None


def _demand_text(text: str, line: int, path: Path) -> None:
    """Raise a UserError where a terminal would obey a part of a text."""
    if visible(text) != text:
        raise UserError(f"{path}:{line}: a control character in '{visible(text)}'")
