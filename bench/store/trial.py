"""Schema of a search's trials, and the ledger of what they spent."""

import math
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from lightning_bench.bench.spec import Scalar
from lightning_bench.bench.store.record import Stored
from lightning_bench.bench.study.search_settings import Search
from lightning_bench.bench.study.search_space import Parameter

TrialState = Literal["done", "pruned", "failed"]


class Trial(Stored):
    """A trial that is over. Its value is of the validation split after the last epoch.

    That, and not the best epoch's, since a final run keeps its last weights too.
    """

    number: int
    state: TrialState
    params: dict[str, Scalar]
    value: Annotated[float | None, Field(description="mean over the trial's seeds")] = None
    cost: Annotated[float | None, Field(description="the second objective, if there is one")] = None
    curve: Annotated[
        list[tuple[int, float]], Field(description="validation by epoch, mean over seeds")
    ] = []
    runs: Annotated[list[str], Field(description="attempts it paid for, as key.number")] = []
    keys: Annotated[list[str], Field(description="its runs' keys")] = []
    retries: Annotated[int, Field(description="times it was begun again after a loss")] = 0
    device_h: float = 0.0
    sources: Annotated[
        dict[str, str], Field(description="digests of the files behind its runs, as in a record")
    ] = {}
    started: str
    ended: str
    reason: Annotated[str, Field(description="why it has no value")] = ""


class Ledger(Stored):
    """The trials of one entry on one data set, and the budget that is left."""

    entry: str
    dataset: str
    repeat: Annotated[int | None, Field(description="which search of a repeated one")] = None
    final_seed: Annotated[int | None, Field(description="of the run of what it chose")] = None
    metric: str
    higher_is_better: bool
    space: dict[str, Parameter]
    budget: Search
    epochs: Annotated[int, Field(description="of the recipe, where epochs aren't tuned")]
    trials: list[Trial] = []
    running: int = 0
    interrupted: Annotated[int, Field(description="begun by a parent that is gone")] = 0
    untold: Annotated[int, Field(description="over, but Optuna's storage may not know")] = 0
    outdated: Annotated[int, Field(description="trials whose files have changed since")] = 0
    changed: Annotated[list[str], Field(description="those files")] = []

    @property
    def name(self) -> str:
        """Its entry, and which search it is where the page repeats it."""
        return self.entry if self.repeat is None else f"{self.entry}, search {self.repeat}"

    @property
    def device_h(self) -> float:
        """Device-hours of all its trials, whatever became of them."""
        return math.fsum(trial.device_h for trial in self.trials)

    @property
    def outdated_summary(self) -> str:
        """Which trials ran with other code, in words; empty where none did."""
        if not self.outdated:
            return ""
        files = ", ".join(self.changed[:2])
        more = f" and {len(self.changed) - 2} more" if len(self.changed) > 2 else ""
        how_many = f"{self.outdated} of {len(self.trials)} trials"
        return f"{how_many} ran with other code ({files}{more} changed since)"

    @property
    def exhausted(self) -> bool:
        """Whether the ceiling in device-hours is reached: no trial may begin."""
        return self.budget.device_h is not None and self.device_h >= self.budget.device_h

    @property
    def closed(self) -> bool:
        """Whether it is over: the budget is spent and nothing is open."""
        spent = len(self.trials) >= self.budget.trials or self.exhausted
        return spent and not self.running and not self.interrupted

    @property
    def best(self) -> Trial | None:
        """The trial whose values are frozen: the best score, of equal ones the earliest.

        With a cost, the best score among those that the page's `cost_at_most` allows.
        """
        most = self.budget.cost_at_most
        allowed = [
            trial
            for trial in self.trials
            if trial.state == "done"
            and trial.value is not None
            and (most is None or (trial.cost is not None and trial.cost <= most))
        ]
        return min(allowed, key=lambda trial: (-self.score(trial), trial.number), default=None)

    @property
    def chosen(self) -> dict[str, Scalar] | None:
        """The frozen values, once the search is over."""
        return self.best.params if self.closed and self.best else None

    def score(self, trial: Trial) -> float:
        """The value, more is better; minus infinity where there is none."""
        if trial.value is None:
            return -math.inf
        return trial.value if self.higher_is_better else -trial.value

    def count(self, state: TrialState) -> int:
        """How many trials ended so."""
        return sum(trial.state == state for trial in self.trials)

    def front(self) -> list[Trial]:
        """With a cost: the trials that none beats in both, cheapest first."""
        known = [t for t in self.trials if t.value is not None and t.cost is not None]
        front: list[Trial] = []
        for trial in sorted(known, key=lambda t: (t.cost or 0.0, -self.score(t), t.number)):
            if not front or self.score(trial) > self.score(front[-1]):
                front.append(trial)
        return front


def with_fewer_trials(ledgers: Sequence[Ledger]) -> dict[str, list[Ledger]]:
    """By data set, the closed searches that had fewer trials than another entry's there."""
    most: dict[str, int] = {}
    for ledger in ledgers:
        most[ledger.dataset] = max(most.get(ledger.dataset, 0), len(ledger.trials))
    fewer: dict[str, list[Ledger]] = {}
    for ledger in ledgers:
        if len(ledger.trials) < most[ledger.dataset]:
            fewer.setdefault(ledger.dataset, []).append(ledger)
    return fewer
