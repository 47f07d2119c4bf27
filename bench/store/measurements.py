"""Schema of measurement sessions: raw samples and circumstances, no statistics."""

from typing import Annotated, Literal

from pydantic import Field

from lightning_bench.bench.spec import Precision, Scalar
from lightning_bench.bench.store.record import Provenance, Stored
from lightning_bench.bench.study.measure_settings import MeasureMode

SCHEMA_VERSION = 1

FailureKind = Literal["out-of-memory", "lost", "code"]


class Setting(Stored):
    """All that has to be equal before two speeds may be compared, hardware and versions apart."""

    mode: MeasureMode
    batch_size: Annotated[int, Field(ge=1, description="examples a step, of each device")]
    precision: Precision = "fp32"
    compile: bool = False
    device: Literal["cpu", "cuda"] = "cpu"
    devices: int = 1
    threads: Annotated[int, Field(description="CPU threads of each device's process")] = 1


class Contender(Stored):
    """A model with all its arguments, and what to call it."""

    label: str
    model: str
    args: dict[str, Scalar] = {}
    family: Annotated[str, Field(description="the architecture that it is a size of")] = ""


class Counts(Stored):
    """Exact counts of a model; FLOPs are two a multiply-add, of one example, on eager code."""

    parameters: Annotated[int, Field(description="weights that are tied count once")]
    parameters_untied: Annotated[int, Field(description="tied ones counted wherever they stand")]
    trainable: int
    embedding: Annotated[int, Field(description="in tables that are looked up, not multiplied")]
    flops: Annotated[int, Field(description="forward")]
    flops_train: Annotated[int, Field(description="3 × forward: the backward pass is twice it")]
    activations: Annotated[int, Field(description="numbers that its products put out, forward")]
    tokens: Annotated[int | None, Field(description="the length S of its sequences")] = None


class Block(Stored):
    """Some steps with one synchronisation at their end."""

    round: int
    place: Annotated[int | None, Field(description="in its round, which has its own order")] = None
    steps: int
    wall_s: Annotated[float, Field(description="of all steps; of the slowest device")]
    device_s: Annotated[float | None, Field(description="by CUDA events")] = None
    waited_s: Annotated[
        float | None, Field(description="of it, what a CPU's thread waited for a core")
    ] = None
    others_cores: Annotated[
        float | None, Field(description="cores that anybody else was using meanwhile")
    ] = None
    energy_j: Annotated[
        float | None, Field(description="of the whole chip, or of all cards together")
    ] = None
    clock_mhz: Annotated[int | None, Field(description="of the slowest GPU, at its end")] = None
    throttled: Annotated[
        list[str], Field(description="why a GPU's clock was lower than it could be")
    ] = []
    foreign_processes: Annotated[
        int | None, Field(description="on the GPUs measured, at its end; None: can't be told")
    ] = None


class Kernels(Stored):
    """Which kernels torch took, those of a training run."""

    deterministic: Annotated[bool, Field(description="where an operation has such a form")]
    fills_memory: Annotated[bool, Field(description="new memory is filled before it is used")]
    cudnn_benchmark: Annotated[bool, Field(description="cuDNN tries several and keeps one")]
    float32: Annotated[str, Field(description="of products and convolutions: ieee, tf32")]
    nondeterministic: Annotated[
        list[str], Field(description="operations without a deterministic form on this device")
    ] = []


class WarmUp(Stored):
    """How the model was brought to its pace."""

    steps: int
    seconds: float
    settled: Annotated[bool, Field(description="two medians in a row agreed within 2 %")]


class Memory(Stored):
    """Peak memory of steps at this batch: of a CPU's process tree, or on the card.

    `idle` is what was resident before the model was made: Python, torch, what they imported.
    """

    peak_bytes: Annotated[int, Field(description="CPU: resident; CUDA: allocated")]
    reserved_bytes: Annotated[int | None, Field(description="CUDA: held by the allocator")] = None
    idle_bytes: int = 0


class MeasurementFailure(Stored):
    """Why there is no figure; that a model is out of memory at a batch size is a result."""

    kind: FailureKind
    message: str


class Measurement(Stored):
    """One contender in one setting, with its raw samples in the order they were taken."""

    contender: Contender
    setting: Setting
    unit: Literal["images", "tokens"]
    per_example: Annotated[int, Field(description="units an example: 1 image, or its tokens")] = 1
    shape: Annotated[str, Field(description="of an example")] = ""
    counts: Counts | None = None
    first_batch_s: Annotated[float | None, Field(description="the first step, in eager mode")] = (
        None
    )
    compile_s: Annotated[
        float | None, Field(description="the first compiled step less the second")
    ] = None
    warm_up: WarmUp | None = None
    kernels: Annotated[
        Kernels | None, Field(description="None: torch's defaults, as before they were recorded")
    ] = None
    memory: Memory | None = None
    energy_source: Annotated[
        str | None, Field(description="NVML or RAPL; an estimate: it holds what else ran there")
    ] = None
    blocks: list[Block] = []
    latency_s: Annotated[list[float], Field(description="single steps at batch 1")] = []
    failure: MeasurementFailure | None = None


class Processor(Stored):
    """A GPU's state around a session, as sessions kept it before each block did."""

    name: str
    clock_mhz: int | None = None
    foreign_processes: int | None = None


class Machine(Stored):
    """How the machine was at one moment."""

    load_1min: float | None = None
    waiting_share: Annotated[
        float | None, Field(description="share of 10 s in which something waited for a core")
    ] = None
    usable_cores: int
    governor: str | None = None
    clocks_mhz: list[float] = []
    available_bytes: int | None = None
    gpus: list[Processor] = []


class Session(Stored):
    """Measurements that took turns on one machine, round by round."""

    schema_version: int = SCHEMA_VERSION
    id: str
    key: Annotated[str, Field(description="hash of what was asked for")]
    title: str = ""
    quick: bool
    rounds: int
    started: Annotated[str, Field(description="UTC, ISO 8601")]
    ended: str
    before: Machine
    after: Machine
    measurements: list[Measurement]
    searched: Annotated[
        dict[str, list[tuple[int, bool]]],
        Field(description="by label, the batch sizes tried for the largest, and whether each fit"),
    ] = {}
    varied: Annotated[str, Field(description="the argument whose values were tried")] = ""
    provenance: Provenance
