"""The store of results: a directory of run directories, the only truth.

    runs/<key>.<attempt>/     one attempt at a run, visible only once it is locked
        spec.json             what is to be run
        lock                  locked (flock) by whoever runs it, for as long as it lives
        log.txt               what the run printed; log-1.txt what its rank 1 did
        curve.jsonl           one line an epoch, while it runs; first those it goes on from
        checkpoints/          where its training stands; gone once a record is there
        failure-1.json        why rank 1 failed, for rank 0 to put into the record
        predictions.npz       per-example results on the test split
        probabilities.npz     of a classifier, what it gives each class there
        weights.safetensors   the final weights, of runs that others start from
        request               what somebody outside asks of it: `prune` or `stop`
        record.json           written last, beside and renamed; with a checksum
        heartbeat             that it gets on, by the file's time; heartbeat-1 that of rank 1
    cancelled/<study>-<scale>   touched to have whoever runs the study stop
    environments/<digest>.json  hardware and packages, shared by records
    examples/<fingerprint>.json  a few examples of the data that runs were made with
    measurements/<id>.json    a session of bench measure; with a checksum (session_files)
    reports/<study>/          reports made from it

Nothing is ever overwritten: a run that is tried again gets the next attempt's number, and the
newest attempt counts. A claim is a rename, so that of any number of processes and hosts exactly
one gets an attempt; a lock dies with its holder, so that a killed run is told from a running one
without a heartbeat.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from stat import S_ISDIR
from typing import Literal

from pydantic import ValidationError

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.integrity import Problem, problem
from lightning_bench.bench.store.record import SCHEMA_VERSION, Environment, Examples, Record
from lightning_bench.common.files import (
    flush_folder,
    is_locked,
    locked,
    read_regular,
    read_with_status,
    set_aside,
    write_atomically,
)

#: The file of a run's final weights, where others start from them.
WEIGHTS = "weights.safetensors"
#: The file of its per-example results.
PREDICTIONS = "predictions.npz"
#: The file of what a classifier gives each class; a run is done without it, too.
PROBABILITIES = "probabilities.npz"
#: The file of what its probes keep for figures.
ARRAYS = "arrays.npz"
#: An attempt's folder: the run's key, and a number that whoever made it can have counted to.
_ATTEMPT = re.compile(r"([0-9a-z]+)\.([1-9][0-9]{0,4})", re.ASCII)
#: What was left behind half made is deleted after this time.
_LEFT_S = 24 * 3600.0
_PREFIX = b'{"sha256":"'
_MIDDLE = b'","record":'

#: `prune`: write a record of what was reached. `stop`: leave a checkpoint and no record.
Request = Literal["prune", "stop"]


class AttemptTaken(Exception):
    """Somebody else has made the next attempt since the caller looked."""


class Damaged(Exception):
    """A record that is cut short, altered or of another schema; the message says which."""


def _gone() -> Problem:
    return "gone"


@dataclass(frozen=True)
class Attempt:
    """An attempt at a run, as read from the store."""

    key: str
    number: int
    folder: Path
    state: Literal["recorded", "damaged", "running", "interrupted"]
    record: Record | None = None
    problem: str = ""
    checksum: str = ""  # of the record, as its file has it
    predictions: Problem = ""  # what is wrong with those that the record names
    #: What is wrong with its final weights; a large file may have to be read.
    weights: Callable[[], Problem] = field(default=_gone, compare=False)

    @property
    def lost(self) -> bool:
        """Whether it failed for no reason of the run's own."""
        failure = self.record.failure if self.record else None
        return failure is not None and failure.lost


@dataclass
class Store:
    """A store at a path; making the object touches nothing."""

    root: Path
    runs: Path = field(init=False)

    def __post_init__(self) -> None:
        """Name the folder of runs."""
        self.runs = self.root / "runs"

    def prepare(self) -> None:
        """Make the store's folders; a UserError where that can't be done."""
        try:
            self.runs.mkdir(parents=True, exist_ok=True)
            probe, path = tempfile.mkstemp(prefix=".", dir=self.runs)
            os.close(probe)
            Path(path).unlink()
            self._sweep()
        except OSError as error:
            raise UserError(
                f"the store {self.root} can't be written: {error.strerror}; name another by --store"
            ) from None

    def _sweep(self) -> None:
        """Delete the half-made folders of runs that were killed more than a day ago."""
        with os.scandir(self.runs) as entries:
            hidden = [Path(entry.path) for entry in entries if entry.name.startswith(".")]
        for path in hidden:
            with suppress(OSError):
                status = path.lstat()
                old = time.time() - status.st_mtime > _LEFT_S
                if old and ".damaged" not in path.name and not is_locked(path / "lock"):
                    shutil.rmtree(path) if S_ISDIR(status.st_mode) else path.unlink()

    def scan(self, keys: Iterable[str] | None = None) -> dict[str, Attempt]:
        """Read the newest attempt of each of these keys, or of all."""
        wanted = None if keys is None else set(keys)
        newest: dict[str, int] = {}
        for key, number in self.attempts():
            if wanted is None or key in wanted:
                newest[key] = max(number, newest.get(key, 0))
        return {key: self.read(key, number) for key, number in newest.items()}

    def newest(self, key: str) -> Attempt | None:
        """Read the newest attempt at one run; of attempts that somebody deleted a gap is left."""
        number = max((number for each, number in self.attempts() if each == key), default=0)
        return self.read(key, number) if number else None

    def earlier(self, newest: Attempt) -> list[Attempt]:
        """Read the attempts before the newest one of a run, oldest first."""
        numbers = range(1, newest.number)
        kept = [number for number in numbers if self.folder(newest.key, number).is_dir()]
        return [self.read(newest.key, number) for number in kept]

    def folder(self, key: str, number: int) -> Path:
        """Where an attempt lives."""
        return self.runs / f"{key}.{number}"

    def latest(self, key: str, number: int) -> int:
        """The newest attempt at a run from a known one on, without listing all runs.

        For those who follow a run and look often.
        """
        while self.folder(key, number + 1).is_dir():
            number += 1
        return number

    @contextmanager
    def claim(self, spec: RunSpec, number: int) -> Iterator[Path]:
        """Make attempt `number` at a run and hold it; AttemptTaken if it exists already."""
        self.runs.mkdir(parents=True, exist_ok=True)
        # A leading dot keeps the half-made folder out of every scan.
        made = Path(tempfile.mkdtemp(prefix=".", dir=self.runs))
        made.chmod(0o755)
        with locked(made / "lock"):
            (made / "spec.json").write_text(spec.model_dump_json(indent=1), encoding="utf-8")
            target = self.folder(spec.key, number)
            try:
                made.rename(target)
            except OSError:
                for part in made.iterdir():
                    part.unlink()
                made.rmdir()
                if target.is_dir():
                    raise AttemptTaken(target.name) from None
                raise
            yield target

    def write_record(self, folder: Path, record: Record) -> None:
        """Make an attempt's result final; after this it is there whatever happens."""
        path = folder / "record.json"
        if path.is_dir():  # a run has put it there
            path.rename(path.with_suffix(".json.damaged"))
        write_atomically(path, seal(record.model_dump_json().encode()))
        flush_folder(self.runs)

    def request(self, folder: Path, what: Request) -> None:
        """Ask a running attempt to end: at once with a record, or with a checkpoint for later."""
        write_atomically(folder / "request", what.encode())

    def requested(self, folder: Path) -> Request | None:
        """What has been asked of an attempt."""
        try:
            text = read_regular(folder / "request")
        except FileNotFoundError:
            return None
        return "prune" if text == b"prune" else "stop"

    def cancel(self, study: str) -> None:
        """Ask all processes that run a study to stop; they poll `cancellation`."""
        path = self.root / "cancelled" / study
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, b"")

    def cancellation(self, study: str) -> int:
        """A number that changes whenever the study is cancelled."""
        try:
            return (self.root / "cancelled" / study).stat().st_mtime_ns
        except OSError:
            return 0

    def set_aside(self, attempt: Attempt) -> Path:
        """Rename a damaged record, or what is no folder: it is kept, and never read again."""
        if not _is_folder(attempt.folder):
            return set_aside(attempt.folder)
        damaged = attempt.folder / "record.json"
        return damaged.rename(damaged.with_suffix(".json.damaged"))

    def write_environment(self, environment: Environment) -> str:
        """Keep an environment and return the digest that names it."""
        text = environment.model_dump_json(indent=1).encode()
        digest = _environment_digest(text)
        path = self.root / "environments" / f"{digest}.json"
        if self.read_environment(digest) is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text)
        return digest

    def read_environment(self, digest: str) -> Environment | None:
        """The environment of that digest, or None where its file is gone or has another one."""
        path = self.root / "environments" / f"{digest}.json"
        try:
            text = read_regular(path)
            known = _environment_digest(text) == digest
            return Environment.model_validate_json(text) if known else None
        except (OSError, ValidationError):
            return None

    def write_examples(self, fingerprint: str, make: Callable[[], Examples]) -> None:
        """Keep some examples of the data of a fingerprint, unless there are some already."""
        path = self.root / "examples" / f"{fingerprint}.json"
        if self.read_examples(fingerprint) is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, make().model_dump_json().encode())

    def read_examples(self, fingerprint: str) -> Examples | None:
        """The examples of the data of a fingerprint, or None where there are none."""
        path = self.root / "examples" / f"{fingerprint}.json"
        try:
            return Examples.model_validate_json(read_regular(path))
        except (OSError, ValidationError):
            return None

    def attempts(self) -> Iterator[tuple[str, int]]:
        """Every attempt's key and number, unread."""
        try:
            names = os.listdir(self.runs)  # noqa: PTH208 - names are all that is needed
        except FileNotFoundError:
            return
        except OSError as error:
            raise UserError(f"the store {self.root} can't be read: {error.strerror}") from None
        for name in names:
            if match := _ATTEMPT.fullmatch(name):
                yield match[1], int(match[2])

    def read(self, key: str, number: int, *, again: bool = False) -> Attempt:
        """One attempt, whether it is the newest or not."""
        folder = self.folder(key, number)
        if not _is_folder(folder):
            return Attempt(key, number, folder, "damaged", problem="it is no folder")
        try:
            # Texts as paths are quicker, of many.
            record, checksum, recorded_ns = _read(f"{folder}/record.json")
        except FileNotFoundError:
            if is_locked(folder / "lock"):
                return Attempt(key, number, folder, "running")
            if not again and Path(f"{folder}/record.json").exists():
                # Whoever held the lock has left its record between the two looks.
                return self.read(key, number, again=True)
            return Attempt(key, number, folder, "interrupted")
        except Damaged as error:
            return Attempt(key, number, folder, "damaged", problem=str(error))
        except OSError as error:
            wrong = error.strerror or type(error).__name__
            return Attempt(key, number, folder, "damaged", problem=wrong.lower())
        if (record.key, record.attempt) != (key, number):
            wrong = f"it is attempt {record.attempt} of run {record.key}"
            return Attempt(key, number, folder, "damaged", problem=wrong)
        predictions: Problem = ""
        if record.predictions:
            predictions = problem(f"{folder}/{PREDICTIONS}", record.predictions, recorded_ns)
        weights: Callable[[], Problem] = _gone
        if record.weights:
            weights = partial(problem, f"{folder}/{WEIGHTS}", record.weights, recorded_ns)
        return Attempt(
            key,
            number,
            folder,
            "recorded",
            record,
            checksum=checksum,
            predictions=predictions,
            weights=weights,
        )


def read_record(path: Path) -> Record:
    """Read and verify one record; Damaged says what is wrong with it."""
    return _read(path)[0]


def _read(path: Path | str) -> tuple[Record, str, int]:
    """A record, its checksum, and when it was put there."""
    raw, status = read_with_status(path)
    payload = unseal(raw)
    try:
        record = Record.model_validate_json(payload)
    except ValidationError as error:
        version = _schema_version(payload)
        if version is None:
            raise Damaged("not a record") from None
        if version != SCHEMA_VERSION:
            raise Damaged(f"schema {version}, this bench reads {SCHEMA_VERSION}") from None
        raise Damaged(f"not a record: {error.errors()[0]['msg']}") from None
    return record, _checksum(raw).decode(), status.st_ctime_ns


def _is_folder(path: Path) -> bool:
    """Whether a path is a folder itself, and no link to one; so is one that is not there yet."""
    try:
        return S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return True


def _schema_version(payload: bytes) -> int | None:
    """The schema version of what may be anything."""
    try:
        content = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return content.get("schema_version") if isinstance(content, dict) else None


def _environment_digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


def seal(payload: bytes) -> bytes:
    """JSON with its checksum in front, as a file's content."""
    checksum = hashlib.sha256(payload).hexdigest().encode()
    return _PREFIX + checksum + _MIDDLE + payload + b"}\n"


def unseal(raw: bytes) -> bytes:
    """The JSON inside, verified; Damaged says what is wrong with it."""
    start = len(_PREFIX) + 64
    middle = raw[start : start + len(_MIDDLE)]
    payload = raw[start + len(_MIDDLE) : -2]
    if not raw.startswith(_PREFIX) or middle != _MIDDLE or not raw.endswith(b"}\n"):
        raise Damaged("the file is cut short" if raw.startswith(_PREFIX) else "not a record")
    if hashlib.sha256(payload).hexdigest().encode() != _checksum(raw):
        raise Damaged("its checksum does not match")
    return payload


def _checksum(raw: bytes) -> bytes:
    return raw[len(_PREFIX) : len(_PREFIX) + 64]
