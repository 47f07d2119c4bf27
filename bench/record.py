"""Record: what a finished or failed run leaves behind, and the types inside it."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from bench.spec import RunSpec

SCHEMA_VERSION = 1

#: `pruned`: a trial that its search stopped early; its curve is what it reached.
Status = Literal["done", "failed", "pruned"]
FailureClass = Literal["out-of-memory", "data", "divergence", "infrastructure", "code"]


class _Frozen(BaseModel):
    # Unknown keys are kept, so that an older bench reads a newer record of the same schema.
    model_config = ConfigDict(extra="allow", frozen=True)


class Failure(_Frozen):
    """Why a run failed: its class, one line, and the log that tells the rest."""

    kind: FailureClass
    message: str
    log: Annotated[str, Field(description="the log's path, relative to the store")]

    @property
    def lost(self) -> bool:
        """Whether it was for no reason of the run's own, which may be tried again."""
        return self.kind == "infrastructure"


@dataclass(frozen=True, slots=True)
class Epoch:
    """One point of the learning curve.

    A dataclass, since reading records is for the most part making these: pydantic makes them in
    half the time of a model, whose methods it has.
    """

    epoch: int
    step: int
    train_loss: float
    val_loss: float | None = None
    metrics: Annotated[dict[str, float], Field(description="on the validation split")] = field(
        default_factory=dict
    )

    @classmethod
    def model_validate_json(cls, text: str | bytes) -> "Epoch":
        """Read one."""
        return _EPOCH.validate_json(text)

    def model_dump_json(self) -> str:
        """Write it."""
        return _EPOCH.dump_json(self).decode()


_EPOCH = TypeAdapter(Epoch)


class Cost(_Frozen):
    """What the run took."""

    parameters: int
    trainable_parameters: int
    train_s: Annotated[float, Field(description="wall time of training with validation")]
    total_s: Annotated[float, Field(description="wall time of the whole run, loading too")]
    device_h: Annotated[float, Field(description="total_s times devices, in hours")]
    train_examples_per_s: float
    peak_memory_bytes: int


class DataFacts(_Frozen):
    """What data the run really saw."""

    fingerprint: Annotated[str, Field(description="SHA-256 of contents and split indices")]
    train: int
    val: int
    test: int
    revision: Annotated[str, Field(description="commit of the hub's files, if they tell it")] = ""


class Start(_Frozen):
    """The weights that a run started from: those of another run, or published ones."""

    key: Annotated[str, Field(description="of the run that left them; empty if published")] = ""
    attempt: int = 0
    weights: Annotated[str, Field(description="the name of published ones")] = ""
    weights_sha256: str
    taken: Annotated[int, Field(description="parameters with the weights of the start")]
    fresh: Annotated[int, Field(description="parameters that were initialised anew")]


class Example(_Frozen):
    """A training example or a few of a class, for people to look at."""

    label: str = ""
    texts: Annotated[list[str], Field(description="the columns of one text")] = []
    picture: Annotated[str, Field(description="images side by side, as a data URI")] = ""


class Examples(_Frozen):
    """What the data of a fingerprint looks like."""

    classes: Annotated[int, Field(description="how many there are; not all need be shown")] = 0
    shown: list[Example]


class Provenance(_Frozen):
    """Where the numbers come from."""

    environment: Annotated[
        str | None, Field(description="digest; environments/ has it; None where the run was lost")
    ]
    sources: Annotated[dict[str, str], Field(description="digest of each source file behind it")]
    command: list[str]
    bench_version: str
    git_revision: str | None
    git_dirty: bool | None
    host: str
    device: str
    devices: int
    threads: int
    strategy: Annotated[str | None, Field(description="of several devices")] = None
    compiled: bool = False


class Record(_Frozen):
    """A run's result. `metrics` are those of the test split, scored once after training."""

    schema_version: int = SCHEMA_VERSION
    key: str
    attempt: int
    status: Status
    spec: RunSpec
    started: Annotated[str, Field(description="UTC, ISO 8601")]
    ended: str
    metrics: dict[str, float] = {}
    scored: Annotated[int, Field(description="test examples scored, each once")] = 0
    curve: list[Epoch] = []
    predictions: Annotated[
        str | None, Field(description="SHA-256 of predictions.npz beside the record")
    ] = None
    weights: Annotated[
        str | None, Field(description="SHA-256 of weights.safetensors beside the record, if kept")
    ] = None
    start: Start | None = None
    checkpoints: Annotated[
        dict[str, str], Field(description="SHA-256 of weights that the model's arguments name")
    ] = {}
    cost: Cost | None = None
    data: DataFacts | None = None
    provenance: Provenance
    failure: Failure | None = None
    resumed_from: Annotated[
        list[int], Field(description="attempts whose checkpoints it went on from; cost adds up")
    ] = []


class Environment(_Frozen):
    """Hardware and packages, shared by the records of all runs made with them."""

    python: str
    platform: str
    cpu: str
    cores: int
    memory_bytes: int
    gpus: list[str] = []
    packages: dict[str, str]
    settings: Annotated[
        dict[str, str], Field(description="thread and device settings; never a secret")
    ] = {}


def dump(record: BaseModel) -> dict[str, Any]:
    """The record as JSON-ready data."""
    return record.model_dump(mode="json")
