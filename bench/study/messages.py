"""Mistakes in a page, as pydantic finds them, in one line each."""

from collections.abc import Collection
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from lightning_bench.bench.errors import nearest
from lightning_bench.bench.study.page import Location, Where


def explain(
    error: ValidationError, schema: type[BaseModel], where: Where, hidden: Collection[str] = ()
) -> str:
    """The first mistake in one line: where it stands, what it is, the nearest valid name.

    `hidden` are fields of the schema itself that nobody may give.
    """
    mistakes = error.errors(include_url=False)
    # A misspelt key is the cause, the key it should have been is then missing.
    first = next((m for m in mistakes if m["type"] == "extra_forbidden"), mistakes[0])
    at: Location = first["loc"]
    path = ".".join(str(part) for part in at)
    spot = where(at)
    if first["type"] == "extra_forbidden":
        return f"{spot}: unknown key {path!r}{nearest(at[-1], _fields(schema, at[:-1], hidden))}"
    if first["type"] == "missing":
        return f"{spot}: the key {path!r} is missing"
    if first["type"] == "literal_error":
        valid = get_args(_annotation(schema, at))
        return f"{spot}: {path} can't be {first['input']!r}{nearest(first['input'], valid)}"
    message = first["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    given = "" if isinstance(first["input"], dict | list) else f", not {first['input']!r}"
    return f"{spot}: {path}: {message}{given}"


def _annotation(schema: Any, at: Location) -> Any:
    """The declared type of the value at a location."""
    for part in at:
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            field = schema.model_fields.get(str(part))
            schema = field.annotation if field else Any
        elif get_origin(schema) in {dict, list}:
            schema = get_args(schema)[-1]
        # What is optional is of its first type, as far as a mistake in it goes.
        while get_origin(schema) in {Annotated, UnionType}:
            schema = get_args(schema)[0]
    return schema


def _fields(schema: Any, at: Location, hidden: Collection[str]) -> list[str]:
    found = _annotation(schema, at)
    is_model = isinstance(found, type) and issubclass(found, BaseModel)
    return sorted(found.model_fields.keys() - (() if at else hidden)) if is_model else []
