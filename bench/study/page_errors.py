"""Mistakes in a page, each with its place and in one line; pydantic's, too."""

from collections.abc import Collection
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lightning_bench.bench.study.page import Location
from lightning_bench.common.messages import nearest


class PageError(Exception):
    """A mistake at one place of a page; whoever loads the page says on which line that is."""

    def __init__(self, at: Location, message: str) -> None:
        super().__init__(message)
        self.at = at


def page_error(
    error: ValidationError,
    schema: type[BaseModel],
    inside: Location = (),
    hidden: Collection[str] = (),
) -> PageError:
    """The first mistake that pydantic found, with the nearest valid name.

    `inside` is the part of the page that was validated by the schema; `hidden` are fields of the
    schema itself that nobody may give.
    """
    mistakes = error.errors(include_url=False)
    # A misspelt key is the cause, the key it should have been is then missing.
    first = next((m for m in mistakes if m["type"] == "extra_forbidden"), mistakes[0])
    at: Location = first["loc"]
    return PageError((*inside, *at), _message(first, schema, at, hidden))


def _message(
    mistake: ErrorDetails, schema: type[BaseModel], at: Location, hidden: Collection[str]
) -> str:
    path, value = ".".join(map(str, at)), mistake["input"]
    match mistake["type"]:
        case "extra_forbidden":
            return f"unknown key {path!r}{nearest(at[-1], _fields(schema, at[:-1], hidden))}"
        case "missing":
            return f"the key {path!r} is missing"
        case "literal_error":
            return f"{path} can't be {value!r}{nearest(value, get_args(_annotation(schema, at)))}"
    message = mistake["msg"].removeprefix("Value error, ")
    shown = "" if isinstance(value, dict | list) else f", not {value!r}"
    return f"{path}: {message[:1].lower()}{message[1:]}{shown}"


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
    annotation = _annotation(schema, at)
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return []
    return sorted(annotation.model_fields.keys() - (() if at else hidden))
