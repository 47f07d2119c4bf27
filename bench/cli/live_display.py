"""What `bench run` shows while it runs: a live view on a terminal, plain lines elsewhere."""

import time
from statistics import fmean

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from lightning_bench.bench.cli.console import styled
from lightning_bench.bench.execute.executor import Listener
from lightning_bench.bench.plan.plan import PlannedRun
from lightning_bench.bench.store.record import Epoch, Failure, Record
from lightning_bench.bench.study.class_metrics import is_class_metric
from lightning_bench.common.messages import counted, duration


class RunDisplay(Listener):
    """The executor's listener that shows progress; a context manager, as it owns the terminal.

    Quiet, it shows failures alone; verbose, each start and epoch, too.
    """

    def __init__(
        self,
        console: Console,
        planned: list[PlannedRun],
        jobs: int,
        *,
        quiet: bool = False,
        verbose: bool = False,
    ) -> None:
        self.console, self.jobs, self.verbose = console, jobs, verbose
        self.total = len(planned)
        self.done = 0
        self._live_on = console.is_terminal and not quiet
        self._lines_on = verbose or not (console.is_terminal or quiet)
        self._expected = {p.key: p.expected_s for p in planned}
        self._unknown, self._each_s = 0, 0.0
        self._took: list[float] = []
        self._states: dict[str, str] = {}
        self._active: dict[str, tuple[PlannedRun, float, Epoch | None]] = {}
        self._progress = Progress(
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("runs"),
            TextColumn("{task.fields[left]}"),
        )
        self._bar = self._progress.add_task("", total=self.total, left="")
        self._live = Live(console=console, refresh_per_second=8, transient=True)

    def expect(self, runs: int, each_s: float) -> None:
        """Make room for runs that are not known yet, as the trials of a search."""
        self.total += runs
        self._unknown += runs
        self._each_s = each_s

    def __enter__(self) -> "RunDisplay":
        """Take the terminal."""
        if self._live_on:
            self._live.start()
            self._live.update("importing torch and Lightning, once for all runs …")
        return self

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        self._live.stop()

    def started(self, planned: PlannedRun, slot: int) -> None:
        """A run got a slot."""
        del slot
        if planned.key not in self._expected:
            self._unknown = max(0, self._unknown - 1)
            self._expected[planned.key] = planned.expected_s
        self._active[planned.key] = (planned, time.monotonic(), None)
        if self.verbose:
            self._line("started", "", planned, f"attempt {planned.next_attempt}, {planned.key}")

    def waits(self, planned: PlannedRun, state: str) -> None:
        """A run waits in a queue, or has begun."""
        self._states[planned.key] = state
        if self.verbose and state:
            self._line("waits  ", "", planned, state)

    def progressed(self, planned: PlannedRun, epoch: Epoch) -> None:
        """A run finished an epoch."""
        _, began, _ = self._active[planned.key]
        self._active[planned.key] = (planned, began, epoch)
        if self.verbose:
            epochs = _epochs(planned)
            loss = f"train loss {epoch.train_loss:.4f}"
            self._line(f"epoch {epoch.epoch}/{epochs}", "", planned, f"{loss}  {_metrics(epoch)}")

    def finished(self, planned: PlannedRun, record: Record) -> None:
        """A run left a record."""
        self._active.pop(planned.key, None)
        self._expected.pop(planned.key, None)
        if record.cost:
            self._took.append(record.cost.total_s)
        self.done += 1
        if record.afresh:
            self._line("afresh", "yellow", planned, record.afresh)
        if record.failure:
            self._line("failed", "red", planned, _cause(record.failure))
        elif self._lines_on:
            took = f"{record.cost.total_s:.1f} s" if record.cost else ""
            self.console.print(
                f"[{self.done}/{self.total}] {_name(planned)}  {_scores(record)}  {took}",
                markup=False,
                soft_wrap=True,
            )

    def lost(self, planned: PlannedRun, record: Record) -> None:
        """It is tried again."""
        self._active.pop(planned.key, None)
        if record.failure:
            self._line("retried", "yellow", planned, _cause(record.failure))

    def stopped(self, planned: PlannedRun) -> None:
        """It ended as it was asked to."""
        self._active.pop(planned.key, None)
        self._line("stopped", "yellow", planned, "the same command resumes it")

    def stopping(self, running: int, *, left: bool) -> None:
        """The end was asked for."""
        runs = counted(running, "run")
        if left:
            goes = "goes" if running == 1 else "go"
            how = f"{runs} {goes} on in the cluster; bench cancel ends them"
        else:
            leave = "leaves" if running == 1 else "leave"
            how = f"{runs} {leave} a checkpoint; Ctrl-C again stops at once, without one"
        self.console.print(f"stopping: {how}")

    def run_by_other(self, planned: PlannedRun) -> None:
        """Another process runs it."""
        self._active.pop(planned.key, None)

    def tick(self) -> None:
        """Redraw."""
        if self._live_on:
            left_s = self._left_s() if self.done < self.total else None
            left = "" if left_s is None else f"[dim]about {duration(left_s)} left[/]"
            self._progress.update(self._bar, completed=self.done, left=left)
            self._live.update(Group(self._progress, self._active_table()))

    def _line(self, word: str, style: str, planned: PlannedRun, text: str) -> None:
        line = styled(word, style, f"  {_name(planned)}  {text}")
        self.console.print(line, soft_wrap=True)

    def _left_s(self) -> float | None:
        """Expected seconds of all runs not done, less what the active ones have had, by slot.

        A run of which nothing is known takes as long as those that have finished; None before.
        """
        now = time.monotonic()
        typical_s = fmean(self._took) if self._took else 0.0
        if not typical_s and (0.0 in self._expected.values() or self._unknown > self._each_s == 0):
            return None
        left = self._unknown * (self._each_s or typical_s)
        for key, known_s in self._expected.items():
            expected_s = known_s or typical_s
            left += expected_s
            if key in self._active:
                left -= min(expected_s, now - self._active[key][1])
        return left / self.jobs

    def _active_table(self) -> Table:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        # Those in a queue last; what does not fit is counted.
        active = sorted(self._active.values(), key=lambda run: bool(self._states.get(run[0].key)))
        room = max(1, self.console.height - 4)
        for planned, _, epoch in active[:room]:
            epochs = _epochs(planned)
            reached = self._states.get(planned.key) or (
                f"epoch {epoch.epoch if epoch else 0}/{epochs}"
            )
            table.add_row(_name(planned), reached, _metrics(epoch) if epoch else "")
        if len(active) > room:
            table.add_row(Text(f"and {len(active) - room} more", "dim"))
        return table


def _metrics(epoch: Epoch) -> str:
    return "  ".join(f"{name} {value:.3f}" for name, value in epoch.metrics.items())


def _cause(failure: Failure) -> str:
    return f"{failure.kind}: {failure.message} (log: {failure.log})"


def _scores(record: Record) -> str:
    """The data set's own test metrics; of a trial, which has none, how far it came on validation.

    Those of class probabilities, which every classifier has, are for the report.
    """
    if record.metrics or not record.curve:
        own = {name: v for name, v in record.metrics.items() if not is_class_metric(name)}
        return "  ".join(f"{name} {value:.4f}" for name, value in own.items())
    last = record.curve[-1]
    scores = "  ".join(f"validation {k} {v:.4f}" for k, v in last.metrics.items())
    return f"{scores}  pruned after epoch {last.epoch}" if record.status == "pruned" else scores


def _epochs(planned: PlannedRun) -> str:
    """How many epochs a run has; a recipe of steps has as many as it takes."""
    recipe = planned.run.spec.recipe
    return str(recipe.epochs) if recipe.steps is None else f"{recipe.steps:,} steps"


def _name(planned: PlannedRun) -> str:
    run = planned.run
    which = f"seed {run.spec.seed}" if run.trial is None else f"trial {run.trial}"
    which = which if run.repeat is None else f"search {run.repeat}, {which}"
    return f"{run.title} · {run.dataset} · {which}"
