"""`bench prepare`: fetch and check ahead what a study needs, so that it runs without a network."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from lightning_bench.bench.cli import options
from lightning_bench.bench.cli.options import echo_json, use_data_root

if TYPE_CHECKING:
    from rich.status import Status

    from lightning_bench.bench.cli.console import Console
    from lightning_bench.bench.study.study import Study
    from lightning_bench.data.prepare import Prepared

NOT_READY = 3
#: Without a terminal, how far a step is gets a line no more often than this.
EVERY_S = 5.0


def prepare_command(
    name: options.StudyName,
    scale: options.Scale = None,
    settings: options.Settings = None,
    data_root: options.DataRoot = None,
    output: options.OutputFormat = "table",
) -> int:
    """Fetch, decode, tokenise and verify a study's data and weights."""
    from lightning_bench.bench.cli.console import Console, styled
    from lightning_bench.bench.study.load import load

    use_data_root(data_root)
    study = load(name, scale, settings or ())
    console = Console(stderr=output == "json")
    results = _prepare(study, console)
    failed = sum(result.state == "failed" for result in results)
    if output == "json":
        echo_json(asdict(result) for result in results)
        return NOT_READY if failed else 0
    for result in results:
        colour = "red" if result.state == "failed" else "green"
        facts = "; ".join(_facts(result))
        line = styled(result.state, colour, f"  {result.name}: {facts}")
        console.print(line, soft_wrap=True)
    if not failed:
        console.print(f"\n{study.name} ({study.scale}) can run without a network")
    return NOT_READY if failed else 0


def _prepare(study: "Study", console: "Console") -> "list[Prepared]":
    """Prepare all that a study reads, with progress on the console."""
    from lightning_bench.bench.study import inputs
    from lightning_bench.data.prepare import prepare

    # A folder or a file of one's own is not fetched.
    weights = [name for name in inputs.weights(study) if not Path(name).exists()]
    with console.status("preparing …") as status:
        progress = _Progress(console, status)
        return prepare(
            list(inputs.datasets(study).values()),
            progress.step,
            sample=any(spec.sample for spec in study.data),
            weights=sorted(weights),
            passing=progress.within_step,
        )


def _facts(result: "Prepared") -> list[str]:
    """What is known of one data set, or of weights, that is there."""
    from lightning_bench.data.progress import size

    counts = ", ".join(f"{count:,} {split}" for split, count in result.splits.items())
    kept = size(result.bytes) if result.bytes else ""
    commit = f"commit {result.revision[:12]}" if result.revision else ""
    mark = f"fingerprint {result.fingerprint[:12]}" if result.fingerprint else ""
    return [fact for fact in (result.detail, counts, kept, commit, mark) if fact]


class _Progress:
    """A line that changes on a terminal; elsewhere a line a step, and now and then one within."""

    def __init__(self, console: "Console", status: "Status") -> None:
        self.console, self.status = console, status
        self._printed = 0.0

    def step(self, line: str) -> None:
        """A step begins."""
        self._show(line, printed=True)

    def within_step(self, line: str) -> None:
        """How far a step is; told many times a second."""
        due = time.monotonic() - self._printed > EVERY_S
        self._show(line, printed=due)
        if due:
            self._printed = time.monotonic()

    def _show(self, line: str, *, printed: bool) -> None:
        from rich.markup import escape

        self.status.update(escape(line))
        if printed and not self.console.is_terminal:
            self.console.print(line, soft_wrap=True)
