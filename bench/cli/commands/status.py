"""`bench status`: how far a study is, what waits in a queue, and what went wrong."""

import io
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lightning_bench.bench.cli import options, tuning_status
from lightning_bench.bench.cli.options import default_jobs, echo_json, make_plan, open_study
from lightning_bench.bench.errors import UserError

if TYPE_CHECKING:
    from lightning_bench.bench.cli.console import Console
    from lightning_bench.bench.execute.slurm import Queued
    from lightning_bench.bench.plan.plan import Plan
    from lightning_bench.bench.store.store import Attempt, Store
    from lightning_bench.bench.study.study import Run, Study

_EVERY_S = 2.0


def status_command(
    name: options.StudyName,
    scale: options.Scale = None,
    settings: options.Settings = None,
    store: options.StoreFolder = options.DEFAULT_STORE,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every 2 seconds, until all is done.")
    ] = False,
    output: options.OutputFormat = "table",
) -> None:
    """Show how many runs of each entry are done, and the cause and log of each failure.

    Runs of a cluster are looked up in its queue, too.
    """
    study, opened = open_study(name, scale, settings, store)
    if watch and output == "json":
        raise UserError("--watch shows tables; take --format json by itself")
    if output == "json":
        echo_json(_Status.now(study, opened).rows())
        return
    from lightning_bench.bench.cli.console import Console

    console = Console()
    if watch:
        _watch(console, study, opened)
    else:
        _Status.now(study, opened).show(console)


def _watch(console: "Console", study: "Study", store: "Store") -> None:
    """Show it until all is done or the reader leaves; where nobody looks, a line a change."""
    from rich.live import Live
    from rich.text import Text

    last = ""
    live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
    try:
        if console.is_terminal:
            live.start()
        while True:
            status = _Status.now(study, store)
            if console.is_terminal:
                page = Text.from_ansi(status.drawn(console).rstrip())
                lines = list(page.wrap(console, console.width))
                if len(lines) >= console.height:
                    # The sum of all comes last, and may take two lines.
                    lines[console.height - 4 : -2] = [Text("…")]
                live.update(Text("\n").join(lines), refresh=True)
            elif status.summary != last:
                last = status.summary
                console.print(last, soft_wrap=True)
            if status.over:
                return
            time.sleep(_EVERY_S)
    except KeyboardInterrupt:
        pass  # the way to leave
    finally:
        live.stop()


@dataclass(frozen=True)
class _Status:
    """A study at a moment: its plan, earlier attempts of its runs, and its jobs in a queue."""

    plan: "Plan"
    store: "Store"
    earlier: "dict[str, list[Attempt]]"
    jobs: "dict[str, Queued]"

    @classmethod
    def now(cls, study: "Study", store: "Store") -> "_Status":
        """Read the store and the queue."""
        from lightning_bench.bench.execute.slurm import queued

        plan = make_plan(study, store)
        newest = {planned.key: planned.attempt for planned in plan.all if planned.attempt}
        return cls(
            plan,
            store,
            {key: store.earlier(attempt) for key, attempt in newest.items()},
            {job.key: job for job in queued(store) if not job.over},
        )

    @property
    def over(self) -> bool:
        """Whether nothing is left to come."""
        counts = self.plan.counts()
        left = sum(counts[state] for state in ("missing", "stale", "running"))
        return not (left or self.jobs or self.plan.searching)

    @property
    def summary(self) -> str:
        """All of it in a line."""
        from lightning_bench.bench.cli.commands.plan import summary

        return summary(self.plan, default_jobs(self.plan.study))

    def rows(self) -> list[dict[str, Any]]:
        """By entry: how many runs are in each state, what failed, what was tried before."""
        rows: dict[str, dict[str, Any]] = {
            label: {
                "name": label, "runs": 0, **dict.fromkeys(self.plan.counts(), 0),
                "failures": [], "earlier": [], "queue": [],
            }
            for label in [*(p.run.entry for p in self.plan.before), *self.plan.study.entries]
        }  # fmt: skip
        for planned in self.plan.all:
            row = rows[planned.run.entry]
            row["runs"] += 1
            row[planned.state] += 1
            place = {
                "data": planned.run.dataset,
                "seed": planned.run.spec.seed,
                "key": planned.key,
            }
            if planned.state == "failed" and planned.attempt:
                row["failures"] += self._failures(planned.run, [planned.attempt])
            row["earlier"] += self._failures(planned.run, self.earlier.get(planned.key, []))
            if job := self.jobs.get(planned.key):
                row["queue"].append({**place, "job": job.id, "state": job.words})
        for search in tuning_status.rows(self.plan):
            rows[search["entry"]].setdefault("searches", []).append(search)
        return list(rows.values())

    def _failures(self, run: "Run", attempts: "list[Attempt]") -> list[dict[str, Any]]:
        return [
            {
                "data": run.dataset,
                "seed": run.spec.seed,
                "key": run.key,
                "attempt": attempt.number,
                "class": attempt.record.failure.kind,
                "message": attempt.record.failure.message,
                "log": str(self.store.root / attempt.record.failure.log),
            }
            for attempt in attempts
            if attempt.record and attempt.record.failure
        ]

    def drawn(self, console: "Console") -> str:
        """What `show` would print there."""
        from lightning_bench.bench.cli.console import Console

        # One of its own, since what a live display's console prints goes above the display.
        page = Console(
            file=io.StringIO(), width=console.width, highlight=False, force_terminal=True
        )
        with page.capture() as captured:
            self.show(page)
        return captured.get()

    def show(self, console: "Console") -> None:
        """Print it."""
        from rich.table import Table

        from lightning_bench.bench.cli.commands.plan import STYLES

        rows = self.rows()
        states = [state for state, count in self.plan.counts().items() if count]
        table = Table(box=None, pad_edge=False)
        table.add_column("entry")
        for state in states:
            table.add_column(state, justify="right", style=STYLES[state] or None)
        for row in rows:
            table.add_row(row["name"], *(str(row[state] or "") for state in states))
        tuning_status.show(console, self.plan)
        tuning_status.failures(console, self.plan)
        if self.plan.all:
            console.print(table)
        lines = []
        for row in rows:
            lines += [f"{_place(row, what)}: {what['state']}" for what in row["queue"]]
            for what in [*row["failures"], *row["earlier"]]:
                again = f"attempt {what['attempt']} failed, it was tried again"
                how = again if what in row["earlier"] else "failed"
                cause = f"{what['class']}: {what['message']}\n  {what['log']}"
                lines.append(f"{_place(row, what)}: {how}: {cause}")
        for line in lines:
            console.print(line, soft_wrap=True)
        console.print(f"\n{self.summary}")


def _place(row: dict[str, Any], what: dict[str, Any]) -> str:
    return f"{row['name']}, {what['data']}, seed {what['seed']}"
