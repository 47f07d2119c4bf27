"""`bench compare` and `bench diff`: two entries of a report, and two reports."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lightning_bench.bench.cli import options
from lightning_bench.bench.cli.options import make_plan, open_study
from lightning_bench.bench.errors import UserError
from lightning_bench.common.messages import nearest

if TYPE_CHECKING:
    from lightning_bench.reports.report import Report

ReportPath = Annotated[Path, typer.Argument(help="A report.json, or the folder that holds it.")]


def compare_command(
    name: options.StudyName,
    a: Annotated[str, typer.Argument(metavar="A", help="An entry of the study.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    scale: options.Scale = None,
    settings: options.Settings = None,
    store: options.StoreFolder = options.DEFAULT_STORE,
) -> None:
    """Say in one paragraph what may be said of A against B: difference, interval, test, verdict."""
    study, opened = open_study(name, scale, settings, store)
    for label in (a, b):
        if label not in study.entries:
            raise UserError(f"{study.name} has no entry {label!r}{nearest(label, study.entries)}")
    if a == b:
        raise UserError(f"{a!r} can't be compared with itself")
    from lightning_bench.bench.cli import build_report
    from lightning_bench.reports.text.comparison import compare

    plan = make_plan(study, opened)
    target = build_report.folder(study, opened, settings or [])
    report = build_report.read_or_build(plan, opened, target)
    # A small study's report has compared all its models on the test examples; a large one's none.
    examples = None if report.examples else build_report.on_examples(plan, opened, a, b)
    paragraphs = compare(report, a, b, examples)
    if not paragraphs:
        raise UserError(f"{a} and {b} have no finished seed in common yet: bench run {study.name}")
    for paragraph in paragraphs:
        typer.echo(paragraph)


def diff_command(before: ReportPath, after: ReportPath) -> None:
    """Show what changed between two reports, and why: code, data, packages, hardware."""
    from lightning_bench.reports.text.report_diff import difference

    found = difference(_read(before), _read(after))
    if not found.results and not found.causes:
        typer.echo("nothing changed")
    for title, changes in (("results", found.results), ("behind them", found.causes)):
        if changes:
            typer.echo(f"{title}:")
            for change in changes:
                was, now = change.before or "(nothing)", change.after or "(nothing)"
                typer.echo(f"  {change.what}: {was} → {now}")


def _read(path: Path) -> "Report":
    from pydantic import ValidationError

    from lightning_bench.reports.report import Report

    file = path / "report.json" if path.is_dir() else path
    try:
        return Report.model_validate_json(file.read_bytes())
    except OSError as error:
        raise UserError(f"{file} can't be read: {error.strerror}") from None
    except ValidationError:
        raise UserError(f"{file} is no report of this version of bench") from None
