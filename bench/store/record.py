"""Schema of a run's record: its result or failure, learning curve, cost and provenance."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, overload

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetPydanticSchema,
    TypeAdapter,
)
from pydantic_core import core_schema

from lightning_bench.bench.spec import RunSpec

SCHEMA_VERSION = 1

#: `pruned`: a trial that its search stopped early; its curve is what it reached.
Status = Literal["done", "failed", "pruned"]
FailureClass = Literal["out-of-memory", "data", "divergence", "infrastructure", "code"]


class Stored(BaseModel):
    """Frozen data of a file of the store.

    Unknown keys are kept, so that an older bench reads a newer file of the same schema.
    """

    model_config = ConfigDict(extra="allow", frozen=True)


# JSON has no NaN: one is kept as text, which is read as a number again.
_NUMBERS = ConfigDict(ser_json_inf_nan="strings")


class _RecordPart(Stored):
    model_config = _NUMBERS


def _is_one(value: object) -> bool:
    return value == 1


def _is_empty(value: object) -> bool:
    return not value


class Failure(_RecordPart):
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
    """One point of the learning curve."""

    __pydantic_config__ = _NUMBERS

    epoch: int
    step: int
    train_loss: float
    val_loss: float | None = None
    #: On the validation split.
    metrics: dict[str, float] = field(default_factory=dict)

    @classmethod
    def model_validate_json(cls, text: str | bytes) -> "Epoch":
        """Read one, as a model of pydantic's would."""
        return _EPOCH.validate_json(text)

    def model_dump_json(self) -> str:
        """Write it."""
        return _EPOCH.dump_json(self).decode()


@dataclass(frozen=True, slots=True)
class Curve(Sequence[Epoch]):
    """The learning curve, a column for each quantity.

    So it takes half the room, and a quarter of the time to read: of ten thousand records the curves
    are by far the most.
    """

    __pydantic_config__ = _NUMBERS

    epoch: list[int] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    train_loss: list[float] = field(default_factory=list)
    val_loss: list[float | None] = field(default_factory=list)
    metrics: Annotated[
        dict[str, list[float | None]],
        Field(description="on the validation split; null where an epoch has none"),
    ] = field(default_factory=dict)

    @classmethod
    def of(cls, points: Sequence[Epoch]) -> "Curve":
        """The columns of these points."""
        if isinstance(points, Curve):
            return points
        names = dict.fromkeys(name for point in points for name in point.metrics)
        return cls(
            [point.epoch for point in points],
            [point.step for point in points],
            [point.train_loss for point in points],
            [point.val_loss for point in points],
            {name: [point.metrics.get(name) for point in points] for name in names},
        )

    def __len__(self) -> int:
        """How many points there are."""
        return len(self.epoch)

    @overload
    def __getitem__(self, place: int) -> Epoch: ...
    @overload
    def __getitem__(self, place: slice) -> list[Epoch]: ...
    def __getitem__(self, place: int | slice) -> Epoch | list[Epoch]:
        """A point, or some of them."""
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        return Epoch(
            self.epoch[place],
            self.step[place],
            self.train_loss[place],
            self.val_loss[place],
            {
                name: value
                for name, column in self.metrics.items()
                if (value := column[place]) is not None
            },
        )


_EPOCH = TypeAdapter(Epoch)


def _curve_schema(source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
    """Columns, or points as earlier records have them and as training gives them."""
    either = core_schema.union_schema(
        [handler(source), handler.generate_schema(list[Epoch])], mode="left_to_right"
    )
    return core_schema.no_info_after_validator_function(Curve.of, either)


class Cost(_RecordPart):
    """What the run took."""

    parameters: int
    trainable_parameters: int
    train_s: Annotated[float, Field(description="wall time of training with validation")]
    total_s: Annotated[float, Field(description="wall time of the whole run, loading too")]
    device_h: Annotated[float, Field(description="total_s times devices, in hours")]
    train_examples_per_s: float
    peak_memory_bytes: int
    processor_s: Annotated[
        float | None,
        Field(description="of the attempt's first process, whatever else the machine did"),
    ] = None


class DataFacts(_RecordPart):
    """What data the run really saw."""

    fingerprint: Annotated[str, Field(description="SHA-256 of contents and split indices")]
    train: int
    val: int
    test: int
    revision: Annotated[str, Field(description="commit of the hub's files, if they tell it")] = ""
    preprocessing: Annotated[str, Field(description="of images: mean, std, how resized")] = ""


class Start(_RecordPart):
    """The weights that a run started from: those of another run, or published ones."""

    key: Annotated[str, Field(description="of the run that left them; empty if published")] = ""
    attempt: int = 0
    weights: Annotated[str, Field(description="the name of published ones")] = ""
    weights_sha256: str
    taken: Annotated[int, Field(description="parameters with the weights of the start")]
    fresh: Annotated[int, Field(description="parameters that were initialised anew")]


class Example(_RecordPart):
    """A training example or a few of a class, for people to look at."""

    label: str = ""
    texts: Annotated[list[str], Field(description="the columns of one text")] = []
    picture: Annotated[str, Field(description="images side by side, as a data URI")] = ""


class Examples(_RecordPart):
    """What the data of a fingerprint looks like."""

    classes: Annotated[int, Field(description="how many there are; not all need be shown")] = 0
    shown: list[Example]


class Gpu(_RecordPart):
    """A GPU that a run used."""

    name: str
    memory_bytes: int | None = None
    power_limit_w: float | None = None
    mig: Annotated[str, Field(description="the profile of a MIG instance")] = ""


class Provenance(_RecordPart):
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
    device_kind: Annotated[
        str, Field(description="as NVIDIA A100-SXM4-80GB; empty on a CPU and in older records")
    ] = ""
    gpus: Annotated[
        list[Gpu], Field(description="of all ranks in their order; of rank 0 where it failed early")
    ] = []
    visible_devices: Annotated[str, Field(description="CUDA_VISIBLE_DEVICES of the run")] = ""
    hosts: Annotated[
        list[str],
        Field(description="of all ranks in their order, if several", exclude_if=_is_empty),
    ] = []
    sharing: Annotated[
        int, Field(description="runs at a time on each of its GPUs", exclude_if=_is_one)
    ] = 1


class Record(_RecordPart):
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
    curve: Annotated[Curve, GetPydanticSchema(_curve_schema)] = Curve()
    predictions: Annotated[
        str | None, Field(description="SHA-256 of predictions.npz beside the record")
    ] = None
    probabilities: Annotated[
        str | None,
        Field(description="SHA-256 of probabilities.npz beside the record, if kept of classes"),
    ] = None
    too_many_probabilities: Annotated[
        str, Field(description="why those of all classes are not in there, if they are not")
    ] = ""
    arrays: Annotated[
        str | None,
        Field(description="SHA-256 of arrays.npz beside the record, if probes kept some"),
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
    afresh: Annotated[
        str, Field(description="why it did not go on from an earlier attempt's checkpoint")
    ] = ""
    nondeterministic: Annotated[
        list[str], Field(description="operations without a deterministic form on this device")
    ] = []


class Environment(_RecordPart):
    """Hardware and packages, shared by the records of all runs made with them."""

    python: str
    platform: str
    cpu: str
    cores: int
    memory_bytes: int
    gpus: Annotated[list[str], Field(description="of the machine, for runs on them")] = []
    packages: dict[str, str]
    settings: Annotated[
        dict[str, str], Field(description="thread and device settings; never a secret")
    ] = {}
    # Left out where they are empty, so that a CPU's environment has the digest that it had.
    driver: Annotated[str, Field(description="of the GPUs", exclude_if=_is_empty)] = ""
    libraries: Annotated[
        dict[str, str],
        Field(description="cuda, cudnn, nccl, as torch found them", exclude_if=_is_empty),
    ] = {}
