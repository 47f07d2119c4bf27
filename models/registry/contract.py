"""The contract of a model with this harness, which `bench check-model NAME` checks.

    for result in check("my_package:my_model"):
        print(result.status, result.name, result.detail)

Each check is a function that raises where the model falls short; on a small input, in about a
minute on a CPU. A model with more than `largest` parameters is made on the meta device, where
shapes and gradients can be followed, but not numbers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor, nn

from lightning_bench.common.messages import first_line
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry.arguments import Value
from lightning_bench.models.registry.counting import parameters
from lightning_bench.models.registry.example_inputs import example
from lightning_bench.models.registry.model_variant import Variant
from lightning_bench.models.registry.registry import look_up
from lightning_bench.models.registry.user_model import UserModel, small_data
from lightning_bench.models.weights.heads import head_modules, output_names

CLASSES = 5
LENGTH = 16
LARGE = 64
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
IMAGE_SIZES = (8, 28, 32, 64, 96, 192, 384)  # divided by patches of 2 to 32, and by HaloNet's 12


@dataclass(frozen=True)
class Result:
    """What came of one check; `detail` says why it failed or was skipped."""

    name: str
    status: Literal["passed", "failed", "skipped"]
    detail: str = ""


class NotHere(Exception):
    """This check has no meaning for this model, or not on the meta device."""


def require(condition: bool, message: str) -> None:
    """Raise a ModelError with this message unless the condition holds."""
    if not condition:
        raise ModelError(message)


class Subject:
    """A model under check, made small where its arguments allow."""

    def __init__(self, variant: Variant, largest: int) -> None:
        self.variant = variant
        self.arguments = self._shrink()
        with torch.device("meta"):
            count = parameters(self.make())
        self.device = torch.device("cpu" if count <= largest else "meta")

    def make(self, **arguments: Value) -> nn.Module:
        """Make the model on the current default device."""
        return self.variant.function(**{**self.arguments, **arguments})

    @cached_property
    def model(self) -> nn.Module:
        """The model, with noise on its weights: zeros and ones would hide what flows."""
        torch.manual_seed(0)
        with self.device, torch.no_grad():
            model = self.make()
            for parameter in model.parameters():
                parameter.add_(0.02 * torch.randn_like(parameter))
        return model

    @cached_property
    def inputs(self) -> tuple[Tensor, ...]:
        """Two examples."""
        torch.manual_seed(1)
        with self.device:
            return example(self.variant, batch=2, **self.arguments)

    @torch.no_grad()
    def outputs(self, *inputs: Tensor) -> Tensor:
        """Logits in evaluation, of the given inputs or of the two examples."""
        return self.model.eval()(*(inputs or self.inputs))

    def needs_numbers(self) -> None:
        """Skip a check that compares numbers, where there are none."""
        if self.device.type == "meta":
            raise NotHere("too large for a CPU in a minute: followed on the meta device only")

    def _shrink(self) -> dict[str, Value]:
        if isinstance(self.variant, UserModel):
            return small_data(self.variant)
        if self.variant.kind == "text":
            return {"vocab_size": 100, "length": LENGTH, "classes": CLASSES}
        with torch.device("meta"):
            modules = self.variant.function(classes=CLASSES).modules()
        # A deep ConvNet shrinks smaller images to one pixel: batch norm over the two values of two
        # examples divides by next to nothing, and the gradient of 55 such blocks overflows.
        deep = any(isinstance(module, BATCH_NORMS) for module in modules)
        for size in sorted(IMAGE_SIZES, key=lambda size: (deep and size < LARGE, size)):
            arguments: dict[str, Value] = {"image_size": size, "classes": CLASSES}
            if self._takes(arguments):
                return arguments
        return {"classes": CLASSES}

    def _takes(self, arguments: dict[str, Value]) -> bool:
        try:
            with torch.device("meta"), torch.no_grad():
                model = self.variant.function(**arguments)
                model.eval()(*example(self.variant, batch=1, **arguments))
        except Exception:  # noqa: BLE001 -- whatever it raises, it doesn't take this size
            return False
        return True


def logits(subject: Subject) -> None:
    """One logit a class for every example."""
    shape = tuple(subject.outputs().shape)
    wanted = (2, subject.arguments["classes"])
    require(shape == wanted, f"wanted logits of {wanted}, got {shape}")


def independence(subject: Subject) -> None:
    """In evaluation an example's logits don't depend on the others in its batch."""
    subject.needs_numbers()
    alone = subject.outputs(*(each[:1] for each in subject.inputs))
    torch.testing.assert_close(alone, subject.outputs()[:1], rtol=1e-3, atol=1e-4)


def gradients(subject: Subject) -> None:
    """Every parameter that is trained gets a finite gradient (DDP waits for each of them)."""
    model = subject.model.train()
    model.zero_grad()
    model(*subject.inputs).square().sum().backward()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            if parameter.grad is None:
                raise ModelError(f"{name} gets no gradient")
            if subject.device.type != "meta":
                finite = parameter.grad.isfinite().all()
                require(bool(finite), f"the gradient of {name} isn't finite")
    model.zero_grad()


def state(subject: Subject) -> None:
    """The state_dict holds all that matters: loaded into a fresh model it gives the same logits."""
    subject.needs_numbers()
    torch.manual_seed(2)
    fresh = subject.make()
    fresh.load_state_dict(subject.model.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(fresh.eval()(*subject.inputs), subject.outputs())


def bf16(subject: Subject) -> None:
    """Autocast to bfloat16 gives finite logits and gradients."""
    subject.needs_numbers()
    model = subject.model.train()
    with torch.autocast("cpu", torch.bfloat16):
        y = model(*subject.inputs)
    y.float().square().sum().backward()
    require(bool(y.isfinite().all()), "the logits aren't finite")
    model.zero_grad()


def head(subject: Subject) -> None:
    """Its head is known and alone depends on the number of classes: fine-tuning keeps the rest."""
    if isinstance(subject.variant, UserModel) and not subject.variant.takes("classes"):
        raise NotHere("it takes no number of classes")
    head_modules(subject.model)
    outputs = tuple(f"{name}." for name in output_names(subject.model))
    with torch.device("meta"):
        other = subject.make(classes=CLASSES + 2).state_dict()
    for name, value in subject.model.state_dict().items():
        same = name in other and other[name].shape == value.shape
        require(
            same or name.startswith(outputs),
            f"{name} depends on the number of classes, and is no part of the head ({outputs})",
        )


def pads(subject: Subject) -> None:
    """A padded text gives the same logits as the text alone."""
    if subject.variant.kind != "text":
        raise NotHere("an image has no pads")
    if isinstance(subject.variant, UserModel) and not subject.variant.canonical:
        raise NotHere("it need not know of pads")
    subject.needs_numbers()
    (tokens,) = subject.inputs
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[:, LENGTH - 5 :] = False
    padded = subject.outputs(tokens, mask)
    other = subject.outputs(torch.where(mask, tokens, 0), mask)
    alone = subject.outputs(tokens[:, : LENGTH - 5])
    torch.testing.assert_close(padded, other, rtol=1e-4, atol=1e-5, msg="pads leak")
    torch.testing.assert_close(padded, alone, rtol=1e-4, atol=1e-5, msg="padding shows")


def segments(subject: Subject) -> None:
    """A pair of texts can be told apart by its segments, or they are ignored."""
    if subject.variant.kind != "text":
        raise NotHere("an image has no segments")
    subject.needs_numbers()
    (tokens,) = subject.inputs
    second = torch.zeros_like(tokens)
    second[:, LENGTH // 2 :] = 1
    shape = tuple(subject.outputs(tokens, torch.ones_like(tokens).bool(), second).shape)
    require(shape == (2, CLASSES), f"wanted logits of {(2, CLASSES)}, got {shape}")


def words(subject: Subject) -> None:
    """With classes=0 a text model gives a logit a word at every position."""
    if subject.variant.kind != "text":
        raise NotHere("images have no masked-LM head")
    if isinstance(subject.variant, UserModel) and not subject.variant.canonical:
        raise NotHere("it need not fill in words")
    with subject.device:
        try:
            model = subject.make(classes=0)
        except ModelError as error:
            raise NotHere(str(error)) from error
    shape = tuple(model(*subject.inputs).shape)
    wanted = (2, LENGTH, subject.arguments["vocab_size"])
    require(shape == wanted, f"wanted logits of {wanted}, got {shape}")


def compiled(subject: Subject) -> None:
    """torch.compile gives the same logits, and gradients."""
    subject.needs_numbers()
    compiles(subject, "inductor")


def compiles(subject: Subject, backend: str) -> None:
    """Raise unless the model, compiled by this backend, gives the same logits, and gradients."""
    torch.compiler.reset()
    model = torch.compile(subject.model.eval(), backend=backend)
    y = model(*subject.inputs)
    y.square().sum().backward()
    if subject.device.type != "meta":
        torch.testing.assert_close(y.detach(), subject.outputs(), rtol=1e-3, atol=1e-4)
    subject.model.zero_grad()


CHECKS: dict[str, Callable[[Subject], None]] = {
    "logits": logits,
    "independence": independence,
    "gradients": gradients,
    "state": state,
    "bf16": bf16,
    "head": head,
    "pads": pads,
    "segments": segments,
    "words": words,
    "compiled": compiled,
}


def check(name: str, largest: int = 100_000_000) -> list[Result]:
    """Put a model through every check; a name or arguments that don't do are the first result."""
    return list(_results(name, largest))


def _results(name: str, largest: int) -> Iterator[Result]:
    try:
        subject = Subject(look_up(name), largest)
    except Exception as error:  # noqa: BLE001 -- what a third party's model raises is the finding
        yield Result("made", "failed", _one_line(error))
        return
    yield Result("made", "passed", f"with {subject.arguments}")
    for title, test in CHECKS.items():
        try:
            test(subject)
            yield Result(title, "passed", (test.__doc__ or "").strip())
        except NotHere as reason:
            yield Result(title, "skipped", str(reason))
        except Exception as error:  # noqa: BLE001 -- as above
            yield Result(title, "failed", _one_line(error))


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"
