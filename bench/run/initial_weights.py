"""Initial weights: finding the file that a run starts from, and loading it into the model."""

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue
from torch import nn

from lightning_bench.bench.spec import WEIGHTS, RunSpec
from lightning_bench.bench.store.record import Start
from lightning_bench.bench.store.store import WEIGHTS as FILE
from lightning_bench.bench.store.store import Store
from lightning_bench.bench.study.inputs import dataset_of
from lightning_bench.data.errors import DataError
from lightning_bench.data.sources import repository
from lightning_bench.models.weights.load_weights import load_weights, read_weights
from lightning_bench.models.weights.preprocessing import Preprocessing, stated

_SHOWN = 4  # names of new tensors in the log


@dataclass(frozen=True)
class WeightsFile:
    """A file of weights: those that an attempt at a run left, or published ones by their name."""

    path: Path
    key: str = ""
    attempt: int = 0
    name: str = ""
    expected: str = ""  # its digest, where a record tells

    def __str__(self) -> str:
        return self.name or f"run {self.key}, attempt {self.attempt}"


def find(
    spec: RunSpec, store: Store | None = None, attempt: Path | None = None
) -> WeightsFile | None:
    """Find the weights that a run starts from; DataError where they are not to be had.

    Those of another run are in the store, of its newest attempt unless a folder is named.
    """
    if spec.weights:
        return WeightsFile(published(spec.weights), name=spec.weights)
    if spec.start is None:
        return None
    key = spec.start.key
    if attempt is not None:
        number = int(attempt.name.rpartition(".")[2])
        left = Store(attempt.parents[1]).read(key, number)
    elif store is not None and (newest := store.scan([key]).get(key)):
        left = newest
    else:
        raise DataError(f"the run {key}, which this one starts from, has not been run")
    if left.record is None or left.record.weights is None or left.weights() == "gone":
        raise DataError(f"attempt {left.number} at {key} left no weights to start from")
    return WeightsFile(left.folder / FILE, key, left.number, expected=left.record.weights)


def published(name: str) -> Path:
    """The file of published weights: of a path, or of a repository in the mirror or the hub."""
    path = Path(name).expanduser()
    if path.is_file():
        return path
    folder = path if path.is_dir() else repository.files(name, _PATTERNS, kind="model")[0].parent
    files = sorted(folder.glob(_PATTERNS[0]))
    if len(files) != 1:
        raise DataError(f"{name} has {len(files)} files of weights, not one: name the file")
    return files[0]


_PATTERNS = ("*.safetensors",)


def preprocessing_of(name: str) -> Preprocessing | None:
    """What the configuration beside published weights states; None where there is none."""
    folder = published(name).parent
    if not Path(name).expanduser().exists():
        with suppress(DataError):  # a repository that has nothing but weights
            repository.files(name, ("config.json",), kind="model")
    return stated(folder)


def load(model: nn.Module, source: WeightsFile, spec: RunSpec) -> Start:
    """Load the weights into the model, log how many parameters were taken, and return that."""
    digest = file_digest(source.path)
    if source.expected and digest != source.expected:
        raise DataError(f"the weights of {source} are damaged: {source.path}")
    same = spec.start is None or same_outputs(spec.start, spec)
    done = load_weights(model, read_weights(source.path), source=str(source), same_outputs=same)
    new = ", ".join(done.new[:_SHOWN]) + (" …" if len(done.new) > _SHOWN else "")
    print(  # noqa: T201 - the log
        f"starts from {source}: {done.taken:,} parameters taken, {done.fresh:,} new"
        f"{f' ({new})' if new else ''}",
        flush=True,
    )
    return Start(
        key=source.key,
        attempt=source.attempt,
        weights=source.name,
        weights_sha256=digest,
        taken=done.taken,
        fresh=done.fresh,
    )


def model_arguments(spec: RunSpec) -> tuple[dict[str, JsonValue], dict[str, str]]:
    """The model's arguments, with repositories of weights as their folders on this machine.

    And the digests of what lies there, by the names that the arguments give.
    """
    arguments, digests = dict(spec.model.args), {}
    for argument in sorted(WEIGHTS & arguments.keys()):
        name = str(arguments[argument])
        if not Path(name).is_dir():
            files = repository.files(name, repository.WEIGHTS, kind="model")
            arguments[argument] = str(files[0].parent)
        digests[name] = folder_digest(Path(str(arguments[argument])))
    return arguments, digests


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def folder_digest(folder: Path) -> str:
    """SHA-256 of the weights in a folder; of one file it is the file's own."""
    files = sorted(folder.glob(_PATTERNS[0]))
    digests = [file_digest(path) for path in files]
    return (
        digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    )


def same_outputs(before: RunSpec, after: RunSpec) -> bool:
    """Whether the outputs of two runs mean the same: words, or the same classes."""
    one, other = dataset_of(before.data), dataset_of(after.data)
    if one.task != other.task:
        return False
    if one.task == "masked-lm":
        return True  # a page that mixes vocabularies is refused
    same = one.name == other.name or (one.labels == other.labels and bool(one.labels))
    return same and one.classes == other.classes
