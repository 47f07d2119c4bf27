"""Every registered model on a GPU that is not there: torch's fake tensors say they are on CUDA.

They have shapes, types and devices but no numbers, so that 75 models of any size take no memory;
an operation on tensors of CUDA and of the CPU is an error, as it is on a GPU. There is no backward
pass, since torch's engine asks for a CUDA context.
"""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from lightning_bench.models.registry.contract import CLASSES, Subject
from lightning_bench.models.registry.registry import variants
from lightning_bench.models.tasks.synchronised_batch_norm import BatchNorm, synchronised


@pytest.fixture
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make fake tensors, which may be on CUDA."""
    with FakeTensorMode():  # looks for a GPU, and without one does not ask it for anything
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # autocast asks
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
        with torch.backends.cudnn.flags(enabled=False):  # its LSTM asks a card what it can do
            yield


def on_gpu(model: nn.Module) -> nn.Module:
    """The model with fake tensors on CUDA in place of its parameters and buffers, as `.to` would.

    A tensor that is neither stays where it was, as it does with `.to`.
    """
    moved: dict[Tensor, nn.Parameter] = {}  # a tied one once
    for module in model.modules():
        for name, weight in [*module.named_parameters(recurse=False, remove_duplicate=False)]:
            if weight not in moved:
                moved[weight] = nn.Parameter(like(weight), weight.requires_grad)
            setattr(module, name, moved[weight])
        for name, buffer in [*module.named_buffers(recurse=False)]:
            setattr(module, name, like(buffer))
    return model


def like(tensor: Tensor) -> Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> Subject:
    """The model made on the meta device, before there are fakes: initialisers may read values."""
    made = Subject(variants()[request.param], largest=0)
    assert made.model.training
    assert made.inputs
    return made


@pytest.mark.slow
@pytest.mark.parametrize("subject", variants(), indirect=True)
def test_no_tensor_of_the_cpu_comes_between(subject: Subject, fake_gpu: None) -> None:
    model = on_gpu(subject.model)
    inputs = [like(each) for each in subject.inputs]
    if subject.variant.kind == "text":  # a mask and segments
        inputs += [like(inputs[0].bool()), like(inputs[0])]
    modes = [(False, None), (True, torch.bfloat16), (True, torch.float16)]
    if any(isinstance(module, BatchNorm) for module in model.modules()):
        modes.append((True, None))
    for training, dtype in modes:
        if training and dtype is None:
            model = synchronised(model, "cuda")
            assert not any(isinstance(module, BatchNorm) for module in model.modules())
        autocast = torch.autocast("cuda", dtype) if dtype else nullcontext()
        with autocast:
            logits = model.train(training)(*inputs)
        assert logits.shape == (2, CLASSES)
        assert logits.device == torch.device("cuda", 0)
        # Some end in float32 whatever came before.
        assert logits.dtype in {dtype or torch.float32, torch.float32}


class Forgetful(nn.Module):
    """Adds a tensor of the CPU to what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = torch.zeros(3)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.offset


class Made(nn.Module):
    """Makes one as it goes."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.arange(3)


@pytest.mark.parametrize("model", [Forgetful, Made])
def test_one_that_does_is_noticed(model: type[nn.Module], fake_gpu: None) -> None:
    with pytest.raises(RuntimeError, match=r"cpu.*cuda|cuda.*cpu"):
        on_gpu(model())(torch.empty(2, 3, device="cuda"))
