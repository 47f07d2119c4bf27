"""The typer application, and how errors become one line and an exit code."""

import gc
import sys
from typing import Annotated

import typer

import lightning_bench
from lightning_bench.bench.cli import interruption
from lightning_bench.bench.cli.commands.cancel import cancel_command
from lightning_bench.bench.cli.commands.check import check_command
from lightning_bench.bench.cli.commands.check_data import check_data_command
from lightning_bench.bench.cli.commands.check_device import check_device_command
from lightning_bench.bench.cli.commands.check_model import check_model_command
from lightning_bench.bench.cli.commands.compare import compare_command, diff_command
from lightning_bench.bench.cli.commands.describe import describe_command
from lightning_bench.bench.cli.commands.list import list_command
from lightning_bench.bench.cli.commands.logs import logs_command
from lightning_bench.bench.cli.commands.measure import measure_command
from lightning_bench.bench.cli.commands.plan import plan_command
from lightning_bench.bench.cli.commands.prepare import prepare_command
from lightning_bench.bench.cli.commands.rehearse import rehearse_command
from lightning_bench.bench.cli.commands.report import report_command
from lightning_bench.bench.cli.commands.reproduce import reproduce_command
from lightning_bench.bench.cli.commands.run import run_command
from lightning_bench.bench.cli.commands.status import status_command
from lightning_bench.bench.cli.commands.sync import sync_command
from lightning_bench.bench.errors import UserError
from lightning_bench.data.errors import DataError
from lightning_bench.models.errors import ModelError

EXIT_CODES = """\
Exit codes: 0 all is well; 1 the machine or bench itself failed; 2 wrong input, nothing was
written; 3 at least one run or check failed, the others are done; 130 stopped by Ctrl-C, 143 by
`kill` (the same command goes on)."""

app = typer.Typer(
    name="bench",
    help="Compare neural architectures fairly, and leave evidence.",
    epilog=EXIT_CODES,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("list")(list_command)
app.command("describe")(describe_command)
app.command("plan")(plan_command)
app.command("prepare")(prepare_command)
app.command("rehearse")(rehearse_command)
app.command("run")(run_command)
app.command("status")(status_command)
app.command("logs")(logs_command)
app.command("cancel")(cancel_command)
app.command("measure")(measure_command)
app.command("report")(report_command)
app.command("compare")(compare_command)
app.command("diff")(diff_command)
app.command("sync")(sync_command)
app.command("check")(check_command)
app.command("reproduce")(reproduce_command)
app.command("check-model")(check_model_command)
app.command("check-data")(check_data_command)
app.command("check-device")(check_device_command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"lightning-bench {lightning_bench.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code; a user's mistake is one line."""
    # What takes long is done by other processes; a command makes little garbage of its own.
    gc.set_threshold(500_000, 50, 1000)
    try:
        given = sys.argv[1:] if arguments is None else arguments
        # `obj` tells a command whether it has a process of its own.
        own = arguments is None
        code = app(given or ["--help"], prog_name="bench", standalone_mode=False, obj=own)
    except (UserError, DataError, ModelError) as error:
        return _complain(str(error), 2)
    except typer.TyperException as error:  # a wrong option or argument
        return _complain(" ".join(error.format_message().split()), 2)
    except KeyboardInterrupt:
        return _complain("stopped", interruption.answer())
    except BrokenPipeError:
        from lightning_bench.common.processes import discard_output

        discard_output()  # of `bench list | head`
        return 0
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _complain(f"{place}{error.strerror or error}", 1)
    if interruption.is_unanswered(code):
        return _complain("stopped", interruption.answer())
    return code if isinstance(code, int) else 0


def _complain(message: str, code: int) -> int:
    typer.echo(f"bench: {message}", err=True)
    return code
