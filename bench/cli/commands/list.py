"""`bench list`: what there is to run, by kind."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import typer

from lightning_bench.bench.cli.options import echo_json
from lightning_bench.bench.errors import UserError

Kind = Literal["studies", "models", "data"]
Format = Literal["table", "json", "markdown"]


def list_command(
    kind: Annotated[Kind | None, typer.Argument(help="Only these; all by default.")] = None,
    output: Annotated[
        Format, typer.Option("--format", help="How to print it; markdown is for models.")
    ] = "table",
) -> None:
    """List studies, models and data sets."""
    if output == "markdown":
        from lightning_bench.models.registry import catalogue as model_catalogue

        if kind != "models":
            raise UserError(
                "only models have a Markdown table: bench list models --format markdown"
            )
        typer.echo(model_catalogue.markdown_table(), nl=False)
        return
    rows = {k: rows() for k, rows in _ROWS.items() if kind in (None, k)}
    if output == "json":
        plain = [row if kind else {"kind": k, **row} for k in rows for row in rows[k]]
        echo_json(plain)
        return
    from rich.table import Table

    from lightning_bench.bench.cli.console import Console

    console = Console()
    for k, listed in rows.items():
        table = Table(title=k, title_justify="left", title_style="bold", box=None, pad_edge=False)
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

    shown = ("name", "title", "family", "kind", "parameters", "flops", "summary")
    return _facts(model_catalogue.entries(), shown, kind="reads")


def _data() -> list[dict[str, Any]]:
    from lightning_bench.data import catalogue as data_catalogue

    shown = ("name", "title", "kind", "classes", "splits", "metrics", "source", "licence")
    return _facts(data_catalogue.entries(), shown, kind="holds")


def _facts(entries: Mapping[str, Any], shown: Iterable[str], **called: str) -> list[dict[str, Any]]:
    """These facts of each entry, some of which are called otherwise here."""
    return [
        {called.get(name, name): getattr(entry, name) for name in shown}
        for entry in entries.values()
    ]


_ROWS = {"studies": _studies, "models": _models, "data": _data}
_COLUMNS = {
    "studies": {"name": "left", "title": "left", "scales": "left"},
    "models": {"name": "left", "parameters": "right", "reads": "left", "summary": "left"},
    "data": {"name": "left", "classes": "right", "splits": "left", "title": "left"},
}


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case int():
            return f"{value:,}"
        case dict():
            return ", ".join(f"{count:,} {name}" for name, count in value.items())
        case list() | tuple():
            return ", ".join(str(item) for item in value)
    return str(value)
