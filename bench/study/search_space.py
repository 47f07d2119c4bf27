"""Search space: the hyperparameters that a search may change, and between which values.

A page writes a parameter as `lr: {float: [1e-4, 1e-1], log: true}`, `args.depth: {int: [1, 4]}` or
`optimizer: {choice: [sgd, adamw]}`; `when: {optimizer: sgd}` gives it a part only where another
setting has that value. Names are those of the recipe (`lr`, or `recipe.lr`) and, behind `args.`,
those of the model, nested ones too, as `args.optimizer.init_args.lr`. Pure: Optuna never comes in
here.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import ValidationError, model_validator

from lightning_bench.bench.spec import Recipe, Scalar, Settings
from lightning_bench.common.messages import nearest
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import arguments
from lightning_bench.models.registry.arguments import Argument

ARGS = "args."
#: Settings of a recipe that are mappings; a space names what is in them, behind a dot.
NESTED = ("loss_args", "optimizer_args", "schedule_args")
DISTRIBUTIONS = ("float", "int", "choice")
#: A value is at the edge of a range if it is this close to a bound, as a fraction of the range.
EDGE = 0.02

Values = dict[str, Scalar]


class BadSpace(ValueError):
    """A mistake at one key of a space."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class Parameter(Settings):
    """How one setting is drawn, and when it has a part at all."""

    kind: Literal["float", "int", "choice"]
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    step: float | None = None
    choices: tuple[Scalar, ...] = ()
    when: dict[str, tuple[Scalar, ...]] = {}

    @model_validator(mode="before")
    @classmethod
    def _from_page(cls, given: Any) -> Any:
        """Read `{float: [low, high], log: true}`; what pydantic itself writes passes through."""
        if not isinstance(given, dict) or "kind" in given:
            return given
        known = {*DISTRIBUTIONS, "log", "step", "when"}
        distributions = [key for key in given if key in DISTRIBUTIONS]
        if unknown := [key for key in given if key not in known]:
            what = "key" if distributions else "distribution"
            names = ("log", "step", "when") if distributions else DISTRIBUTIONS
            raise ValueError(f"unknown {what} {unknown[0]!r}{nearest(unknown[0], names)}")
        if len(distributions) != 1:
            raise ValueError(f"one distribution is wanted: {', '.join(DISTRIBUTIONS)}")
        kind, values = distributions[0], given[distributions[0]]
        when = given.get("when") or {}
        if not isinstance(when, dict):
            raise ValueError("when is a mapping, as in {optimizer: sgd}")
        rest = {key: given[key] for key in ("log", "step") if key in given}
        rest["when"] = {
            _plain(key): tuple(value) if isinstance(value, list) else (value,)
            for key, value in when.items()
        }
        if kind == "choice":
            return {"kind": kind, "choices": _choices(values, rest), **rest}
        low, high = _bounds(values, kind)
        return {"kind": kind, "low": low, "high": high, **rest}

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.kind == "choice":
            return self
        if self.low >= self.high:
            how = "is above" if self.low > self.high else "equals"
            raise ValueError(f"low {self.low:g} {how} high {self.high:g}")
        if self.log and self.low <= 0:
            raise ValueError(f"a log scale needs a low above 0, not {self.low:g}")
        if self.step is not None:
            if self.log:
                raise ValueError("a log scale has no step")
            if self.step <= 0 or (self.kind == "int" and self.step % 1):
                raise ValueError(f"step {self.step:g} is no step of {self.kind}s")
            steps = (self.high - self.low) / self.step
            if abs(steps - round(steps)) > 1e-9:
                raise ValueError(
                    f"steps of {self.step:g} from {self.low:g} never reach {self.high:g}"
                )
        return self

    def bounds(self) -> tuple[Scalar, ...]:
        """The values that validation tries for all others: every choice, or both ends."""
        if self.kind == "choice":
            return self.choices
        return tuple(self._of_kind(value) for value in (self.low, self.high))

    def contains(self, value: Scalar) -> bool:
        """Whether the value could be drawn."""
        if self.kind == "choice":
            return any(_same(value, choice) for choice in self.choices)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if self.kind == "int" and value % 1:
            return False
        steps = 0.0 if self.step is None else (value - self.low) / self.step
        return self.low <= value <= self.high and abs(steps - round(steps)) < 1e-9

    def grid(self) -> list[Scalar] | None:
        """All values of a grid; None for a continuous range."""
        count = self.grid_size()
        return None if count is None else [self.grid_value(i) for i in range(count)]

    def grid_value(self, number: int) -> Scalar:
        """One value of a grid, counted from 0."""
        if self.kind == "choice":
            return self.choices[number]
        return self._of_kind(self.low + number * (self.step or 1.0))

    def grid_size(self) -> int | None:
        """How many values a grid has; None for a continuous range."""
        if self.kind == "choice":
            return len(self.choices)
        step = self.step or (1.0 if self.kind == "int" and not self.log else None)
        return None if step is None else round((self.high - self.low) / step) + 1

    def edge(self, value: Scalar) -> Literal["low", "high"] | None:
        """The end of the range that the value is at.

        A low of 0, and one of 1 for whole numbers, is no edge: nothing is below it.
        """
        if self.kind == "choice" or isinstance(value, bool | str) or value is None:
            return None
        low, high, at = self.low, self.high, float(value)
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(at)
        place = (at - low) / (high - low)
        if place >= 1 - EDGE:
            return "high"
        lowest = self.low == 0 or (self.kind == "int" and self.low == 1)
        return "low" if place <= EDGE and not lowest else None

    def __str__(self) -> str:
        """The range in words."""
        if self.kind == "choice":
            return "one of " + ", ".join(map(str, self.choices))
        how = ", log" if self.log else f", steps of {self.step:g}" if self.step else ""
        return f"{self.low:g} to {self.high:g}{how}"

    def _of_kind(self, value: float) -> int | float:
        return round(value) if self.kind == "int" else value


@dataclass(frozen=True)
class Space:
    """The parameters of one entry in the order of drawing: after those that `when` names."""

    parameters: Mapping[str, Parameter]
    settings: Mapping[str, Scalar]  # of the entry as the page has it, by the same names

    def active(self, name: str, values: Mapping[str, Scalar]) -> bool:
        """Whether its `when` holds, given the values drawn so far."""
        return all(
            any(_same(values.get(key, self.settings.get(key)), value) for value in wanted)
            for key, wanted in self.parameters[name].when.items()
        )

    def own(self) -> Values:
        """The entry's own values: the first trial."""
        return {
            name: _number(self.settings[name], parameter)
            for name, parameter in self.parameters.items()
            if self.active(name, self.settings)
        }

    def grid_size(self) -> int | None:
        """How many points the full grid has; None where a parameter can't be counted."""
        sizes = [parameter.grid_size() for parameter in self.parameters.values()]
        counted = [size for size in sizes if size is not None]
        return math.prod(counted) if len(counted) == len(sizes) else None


def merge_spaces(
    shared: Mapping[str, Parameter | None],
    own: Mapping[str, Parameter | None],
    recipe: Recipe,
    args: Mapping[str, Any],
    known: Mapping[str, Argument],
    from_data: set[str],
) -> Space:
    """An entry's space: the shared one with the entry's own laid over it (null takes one out).

    Shared parameters `args.…` that the model hasn't got are left out; in an entry's own space they
    are a BadSpace, like every other mistake.
    """
    settings = _settings(recipe) | {
        ARGS + name: args.get(name, argument.default)
        for name, argument in known.items()
        if name not in from_data
    }
    settings |= {ARGS + name: value for name, value in _leaves(args) if "." in name}
    merged: dict[str, Parameter] = {}
    for source in (shared, own):
        for key, parameter in source.items():
            name = _plain(key)
            if name not in settings and not (source is shared and name.startswith(ARGS)):
                raise BadSpace(key, _unknown(name, settings, from_data))
            if parameter is None:
                merged.pop(name, None)
            elif name in settings:
                merged[name] = parameter
    if not merged:
        raise BadSpace("", "nothing to tune: give it a space")
    for name, parameter in merged.items():
        _fits(name, parameter, recipe, known)
    space = Space(_ordered(merged, settings), settings)
    for name, value in space.own().items():
        if not merged[name].contains(value):
            raise BadSpace(
                name,
                f"the first trial is the recipe's own {name} {value}, which is not {merged[name]}",
            )
    return space


def apply(
    values: Mapping[str, Scalar],
    recipe: Recipe,
    args: Mapping[str, Any],
    known: Mapping[str, Argument],
) -> tuple[Recipe, dict[str, Any]]:
    """The recipe and the model's arguments with these values, arguments at default left out."""
    settings = {name: value for name, value in values.items() if not name.startswith(ARGS)}
    changed = Recipe.model_validate(with_settings(recipe.model_dump(exclude_unset=True), settings))
    return changed, arguments.check("model", known, with_arguments(args, values))


def with_arguments(args: Mapping[str, Any], values: Mapping[str, Scalar]) -> dict[str, Any]:
    """A model's arguments with those of these values that are such, nested ones in their places."""
    changed = dict(args)
    for name, value in values.items():
        if name.startswith(ARGS):
            changed = _with(changed, name.removeprefix(ARGS).split("."), value)
    return changed


def _with(of: Mapping[str, Any], path: list[str], value: Scalar) -> dict[str, Any]:
    """A mapping with another value at this path into it."""
    first, *rest = path
    return {**of, first: _with(of.get(first) or {}, rest, value) if rest else value}


def _leaves(of: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """What stands in nested mappings, by dotted names."""
    for key, value in of.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _settings(recipe: Recipe) -> dict[str, Any]:
    """What a space may name of a recipe; arguments that it gives as `optimizer_args.NAME`."""
    given: dict[str, Any] = recipe.model_dump()
    for name in NESTED:
        given |= {f"{name}.{key}": value for key, value in given.pop(name).items()}
    return given


def with_settings(recipe: dict[str, Any], values: Mapping[str, Scalar]) -> dict[str, Any]:
    """A recipe's settings with these values; `optimizer_args.NAME` changes that one alone."""
    changed = dict(recipe)
    for name, value in values.items():
        setting, dot, key = name.partition(".")
        changed[setting] = {**changed.get(setting, {}), key: value} if dot else value
    return changed


def _fits(name: str, parameter: Parameter, recipe: Recipe, known: Mapping[str, Argument]) -> None:
    """Every end and every choice must be a value that the setting can have."""
    for value in parameter.bounds():
        try:
            if name.startswith(ARGS) and "." in name.removeprefix(ARGS):
                continue  # told when the object is made, before anything runs
            if name.startswith(ARGS):
                known[name.removeprefix(ARGS)].coerce(value, "the model")
            else:
                Recipe.model_validate(with_settings(recipe.model_dump(), {name: value}))
        except (ModelError, ValidationError) as error:
            why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise BadSpace(name, f"{name} can't be {value}: {why[:1].lower()}{why[1:]}") from None


def _ordered(
    merged: Mapping[str, Parameter], settings: Mapping[str, Scalar]
) -> Mapping[str, Parameter]:
    """The parameters, each behind those that it depends on."""
    ordered: dict[str, Parameter] = {}

    def place(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise BadSpace(name, f"{' needs '.join([*path, name])}: a circle")
        for key, wanted in merged[name].when.items():
            if key not in settings:
                raise BadSpace(name, f"when: {_unknown(key, settings, set())}")
            if key in merged:
                for value in wanted:
                    if not merged[key].contains(value):
                        raise BadSpace(name, f"when: {key} is never {value}, but {merged[key]}")
                place(key, (*path, name))
        ordered.setdefault(name, merged[name])

    for name in merged:
        place(name, ())
    return ordered


def _unknown(name: str, settings: Mapping[str, Scalar], from_data: set[str]) -> str:
    bare = name.removeprefix(ARGS)
    if bare in from_data:
        return f"{bare!r} comes from the data set"
    args = [key for key in settings if key.startswith(ARGS)]
    among = args if name.startswith(ARGS) else [key for key in settings if key not in args]
    if name.partition(".")[0] in NESTED:
        return f"{name} has no value in the recipe, which is the first trial's: give it one there"
    hint = f"; did you mean {ARGS}{name}?" if ARGS + name in settings else nearest(name, among)
    return f"{name!r} is no hyperparameter of this model or its recipe{hint}"


def _plain(key: str) -> str:
    return key.removeprefix("recipe.")


def _choices(values: Any, rest: Mapping[str, Any]) -> tuple[Any, ...]:
    if not isinstance(values, list) or len(values) < 2:
        raise ValueError("choice takes a list of two values or more")
    if given := sorted({"log", "step"} & rest.keys()):
        raise ValueError(f"a choice has no {given[0]}")
    if any(_same(a, b) for i, a in enumerate(values) for b in values[:i]):
        raise ValueError("a choice is given twice")
    return tuple(values)


def _bounds(values: Any, kind: str) -> Iterator[float]:
    numbers = int if kind == "int" else int | float
    right = isinstance(values, list) and len(values) == 2
    if not right or not all(isinstance(v, numbers) and not isinstance(v, bool) for v in values):
        raise ValueError(f"{kind} takes [low, high], two numbers")
    return iter([float(value) for value in values])


def _same(a: Scalar, b: Scalar) -> bool:
    """Equal values of one kind: 1 is 1.0, but true is not 1."""
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def _number(value: Scalar, parameter: Parameter) -> Scalar:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if parameter.kind == "float" and is_number else value  # type: ignore[arg-type]
