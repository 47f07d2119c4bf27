"""One Optuna study as a sampler of trials, asked and told by parents that may come and go."""

import warnings
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from lightning_bench.bench.search import samplers
from lightning_bench.bench.search.compat import NumberedTrials
from lightning_bench.bench.search.optuna_storage import retry_until_back
from lightning_bench.bench.store import optuna_types
from lightning_bench.bench.store.trial import Trial
from lightning_bench.bench.study.search_cell import Cell
from lightning_bench.bench.study.search_space import Values

if TYPE_CHECKING:
    import optuna
    from optuna.storages import BaseStorage

Direction = Literal["maximize", "minimize"]


class Sampling:
    """The Optuna study of a cell. Its trials have the store's numbers.

    Every method may be interrupted and repeated, by this parent or the next: it first looks at
    what the storage has. A number is worked on by the holder of its claim alone.
    """

    def __init__(self, cell: Cell, storage: "BaseStorage") -> None:
        self.cell, self.storage = cell, storage
        self._told: set[int] = set()
        self._study: optuna.Study = retry_until_back(self._open)
        self._trials = NumberedTrials(self._study, storage)

    def ask(self, number: int, over: Iterable[Trial]) -> Values:
        """The values of a trial; the first has the recipe's own."""
        return retry_until_back(lambda: self._ask(number, list(over)))

    def report(self, number: int, epoch: int, value: float) -> bool:
        """Take an intermediate value; True if the trial is to be pruned."""
        if self.cell.search.pruner == "none":
            return False
        return retry_until_back(lambda: self._report(number, epoch, value))

    def tell(self, over: Iterable[Trial]) -> None:
        """Let the storage know of trials that are over."""
        for trial in over:
            if trial.number not in self._told:
                retry_until_back(lambda trial=trial: self._tell(trial))  # type: ignore[misc]
                self._told.add(trial.number)

    def _open(self) -> "optuna.Study":
        import optuna

        cell = self.cell
        best: list[Direction] = ["maximize" if cell.higher_is_better else "minimize"]
        cheapest: list[Direction] = ["minimize"] if cell.search.cost else []
        study = optuna.create_study(
            storage=self.storage,
            study_name=cell.name,
            load_if_exists=True,
            directions=best + cheapest,
            pruner=samplers.pruner(cell.search, cell.base.recipe.epochs),
            sampler=optuna.samplers.RandomSampler(),
        )
        with _without_warnings():
            study.set_metric_names([cell.metric, *([cell.search.cost] if cell.search.cost else [])])
        return study

    def _ask(self, number: int, over: list[Trial]) -> Values:
        self._fill(number, over)
        self.tell(over)
        values: Values = {}
        with _without_warnings():
            sampler = samplers.sampler(self.cell.search, self.cell.space, number)
            trial = self._trials.running(number, sampler)
            for name, parameter in self.cell.space.parameters.items():
                if self.cell.space.active(name, values):
                    values[name] = samplers.suggest(trial, name, parameter)
        return values

    def _fill(self, number: int, over: list[Trial]) -> None:
        """Make the study's trials up to this number, those that are over with their outcome."""
        import optuna

        known = {trial.number: trial for trial in over}
        while (count := len(self._trials)) <= number:
            if count in known:
                self._study.add_trial(optuna_types.frozen(known[count], self.cell.space.parameters))
            elif count == 0:
                with _without_warnings():
                    self._study.enqueue_trial(self.cell.space.own())
            else:
                waiting = optuna.trial.create_trial(state=optuna.trial.TrialState.WAITING)
                self._study.add_trial(waiting)

    def _report(self, number: int, epoch: int, value: float) -> bool:
        import optuna

        with _without_warnings():
            trial = self._trials.running(number, optuna.samplers.RandomSampler())
            trial.report(value, epoch)  # Optuna keeps the first value of an epoch
            return trial.should_prune()

    def _tell(self, trial: Trial) -> None:
        import optuna

        if len(self._trials) <= trial.number:
            self._fill(trial.number, [trial])
        if self._trials.state(trial.number).is_finished():
            return
        state = optuna_types.state(trial)
        complete = state is optuna.trial.TrialState.COMPLETE
        values = optuna_types.values(trial) if complete else None
        # Whoever else sees that it is over may tell it between the look above and here.
        with suppress(optuna.exceptions.UpdateFinishedTrialError):
            # No sampler of those offered has anything to do afterwards, but the grid's would raise.
            running = self._trials.running(trial.number, optuna.samplers.RandomSampler())
            running.set_user_attr("runs", trial.keys)
            self._study.tell(trial.number, values, state=state, skip_if_finished=True)


def _without_warnings() -> "warnings.catch_warnings[None]":
    """Optuna warns of what is intended: enqueued trials, choices of any kind, metric names."""
    return warnings.catch_warnings(record=False, action="ignore")
