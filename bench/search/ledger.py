"""The ledger of a search: its trials, from its folder in the store, without Optuna or a database.

    searches/<study>-<scale>/
        journal.log             Optuna's storage, unless it is a database
        <entry>-<data>-<digest>/
            lock                held (flock) while somebody takes a number
            0007.claim          held by the parent that is at trial 7; its values once drawn
            0007.json           written beside and renamed when trial 7 is over

A trial is claimed by making its number's file under the lock, so of any number of parents one gets
it and no number beyond the budget exists; a claim whose holder died is free for anybody.
"""

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.plan.source_digests import changed
from lightning_bench.bench.store.trial import Ledger, Trial
from lightning_bench.bench.study.search_cell import Cell, SearchName
from lightning_bench.bench.study.search_space import Values
from lightning_bench.common.files import (
    is_locked,
    lock_at_once,
    locked,
    read_regular,
    write_atomically,
)

_VALUES: TypeAdapter[Values] = TypeAdapter(Values)


@dataclass
class TrialClaim:
    """A trial's number, held by this process until it is let go or dies."""

    number: int
    path: Path
    descriptor: int
    values: Values | None  # None until they are drawn

    def keep_values(self, values: Values) -> None:
        """Keep the values, so that whoever takes over runs the same trial."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, _VALUES.dump_json(values), 0)
        self.values = values

    def release(self) -> None:
        """The trial is over and everybody knows: nothing is left to take over."""
        self.path.unlink(missing_ok=True)
        os.close(self.descriptor)


@dataclass
class SearchFolder:
    """The folder of a search. Trials that are over never change, so each is read once."""

    cell: Cell
    folder: Path
    _read: dict[int, Trial] = field(default_factory=dict, init=False)

    def ledger(self, sources: Mapping[str, str] | None = None) -> Ledger:
        """The trials as they stand now; with today's sources, which of them had others."""
        cell = self.cell
        over, begun, untold = self._scan()
        since = [changed(t.sources, sources) if sources and t.sources else [] for t in over]
        running = sum(is_locked(self._path(number, "claim")) for number in begun)
        return Ledger(
            entry=cell.entry,
            dataset=cell.dataset,
            repeat=cell.repeat,
            final_seed=cell.final_seed,
            metric=cell.metric,
            higher_is_better=cell.higher_is_better,
            space=dict(cell.space.parameters),
            budget=cell.search,
            epochs=cell.base.recipe.epochs,
            trials=over,
            running=running,
            interrupted=len(begun) - running,
            untold=len(untold),
            outdated=sum(map(bool, since)),
            changed=sorted({file for files in since for file in files}),
        )

    def claim(self) -> TrialClaim | None:
        """The next trial: one whose parent is gone, else a new number; None if there is none.

        To be called with the lock held.
        """
        over, begun, untold = self._scan()
        for number in untold:
            if claim := self._hold(number):
                claim.release()
        for number in begun:
            if claim := self._hold(number):
                if not self._path(number, "json").exists():
                    return claim
                claim.release()  # it came to its end while we looked
        search = self.cell.search
        spent_h = math.fsum(trial.device_h for trial in over)
        if len(over) + len(begun) >= search.trials:
            return None
        if search.device_h is not None and spent_h >= search.device_h:
            return None
        return self._hold(min(set(range(search.trials)) - self._read.keys() - set(begun)))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the folder; it dies with its holder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / "lock"):
            yield

    def write(self, trial: Trial) -> None:
        """Make a trial's outcome final."""
        path = self._path(trial.number, "json")
        write_atomically(path, trial.model_dump_json(indent=1).encode() + b"\n")

    def _path(self, number: int, suffix: str) -> Path:
        return self.folder / f"{number:05}.{suffix}"

    def _scan(self) -> tuple[list[Trial], list[int], list[int]]:
        """Trials that are over, and claimed numbers: of those that are not over, and that are."""
        names: list[str] = []
        with suppress(FileNotFoundError):
            names = sorted(os.listdir(self.folder))  # noqa: PTH208 - names are all that is needed
        numbers: dict[str, list[int]] = {"json": [], "claim": []}
        for name in names:
            stem, _, suffix = name.partition(".")
            if stem.isascii() and stem.isdigit() and suffix in numbers:
                numbers[suffix].append(int(stem))
        for number in set(numbers["json"]) - self._read.keys():
            self._read[number] = self._parse(self._path(number, "json"))
        over = [self._read[number] for number in numbers["json"]]
        begun = [number for number in numbers["claim"] if number not in self._read]
        return over, begun, [number for number in numbers["claim"] if number in self._read]

    @staticmethod
    def _parse(path: Path) -> Trial:
        try:
            return Trial.model_validate_json(read_regular(path))
        except (OSError, ValidationError):
            raise UserError(f"{path} is damaged; delete it, and that trial is run again") from None

    def _hold(self, number: int) -> TrialClaim | None:
        """Hold a number's claim; None if another parent holds it."""
        path = self._path(number, "claim")
        descriptor = lock_at_once(path)
        if descriptor is None:
            return None
        try:
            values = _VALUES.validate_json(read_regular(path))
        except ValidationError:  # its parent died before it had drawn them
            values = None
        return TrialClaim(number, path, descriptor, values)


def search_folders(cells: Iterable[Cell], store: Path) -> list[SearchFolder]:
    """The folders of these searches."""
    return [SearchFolder(cell, cell.folder(store)) for cell in cells]


def chosen(ledgers: Iterable[Ledger]) -> Mapping[SearchName, Values]:
    """The frozen values of each search that is over."""
    return {
        (ledger.entry, ledger.dataset, ledger.repeat): ledger.chosen
        for ledger in ledgers
        if ledger.chosen is not None
    }
