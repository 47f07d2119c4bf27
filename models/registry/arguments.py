"""The typed arguments of a variant, read from its signature and checked against values.

Free of torch: study pages are checked before anything heavy is imported.
"""

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from lightning_bench.common.messages import nearest
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry.data_arguments import fact_of

#: What a page can write: a scalar, or lists and mappings of such, as deep as they go.
Value = Any
#: The argument that stands for all others, of a function with **kwargs.
OTHERS = "**"
Kind = Literal["int", "float", "bool", "str", "any"]
KINDS: dict[type, Literal["int", "float", "bool", "str"]] = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
}


@dataclass(frozen=True)
class Argument:
    """One keyword argument of a variant: its kind, default, and choices if it has them.

    Of a user's own network it may be of any kind, have no default (`required`), or be filled from
    the data set's `fact` where the page doesn't give it.
    """

    name: str
    kind: Kind
    default: Value
    choices: tuple[Value, ...] | None = None
    optional: bool = False
    required: bool = False
    fact: str = ""

    def coerce(self, value: object, where: str) -> Value:
        """Return the value in this argument's kind, or raise ModelError that names `where`."""
        if self.kind == "any" or self._is_fact(value) or (value is None and self.optional):
            return value
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

    def keeps(self, value: Value) -> bool:
        """Whether a run's key has to name the value: not where it is what would be taken anyway."""
        return self.required or bool(self.fact) or value != self.default

    def _is_fact(self, value: object) -> bool:
        """Whether it names a fact of the data, in a user's own network."""
        own = self.required or self.fact or self.kind == "any"
        return bool(own) and isinstance(value, str) and value.startswith("{")

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
    values: dict[str, Value] = {}
    for name, value in given.items():
        argument = find(where, known, name)
        coerced = argument.coerce(value, where)
        if argument.keeps(coerced):
            values[name] = coerced
    return values


def find(where: str, known: Mapping[str, Argument], name: str) -> Argument:
    """The argument of this name; any will do for a function with **kwargs."""
    if name in known:
        return known[name]
    if OTHERS in known:
        return Argument(name, "any", None, required=True)
    hint = nearest(name, known, most=1) or f" (it takes: {', '.join(known)})"
    raise ModelError(f"{where}: there is no argument {name!r}{hint}")


def missing(known: Mapping[str, Argument], given: Mapping[str, object]) -> list[str]:
    """The arguments without a default that neither the page nor the data gives."""
    return [
        argument.name
        for argument in known.values()
        if argument.required and not argument.fact and argument.name not in given
    ]


def needs(lacking: list[str]) -> str:
    """What a page has to give, in words, after the model's name."""
    example = ", ".join(f"{name}: …" for name in lacking)
    return f" needs {', '.join(lacking)}, as in `args: {{{example}}}`"


def read_signature(function: Callable[..., Any]) -> dict[str, Argument]:
    """Read a variant's arguments from its keyword-only parameters."""
    hints = get_type_hints(function)
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


def read_any_signature(function: Callable[..., Any]) -> dict[str, Argument]:
    """Read the arguments of whatever is called: typed or not, with defaults or without."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of a compiled function
        return {OTHERS: Argument(OTHERS, "any", None)}
    # Of a class, the hints of its fields are not those of its arguments.
    arguments_of = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]
    try:
        hints = get_type_hints(arguments_of)
    except Exception:  # noqa: BLE001 -- a name of another module, under TYPE_CHECKING
        hints = {}
    arguments: dict[str, Argument] = {}
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            arguments[OTHERS] = Argument(OTHERS, "any", None)
        elif parameter.kind is not inspect.Parameter.VAR_POSITIONAL:
            arguments[parameter.name] = _lenient(parameter, hints.get(parameter.name))
    return arguments


def _lenient(parameter: inspect.Parameter, hint: Any) -> Argument:
    name, fact = parameter.name, fact_of(parameter.name)
    required = parameter.default is inspect.Parameter.empty
    default = None if required else _plain(parameter.default)
    try:
        typed = _read("", name, hint, default)
    except (ModelError, ValueError):  # no hint, or one of more than a scalar
        return Argument(name, "any", default, required=required, fact=fact)
    optional = typed.optional or (default is None and not required)
    return replace(typed, optional=optional, required=required, fact=fact)


def _plain(default: Any) -> Value:
    """A default as a page could write it; of what it can't, a name in angle brackets."""
    if default is None or type(default) in KINDS:
        return default
    if isinstance(default, list | tuple):
        return [_plain(each) for each in default]
    return f"<{getattr(default, '__name__', type(default).__name__)}>"


def _read(where: str, name: str, hint: Any, default: Value) -> Argument:
    optional = get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)
    if optional:
        (hint,) = [member for member in get_args(hint) if member is not type(None)]
    choices = get_args(hint) if get_origin(hint) is Literal else None
    plain = type(choices[0]) if choices else hint
    if plain not in KINDS:
        raise ModelError(f"{where}: {name} must be int, float, bool, str or a Literal of these")
    return Argument(name, KINDS[plain], default, choices, optional)
