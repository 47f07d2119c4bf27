"""Batch norms are replaced wherever they are, and change nothing in evaluation."""

import copy

import torch
from torch import nn

from lightning_bench.models.tasks.synchronised_batch_norm import SynchronisedBatchNorm, synchronised


def network() -> nn.Module:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    made = nn.ModuleDict({"body": inner, "norm": nn.BatchNorm1d(4, affine=False)})
    model = nn.Sequential(made["body"], nn.LazyLinear(4), made["norm"])
    for _ in range(3):
        model(torch.randn(16, 1, 8, 8))  # moments that are not the first ones
    return model.eval()


def test_on_a_cpu_by_ours_and_on_a_gpu_by_torchs() -> None:
    model, images = network(), torch.randn(5, 1, 8, 8)
    expected = model(images)
    ours = synchronised(copy.deepcopy(model), "cpu").eval()
    assert [isinstance(m, SynchronisedBatchNorm) for m in (ours[0][1], ours[2])] == [True, True]
    assert torch.allclose(ours(images), expected, atol=1e-6)
    assert ours.state_dict().keys() == model.state_dict().keys()
    torchs = synchronised(copy.deepcopy(model), "cuda").eval()
    assert [type(m) for m in (torchs[0][1], torchs[2])] == [nn.SyncBatchNorm] * 2
    assert torch.equal(torchs(images), expected)
