"""`bench check-data`: does a data set keep the harness's contract?"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lightning_bench.bench.cli import options
from lightning_bench.bench.cli.options import OutputFormat, echo_json, use_data_root
from lightning_bench.bench.errors import UserError
from lightning_bench.data.errors import DataError

if TYPE_CHECKING:
    from lightning_bench.data.dataset import DataSet

CHECKS_FAILED = 3


def check_data_command(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A data set's name, or a page, for all of its data."),
    ],
    sheet: Annotated[
        Path | None, typer.Option(help="Write a few examples to look at into this HTML file.")
    ] = None,
    data_root: options.DataRoot = None,
    output: OutputFormat = "table",
) -> int:
    """Check data of your own: splits disjoint, labels in range, order and ranks right."""
    use_data_root(data_root)
    entries = _entries(name)  # without torch, so that a wrong name is answered at once
    from lightning_bench.data import checks

    found = {title: checks.check(entry) for title, entry in entries.items()}
    results = {title: results for title, (results, _) in found.items()}
    failed = {title for title, of in results.items() if any(r.status == "failed" for r in of)}
    if sheet is not None:
        sheet.write_text("".join(page for _, page in found.values()), encoding="utf-8")
    if output == "json":
        echo_json({"data": title, **asdict(r)} for title, of in results.items() for r in of)
        return CHECKS_FAILED if failed else 0
    from rich.table import Table

    from lightning_bench.bench.cli.console import Console, styled

    styles = {"passed": "green", "failed": "red"}
    console = Console()
    for title, of in results.items():
        table = Table(box=None, show_header=False, pad_edge=False)
        for result in of:
            state = styled(result.status, styles[result.status])
            table.add_row(state, result.name, result.detail)
        console.print(table)
        verdict = "breaks the contract" if title in failed else "keeps the contract"
        console.print(f"\n{title} {verdict}\n")
    if sheet is not None:
        console.print(f"examples: {sheet}")
    return CHECKS_FAILED if failed else 0


def _entries(name: str) -> "dict[str, DataSet]":
    """The data sets of a page by their titles, or the one of this name."""
    from lightning_bench.bench.spec import DataSpec
    from lightning_bench.bench.study.inputs import dataset_of
    from lightning_bench.bench.study.load import load

    if name.endswith((".yaml", ".yml")):
        return dict(load(name).datasets)
    try:
        return {name: dataset_of(DataSpec(name=name))}
    except DataError as error:
        raise UserError(str(error)) from None
