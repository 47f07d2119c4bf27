"""The typed arguments of a variant, read from its signature and checked against values.

Free of torch: study pages are checked before anything heavy is imported.
"""

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from lightning_bench.common.messages import nearest
from lightning_bench.models.errors import ModelError

Value = int | float | bool | str | None
KINDS: dict[type, Literal["int", "float", "bool", "str"]] = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
}


@dataclass(frozen=True)
class Argument:
    """One keyword argument of a variant: its kind, default, and choices if it has them."""

    name: str
    kind: Literal["int", "float", "bool", "str"]
    default: Value
    choices: tuple[Value, ...] | None = None
    optional: bool = False

    def coerce(self, value: object, where: str) -> Value:
        """Return the value in this argument's kind, or raise ModelError that names `where`."""
        if value is None and self.optional:
            return None
        result = self._convert(value)
        if result is None:
            orelse = " or null" if self.optional else ""
            raise ModelError(
                f"{where}: {self.name} takes {self._kind_in_words}{orelse}, not {value!r}"
            )
        if self.choices is not None and result not in self.choices:
            choices = ", ".join(map(str, self.choices))
            hint = nearest(str(result), map(str, self.choices), most=1)
            raise ModelError(f"{where}: {self.name} is one of {choices}, not {result!r}{hint}")
        return result

    @property
    def _kind_in_words(self) -> str:
        return {"int": "an integer", "float": "a number", "bool": "true or false", "str": "a text"}[
            self.kind
        ]

    def _convert(self, value: object) -> Value:
        if isinstance(value, bool):  # a bool is an int to Python, but not to a reader
            return value if self.kind == "bool" else None
        if self.kind == "float" and isinstance(value, int | float | str):
            try:  # YAML 1.1 reads 1e-3 (no dot) as a text
                return float(value)
            except ValueError:
                return None
        if self.kind == "int" and isinstance(value, float) and value.is_integer():
            return int(value)
        if self.kind == "int":
            return value if isinstance(value, int) else None
        return value if self.kind == "str" and isinstance(value, str) else None


def check(
    where: str, known: Mapping[str, Argument], given: Mapping[str, object]
) -> dict[str, Value]:
    """Return the given arguments coerced to their kinds, without those that equal the default."""
    for name in given:
        if name not in known:
            hint = nearest(name, known, most=1) or f" (it takes: {', '.join(known)})"
            raise ModelError(f"{where}: there is no argument {name!r}{hint}")
    values = {name: known[name].coerce(value, where) for name, value in given.items()}
    return {name: value for name, value in values.items() if value != known[name].default}


def read_signature(function: Callable[..., Any]) -> dict[str, Argument]:
    """Read a variant's arguments from its keyword-only parameters."""
    # Of a class, the hints of its fields are not those of its arguments.
    arguments_of = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    hints = get_type_hints(arguments_of)
    where = function.__name__
    arguments: dict[str, Argument] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is inspect.Parameter.empty:
            raise ModelError(f"{where}: the argument {parameter.name!r} needs a default")
        if parameter.name not in hints:
            raise ModelError(f"{where}: the argument {parameter.name!r} needs a type")
        hint = hints[parameter.name]
        arguments[parameter.name] = _read(where, parameter.name, hint, parameter.default)
    return arguments


def _read(where: str, name: str, hint: Any, default: Value) -> Argument:
    optional = get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)
    if optional:
        (hint,) = [member for member in get_args(hint) if member is not type(None)]
    choices = get_args(hint) if get_origin(hint) is Literal else None
    plain = type(choices[0]) if choices else hint
    if plain not in KINDS:
        raise ModelError(f"{where}: {name} must be int, float, bool, str or a Literal of these")
    return Argument(name, KINDS[plain], default, choices, optional)
