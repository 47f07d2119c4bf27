"""`bench report`: the study's tables from its records alone."""

import os
from typing import Annotated, cast

import typer

from lightning_bench.bench.cli import options
from lightning_bench.bench.cli.options import demand_attempts, make_plan, open_study

_NAMES = {"markdown": "md", "latex": "tex", "schema": "schema.json"} | {
    name: name for name in ("md", "tex", "html", "csv", "parquet", "json", "png")
}


def report_command(
    context: typer.Context,
    name: options.StudyName,
    scale: options.Scale = None,
    settings: options.Settings = None,
    store: options.StoreFolder = options.DEFAULT_STORE,
    formats: Annotated[
        str,
        typer.Option("--format", help="Of md, latex, html, csv, parquet, json, schema, png."),
    ] = "md,latex,html,csv,parquet,json",
    against: Annotated[
        str | None,
        typer.Option(help="Printed rows beside ours: published (the page's), none, or a page."),
    ] = None,
) -> None:
    """Write a study's report from what is in the store, and print its tables."""
    # The products of a report are small: BLAS's threads would take longer to meet than to multiply.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from lightning_bench.bench.cli import build_report
    from lightning_bench.bench.cli.console import Console
    from lightning_bench.bench.errors import UserError
    from lightning_bench.common.messages import nearest
    from lightning_bench.common.processes import free_at_exit
    from lightning_bench.reports.figures import drawing_process
    from lightning_bench.reports.render import terminal
    from lightning_bench.reports.render.write import Format, kinds_of_figures

    chosen = []
    for word in formats.split(","):
        if word.strip() not in _NAMES:
            raise UserError(f"unknown format {word.strip()!r}{nearest(word, _NAMES)}")
        chosen.append(_NAMES[word.strip()])
    files = cast("list[Format]", chosen)
    study, opened = open_study(name, scale, settings, store)
    changes = [*(settings or []), *([f"--against {against}"] if against else [])]
    target = build_report.folder(study, opened, changes)
    console = Console()
    with drawing_process.open_drawing_process(
        kinds_of_figures(files)
    ) as drawing:  # before there is much to fork
        plan = make_plan(study, opened)
        if plan.runs:
            demand_attempts(plan, opened)
        build_report.make(
            plan,
            opened,
            target,
            files,
            afresh=True,
            against=against,
            show=lambda report: console.print(terminal.render(report)),
            drawing=drawing,
        )
    written = " ".join(
        "figures/*.png" if suffix == "png" else f"report.{suffix}"
        for suffix in dict.fromkeys(chosen)
    )
    console.print(f"\nwritten to {target}: {written}", soft_wrap=True)
    if context.obj:
        free_at_exit(plan)
