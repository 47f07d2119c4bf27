"""RunSpec: one fully resolved run as plain data, and the key that names it.

The key is a hash of the spec's canonical form. Whatever can't change the result (workers, paths,
logging, the number of devices at the same global batch) is no field here, so it can't get in.
Values at their defaults are left out of the canonical form: a field added later, whose default is
what was done before, keeps every older key. So a default, once released, never changes
(tests/bench/test_spec.py pins them).
"""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    field_validator,
    model_validator,
)

from lightning_bench.data.dataset import SplitBy
from lightning_bench.models.tasks import loss_names, optimizer_names

KEY_VERSION = 1

Interpolation = Literal["bicubic", "bilinear"]
Precision = Literal["fp32", "tf32", "bf16", "fp16"]
#: Model arguments that name a repository of weights; where it lies on a machine is in no key.
WEIGHTS = frozenset({"encoder", "weights"})

#: Sources of randomness of a run.
Source = Literal["weights", "order", "augmentation", "dropout", "shots", "split"]

Scalar = bool | int | float | str | None
#: What an optimiser of another library may be given.
Argument = Scalar | list[Scalar]
if TYPE_CHECKING:
    Nested = Any
else:  #: Scalars, and lists and mappings of them.
    Nested = JsonValue


class Settings(BaseModel):
    """Typed data from a page: nothing unknown, nothing coerced from text, nothing infinite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Group(Settings):
    """Factors of the learning rate and of weight decay for parameters by their names."""

    match: Annotated[str, Field(min_length=1, description="a regular expression, anywhere in it")]
    lr: Annotated[float, Field(ge=0, description="factor")] = 1.0
    weight_decay: Annotated[float, Field(ge=0, description="factor")] = 1.0

    @field_validator("match")
    @classmethod
    def _pattern(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
        return value


class Recipe(Settings):
    """How a model is trained; the same for every entry of a study unless the page says so."""

    epochs: Annotated[int, Field(ge=0, description="0 only scores the weights it starts from")] = 10
    batch_size: Annotated[int, Field(ge=1, description="global, over all devices")] = 64
    optimizer: Annotated[
        str,
        Field(description="sgd, adam, adamw, adagrad, lamb, timm/…, torch/…, module:callable"),
    ] = "adamw"
    lr: Annotated[float, Field(gt=0, description="peak learning rate")] = 1e-3
    weight_decay: Annotated[float, Field(ge=0, description="not on biases and norms")] = 0.0
    momentum: Annotated[float, Field(ge=0, lt=1, description="of sgd")] = 0.9
    beta1: Annotated[float, Field(ge=0, lt=1, description="of adam, adamw, lamb")] = 0.9
    beta2: Annotated[float, Field(ge=0, lt=1, description="of adam, adamw, lamb")] = 0.999
    schedule: Annotated[
        str,
        Field(
            description="constant, linear, cosine, one-cycle, trapezoid, triangle, step, "
            "inverse-sqrt, module:callable"
        ),
    ] = "cosine"
    warmup: Annotated[float, Field(ge=0, le=1, description="fraction of all steps")] = 0.0
    clip_norm: Annotated[float, Field(gt=0)] | None = None
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    crop: Annotated[int, Field(ge=0, description="of images padded by so many pixels")] = 0
    flip: Annotated[bool, Field(description="images left to right, half of them")] = False
    resized_crop: Annotated[float, Field(ge=0, le=1, description="least part; large images")] = 0.0
    randaugment: Annotated[int, Field(ge=0, le=30, description="magnitude of 30; 2 steps")] = 0
    erasing: Annotated[float, Field(ge=0, le=1, description="probability")] = 0.0
    mixup: Annotated[float, Field(ge=0, description="alpha")] = 0.0
    cutmix: Annotated[float, Field(ge=0, description="alpha; with mixup, either")] = 0.0
    whole_words: Annotated[bool, Field(description="mask the tokens of a word together")] = False
    precision: Annotated[
        Precision, Field(description="fp32 is IEEE on every device; tf32, fp16: on a GPU")
    ] = "fp32"
    loss_scale: Annotated[
        float, Field(gt=0, description="at first, of fp16; halved where gradients overflow")
    ] = 65536.0
    layer_decay: Annotated[
        float, Field(gt=0, le=1, description="factor of lr from each layer to the one below it")
    ] = 1.0
    ema: Annotated[
        float, Field(ge=0, lt=1, description="decay a step of the averaged weights; 0 for none")
    ] = 0.0
    freeze: Annotated[bool, Field(description="train the head alone: a linear probe")] = False
    accumulate: Annotated[int, Field(ge=1, description="parts of a batch, one step")] = 1
    steps: Annotated[int, Field(ge=1, description="of the optimiser, instead of epochs")] | None = (
        None
    )
    loss: Annotated[
        str, Field(description="cross-entropy, binary, focal, mse, mae, huber, module:callable")
    ] = ""
    loss_args: dict[str, Scalar] = {}
    class_weights: (
        Literal["", "balanced"]
        | Annotated[tuple[Annotated[float, Field(ge=0)], ...], Field(strict=False)]
    ) = ""

    optimizer_args: Annotated[dict[str, Argument], Field(description="as betas: [0.9, 0.99]")] = {}
    schedule_args: dict[str, Scalar] = {}
    groups: Annotated[
        tuple[Group, ...],
        Field(strict=False, description="other rates by parameter name, the first that matches"),
    ] = ()

    @field_validator("optimizer")
    @classmethod
    def _optimizer_name(cls, value: str) -> str:
        if problem := optimizer_names.optimizer_problem(value, {}):
            raise ValueError(problem)
        return value

    @field_validator("loss")
    @classmethod
    def _loss_name(cls, value: str) -> str:
        if problem := loss_names.problem(value, {}):
            raise ValueError(problem)
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """One validator, since a report reads thousands of recipes."""
        if problem := _names_problem(self):
            raise ValueError(problem)
        if self.steps is not None and self.epochs != type(self).model_fields["epochs"].default:
            raise ValueError("epochs or steps, not both (`steps: null` takes them back)")
        return self

    def length(self, batches: int) -> tuple[int, int]:
        """How many epochs and steps a training has, with so many batches in an epoch."""
        if self.steps is None:
            return self.epochs, self.epochs * batches
        return math.ceil(self.steps / max(1, batches)), self.steps


def _names_problem(recipe: Recipe) -> str:
    """What is wrong with a recipe's optimiser, schedule or loss; empty where nothing is."""
    names = recipe.optimizer, recipe.schedule, recipe.loss
    if recipe.optimizer_args or recipe.schedule_args or recipe.loss_args:
        arguments = recipe.optimizer_args, recipe.schedule_args, recipe.loss_args
        return _problem_of(*names, *arguments)
    return _plain_problem_of(*names)


@lru_cache
def _plain_problem_of(optimizer: str, schedule: str, loss: str) -> str:
    return _problem_of(optimizer, schedule, loss, {}, {}, {})


def _problem_of(
    optimizer: str,
    schedule: str,
    loss: str,
    optimizer_args: Mapping[str, Any],
    schedule_args: Mapping[str, Any],
    loss_args: Mapping[str, Any],
) -> str:
    return (
        optimizer_names.optimizer_problem(optimizer, optimizer_args)
        or optimizer_names.schedule_problem(schedule, schedule_args)
        or loss_names.problem(loss, loss_args)
    )


class ModelSpec(Settings):
    """A variant of the registry and those of its arguments that differ from its defaults."""

    name: str
    args: dict[str, Nested] = {}
    metrics: Annotated[
        dict[str, str],
        Field(description="what a LightningModule of one's own logs, to the metric that it is"),
    ] = {}


class Arguments(dict[str, Nested]):
    """Arguments as a page gives them, which can be a key of a cache."""

    def __hash__(self) -> int:  # type: ignore[override]
        """Of what they say."""
        return hash(canonical_json(self))


class DataSpec(Settings):
    """A data set of the catalogue, and those of its settings that differ from it."""

    name: str
    image_size: Annotated[int, Field(ge=4, description="pixels of a side")] | None = None
    length: Annotated[int, Field(ge=8, description="tokens, longer texts are cut")] | None = None
    tokenizer: Annotated[str, Field(description="bert-uncased, train:N, a repository")] | None = (
        None
    )
    sample: Annotated[bool, Field(description="a part of it will do; the record counts")] = False
    split: Annotated[
        SplitBy,
        Field(description="seed: the run's draws test and validation; validation: that alone"),
    ] = "fixed"
    shots: (
        Annotated[
            int, Field(ge=1, description="training examples of each class, drawn by the run's seed")
        ]
        | None
    ) = None
    shifts: Annotated[
        int, Field(ge=0, description="test also images moved right by 1 to so many pixels")
    ] = 0
    mean: (
        Annotated[tuple[float, ...], Field(strict=False, description="normalise images by it")]
        | None
    ) = None
    std: Annotated[tuple[float, ...], Field(strict=False, description="and by this")] | None = None
    interpolation: Interpolation | None = None
    crop: (
        Annotated[float, Field(gt=0, le=1, description="part of the shorter side that is seen")]
        | None
    ) = None

    columns: Annotated[
        tuple[str, ...], Field(strict=False, description="of a table: what a model reads")
    ] = ()
    label: Annotated[
        tuple[str, ...],
        BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
        Field(strict=False, description="of a table: the label's column, or several"),
    ] = ()
    task: Literal["", "classify", "multilabel", "regress"] = ""
    split_column: Annotated[
        str, Field(description="of a table: train, val or test in each row")
    ] = ""
    config: Annotated[str, Field(description="of the hub: the folder of its Parquet files")] = ""
    revision: Annotated[str, Field(description="of the hub: the commit")] | None = None
    title: Annotated[str, Field(exclude=True, description="what tables call it")] = ""
    args: Annotated[
        dict[str, Nested],
        AfterValidator(Arguments),
        Field(description="of module:callable, which gives data of your own"),
    ] = Arguments()

    @model_validator(mode="after")
    def _both_moments(self) -> Self:
        if (self.mean is None) != (self.std is None):
            raise ValueError("mean and std are given together")
        return self


class RunSpec(Settings):
    """Everything that decides a run's result, apart from the code and the hardware."""

    model: ModelSpec
    data: DataSpec
    recipe: Recipe = Recipe()
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    source_seeds: Annotated[
        dict[Source, Annotated[int, Field(ge=0, lt=2**32)]],
        Field(description="of sources of randomness that don't go by `seed`"),
    ] = {}
    tested: Annotated[
        bool, Field(description="False for a trial: it never sees the test split")
    ] = True
    start: Annotated[
        "RunSpec | None", Field(description="the run whose final weights this one starts from")
    ] = None
    weights: Annotated[str, Field(description="the published weights this one starts from")] = ""
    probes: Annotated[tuple[str, ...], Field(description="measures of the model, an epoch")] = ()
    metrics: Annotated[
        tuple[str, ...], Field(description="instead of the data set's own; the first ranks")
    ] = ()

    callbacks: Annotated[
        tuple[str, ...], Field(description="the user's own of Lightning, module:callable")
    ] = ()

    @property
    def key(self) -> str:
        """The run's name in the store: 20 hexadecimal digits of the canonical form's SHA-256.

        Not kept in the object, since `model_copy` would take it along to a changed spec.
        """
        text = f"{KEY_VERSION}:{self.canonical()}"
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def seed_of(self, source: Source) -> int:
        """The seed of a source of randomness: its own where it has one, else the run's."""
        return self.source_seeds.get(source, self.seed)

    def canonical(self) -> str:
        """The spec as JSON with sorted keys and without defaults; equal specs, equal text."""
        return canonical_json(self.model_dump(mode="json", exclude_defaults=True))


_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> str:
    """JSON with one spelling for every value."""
    text = _JSON.encode(value)
    # Few texts can hold a minus zero, which is zero; to look for it takes as long as all the rest.
    return _JSON.encode(_plain(value)) if "-0.0" in text else text


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    # Minus zero is zero.
    return value + 0.0 if isinstance(value, float) else value
