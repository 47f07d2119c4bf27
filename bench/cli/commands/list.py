"""`bench list`: what there is to run, by kind."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from lightning_bench.bench.cli.options import echo_json
from lightning_bench.bench.errors import UserError


class Kind(StrEnum):
    """What can be listed."""

    STUDIES = "studies"
    MODELS = "models"
    DATA = "data"


class ListFormat(StrEnum):
    """How a list is printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


def list_command(
    kind: Annotated[Kind | None, typer.Argument(help="Only these; all by default.")] = None,
    output: Annotated[
        ListFormat, typer.Option("--format", help="How to print it; markdown is for models.")
    ] = ListFormat.TABLE,
) -> None:
    """List studies, models and data sets."""
    if output is ListFormat.MARKDOWN:
        from lightning_bench.models.registry import catalogue as model_catalogue

        if kind is not Kind.MODELS:
            raise UserError(
                "only models have a Markdown table: bench list models --format markdown"
            )
        typer.echo(model_catalogue.markdown_table(), nl=False)
        return
    rows = {k: _ROWS[k]() for k in Kind if kind in (None, k)}
    if output is ListFormat.JSON:
        plain = [row if kind else {"kind": k.value, **row} for k in rows for row in rows[k]]
        echo_json(plain)
        return
    from rich.table import Table

    from lightning_bench.bench.cli.console import Console

    console = Console()
    for k, listed in rows.items():
        table = Table(
            title=k.value, title_justify="left", title_style="bold", box=None, pad_edge=False
        )
        for column, justify in _COLUMNS[k].items():
            table.add_column(column, justify=justify, no_wrap=column == "name")  # type: ignore[arg-type]
        for row in listed:
            table.add_row(*(_cell(row[column]) for column in _COLUMNS[k]))
        console.print(table, "")


def _studies() -> list[dict[str, Any]]:
    from lightning_bench import studies
    from lightning_bench.bench.study import page
    from lightning_bench.bench.study.load import scales

    rows = []
    for name, path in studies.pages().items():
        title = page.load(path).data.get("title", "")
        rows.append({"name": name, "title": title, "scales": scales(path)})
    return rows


def _models() -> list[dict[str, Any]]:
    from lightning_bench.models.registry import catalogue as model_catalogue

    return [
        {
            "name": entry.name,
            "title": entry.title,
            "family": entry.family,
            "reads": entry.kind,
            "parameters": entry.parameters,
            "flops": entry.flops,
            "summary": entry.summary,
        }
        for entry in model_catalogue.entries().values()
    ]


def _data() -> list[dict[str, Any]]:
    from lightning_bench.data import catalogue as data_catalogue

    return [
        {
            "name": entry.name,
            "title": entry.title,
            "holds": entry.kind,
            "classes": entry.classes,
            "splits": dict(entry.splits),
            "metrics": list(entry.metrics),
            "source": entry.source,
            "licence": entry.licence,
        }
        for entry in data_catalogue.entries().values()
    ]


_ROWS = {Kind.STUDIES: _studies, Kind.MODELS: _models, Kind.DATA: _data}
_COLUMNS = {
    Kind.STUDIES: {"name": "left", "title": "left", "scales": "left"},
    Kind.MODELS: {"name": "left", "parameters": "right", "reads": "left", "summary": "left"},
    Kind.DATA: {"name": "left", "classes": "right", "splits": "left", "title": "left"},
}


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case int():
            return f"{value:,}"
        case dict():
            return ", ".join(f"{count:,} {name}" for name, count in value.items())
        case list():
            return ", ".join(str(item) for item in value)
    return str(value)
