"""`bench check-model`: does a model keep the harness's contract?"""

from dataclasses import asdict
from typing import Annotated

import typer

from lightning_bench.bench.cli.options import OutputFormat, echo_json

CHECKS_FAILED = 3


def check_model_command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A model's name, or module:function of yours.")
    ],
    output: OutputFormat = "table",
) -> int:
    """Check a model of your own on a CPU, in about a minute: shapes, gradients, state and more."""
    from lightning_bench.models.registry import catalogue as model_catalogue

    model_catalogue.find(name)  # without torch, so that a wrong name is answered at once
    from lightning_bench.models.registry.contract import check

    results = check(name)
    failed = sum(result.status == "failed" for result in results)
    if output == "json":
        echo_json(asdict(result) for result in results)
    else:
        from rich.table import Table

        from lightning_bench.bench.cli.console import Console, styled

        styles = {"passed": "green", "failed": "red", "skipped": "yellow"}
        table = Table(box=None, show_header=False, pad_edge=False)
        for result in results:
            state = styled(result.status, styles[result.status])
            table.add_row(state, result.name, result.detail)
        console = Console()
        console.print(table)
        verdict = "keeps the contract" if not failed else f"breaks it in {failed} of {len(results)}"
        console.print(f"\n{name} {verdict}")
    return CHECKS_FAILED if failed else 0
