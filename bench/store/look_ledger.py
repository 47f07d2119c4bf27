"""The ledger of looks: when a study's results were tested, and how much of the 5 % each look spent.

    looks.jsonl   a line a look, never changed; written beside and renamed, under a lock

A look is a report, or a comparison, in which something could have been claimed. Looks in another
store, or before somebody deleted the file, are not known here.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lightning_bench.common.files import locked, read_regular, write_atomically

Method = Literal["max-T", "e-values"]


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Claimed(_Line):
    """A pair that a look decided: `a` is better than `b`."""

    dataset: str
    a: str
    b: str
    p: Annotated[float, Field(description="corrected over the family")]


class LookTaken(_Line):
    """One look at a study's results."""

    study: str
    scale: str
    entries: list[str]
    seeds: list[int]
    n: int
    alpha: Annotated[float, Field(description="spent")]
    method: Method
    named: Annotated[bool, Field(description="the page had named the comparisons")]
    cells: Annotated[
        dict[str, dict[str, str]],
        Field(description="keys of the runs' specs at seed 0, by data set and entry"),
    ]
    family: Annotated[str, Field(description="digest of the comparisons")]
    results: Annotated[str, Field(description="digest of the runs and their metrics")]
    sources: Annotated[
        dict[str, dict[str, str]],
        Field(description="digests of the code behind the runs, by data set and entry"),
    ] = {}  # of looks by older versions nobody knows
    claimed: list[Claimed] = []
    undecided: int = 0
    taken: str = ""

    def same(self, other: "LookTaken") -> bool:
        """Whether both are of the same comparisons and results, whenever they were taken."""
        mine, theirs = (
            (look.study, sorted(look.seeds), look.method, look.family, look.results)
            for look in (self, other)
        )
        return mine == theirs and not self.outdated(other)

    def of_same_runs(self, now: "LookTaken", dataset: str, entry: str) -> bool:
        """Whether an entry's runs on a data set have the spec and the code that they have now."""
        mine, theirs = (look.cells.get(dataset, {}).get(entry) for look in (self, now))
        return mine == theirs and not self._changed(now, dataset, entry)

    def outdated(self, now: "LookTaken") -> bool:
        """Whether the code has changed since, of any runs that are of this and of the look now."""
        return any(
            self.cells.get(dataset, {}).get(entry) == key and self._changed(now, dataset, entry)
            for dataset, here in now.cells.items()
            for entry, key in here.items()
        )

    def _changed(self, now: "LookTaken", dataset: str, entry: str) -> bool:
        then, today = (look.sources.get(dataset, {}).get(entry) for look in (self, now))
        return then is not None and today is not None and then != today

    def compares_again(self, other: "LookTaken") -> bool:
        """Whether two entries of another look are compared here, too, with runs of both looks."""
        return bool(set(self.seeds) & set(other.seeds)) and any(
            len(set(mine.values()) & set(theirs.values())) > 1
            for mine in self.cells.values()
            for theirs in other.cells.values()
        )


class LookLedger:
    """The looks that a store knows of."""

    def __init__(self, store: Path) -> None:
        self.path = store / "looks.jsonl"
        self.unreadable = 0  # lines of the last reading

    def read(self, study: str | None = None) -> list[LookTaken]:
        """The looks at a study, or all, at any scale, oldest first; what is none is counted."""
        try:
            lines = read_regular(self.path).decode(errors="replace").splitlines()
        except FileNotFoundError:
            lines = []
        looks = []
        self.unreadable = 0
        for line in lines:
            try:
                look = LookTaken.model_validate_json(line)
            except ValidationError:
                self.unreadable += 1
                continue
            if study in {None, look.study}:
                looks.append(look)
        return looks

    def add(self, look: LookTaken) -> bool:
        """Add a look, unless the same one is there; whether it was new."""
        with locked(self.path.with_suffix(".lock")):
            if any(look.same(known) for known in self.read(look.study)):
                return False
            before = read_regular(self.path) if self.path.exists() else b""
            if before and not before.endswith(b"\n"):
                before += b"\n"
            taken = look.taken or datetime.now(UTC).isoformat(timespec="seconds")
            line = json.dumps(look.model_copy(update={"taken": taken}).model_dump(mode="json"))
            write_atomically(self.path, before + line.encode() + b"\n")
            return True
