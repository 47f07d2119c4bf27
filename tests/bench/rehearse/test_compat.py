"""What the rehearsal takes of torch's fake tensors."""

import pytest
import torch
from torch import nn

from lightning_bench.bench.rehearse.compat import DYNAMIC, FakeTensorMode


def test_fake_tensors_are_on_the_cpu_by_name_and_keep_no_memory() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        layer = nn.Linear(200_000, 200_000)  # 160 GB
        output = layer(torch.zeros(2, 200_000))
        assert (output.device.type, output.shape) == ("cpu", (2, 200_000))
        with pytest.raises(RuntimeError, match="reduction dim"):
            layer(torch.zeros(2, 3))


def test_what_needs_a_value_says_so() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        with pytest.raises(DYNAMIC):
            torch.zeros(3).sum().item()
        with pytest.raises(DYNAMIC):
            torch.zeros(3)[torch.zeros(3, dtype=torch.bool)]
