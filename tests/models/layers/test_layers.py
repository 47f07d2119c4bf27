"""What must hold of the layers for any size and weights, by hypothesis."""

import math
from typing import Any, get_args

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_bench.models.errors import ModelError
from lightning_bench.models.gmlp import Block as GatedBlock
from lightning_bench.models.layers.activation import activation
from lightning_bench.models.layers.attention import SHORT, Attention, attend
from lightning_bench.models.layers.drop_path import DropPath, drop_paths
from lightning_bench.models.layers.linear import LARGE, Linear, along_channels, along_sequence
from lightning_bench.models.layers.locally_connected import LocallyConnected
from lightning_bench.models.layers.position_embedding import resized, sinusoids
from lightning_bench.models.layers.recurrent_conv import LocalResponseNorm, RecurrentConv
from lightning_bench.models.layers.spatial_gating_unit import Gate, spatial_gate
from lightning_bench.models.layers.spatial_linear import (
    Matrix,
    SpatialLinear,
    SquareLinear,
    ToeplitzLinear,
)
from lightning_bench.models.registry.registry import create
from lightning_bench.models.weights.heads import head_modules
from lightning_bench.models.weights.load_weights import load_weights

sizes = st.integers(2, 12)
seeds = st.integers(0, 2**16)


def block(
    width: int,
    hidden: int,
    length: int,
    gate: Any = "split",
    matrix: Any = "dense",
    attention: int = 0,
) -> Any:
    return GatedBlock(width, hidden, length, gate, matrix, attention, torch.nn.Identity())


@given(sizes, sizes, seeds, st.sampled_from(["dense", "toeplitz"]))
def test_a_gated_block_starts_as_its_channel_path(
    length: int, width: int, seed: int, matrix: Any
) -> None:
    torch.manual_seed(seed)
    it = block(width, 2 * width, length, "multiplicative", matrix)
    x = torch.randn(3, length, width)
    plain = x + it.v(F.gelu(it.u(it.norm(x))))  # s(Z) = Z
    torch.testing.assert_close(it(x), plain, rtol=1e-3, atol=1e-3)


@given(sizes, sizes, seeds)
def test_a_split_block_starts_with_the_first_half_of_its_channels(
    length: int, width: int, seed: int
) -> None:
    torch.manual_seed(seed)
    it = block(width, 2 * width, length)
    x = torch.randn(3, length, width)
    z1, _ = F.gelu(it.u(it.norm(x))).chunk(2, -1)
    torch.testing.assert_close(it(x), x + it.v(z1), rtol=1e-3, atol=1e-3)


@given(sizes, sizes, seeds, st.sampled_from(sorted(get_args(Gate))))
def test_at_the_start_no_token_sees_another(length: int, width: int, seed: int, gate: Any) -> None:
    torch.manual_seed(seed)
    it = block(width, 2 * width, length, gate)
    x = torch.randn(2, length, width)
    other = torch.cat([x[:, :1], torch.randn(2, length - 1, width)], 1)
    torch.testing.assert_close(it(x)[:, 0], it(other)[:, 0], rtol=1e-3, atol=1e-3)


@given(sizes, seeds)
def test_gates_are_the_equations(length: int, seed: int) -> None:
    torch.manual_seed(seed)
    z, x = torch.randn(2, length, 6), torch.randn(2, length, 4)
    for name, s in {
        "linear": lambda z, f: f(z),
        "additive": lambda z, f: z + f(z),
        "multiplicative": lambda z, f: z * f(z),
        "split": lambda z, f: z[..., :3] * f(z[..., 3:]),
    }.items():
        gate = block(4, 6, length, name).gate
        w, b = gate.f.spatial.weight, gate.f.spatial.bias
        torch.nn.init.normal_(w)

        def f(z: Any, w: Any = w, b: Any = b) -> Any:
            normal = F.layer_norm(z, z.shape[-1:])
            return torch.einsum("ts,bsc->btc", w, normal) + b[:, None]

        torch.testing.assert_close(gate(z, x, None), s(z, f), rtol=1e-4, atol=1e-4)


@given(st.integers(1, 20), seeds)
def test_a_toeplitz_matrix_is_constant_along_its_diagonals(length: int, seed: int) -> None:
    torch.manual_seed(seed)
    it = ToeplitzLinear(length)
    matrix = it.matrix().detach()
    assert it.diagonals.numel() == 2 * length - 1
    assert torch.equal(matrix[1:, 1:], matrix[:-1, :-1])
    assert matrix.unique().numel() == it.diagonals.unique().numel()


@given(st.integers(2, 20), st.data())
def test_spatial_maps_of_a_shorter_text_use_the_corner(length: int, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, length))
    x = torch.randn(2, n, 3)
    for it in (SquareLinear(length), ToeplitzLinear(length)):
        for parameter in it.parameters():
            torch.nn.init.normal_(parameter)
        padded = it(F.pad(x, (0, 0, 0, length - n)))[:, :n]
        torch.testing.assert_close(it(x), padded, rtol=1e-4, atol=1e-4)
    with pytest.raises(ModelError, match="too long"):
        it(torch.randn(1, length + 1, 3))


@given(st.integers(1, 16), st.integers(0, 300), st.integers(0, 300))
def test_sinusoidal_positions_shift_by_a_rotation(pairs: int, t: int, shift: int) -> None:
    width = 2 * pairs
    table = sinusoids(601, width).double()
    frequencies = 10_000.0 ** (-torch.arange(0, width, 2).double() / width)
    cos, sin = (shift * frequencies).cos(), (shift * frequencies).sin()
    p = table[t].view(pairs, 2)
    rotated = torch.stack([cos * p[:, 0] + sin * p[:, 1], -sin * p[:, 0] + cos * p[:, 1]], -1)
    torch.testing.assert_close(rotated.flatten(), table[t + shift], rtol=0, atol=1e-4)


def test_sinusoidal_positions_are_those_of_the_document() -> None:
    table = sinusoids(50, 128)
    assert table.shape == (50, 128)
    assert table[7, 10].item() == pytest.approx(math.sin(7 / 10_000 ** (10 / 128)), abs=1e-5)
    assert table[7, 11].item() == pytest.approx(math.cos(7 / 10_000 ** (10 / 128)), abs=1e-5)


@settings(max_examples=20)
@given(seeds, st.sampled_from(["token", "mean"]))
def test_a_vit_without_positions_is_permutation_invariant(seed: int, pool: str) -> None:
    torch.manual_seed(seed)
    sizes = {"patch": 4, "width": 16, "depth": 2, "heads": 2, "hidden": 32}
    blind = create("vit", image_size=16, classes=3, positions="none", pool=pool, **sizes).eval()
    seeing = create("vit", image_size=16, classes=3, pool=pool, **sizes).eval()
    torch.nn.init.normal_(seeing.positions.weight)
    x = torch.randn(2, 3, 16, 16)
    patches = x.unfold(2, 4, 4).unfold(3, 4, 4).flatten(2, 3)
    order = torch.randperm(16)
    while (order == torch.arange(16)).all():
        order = torch.randperm(16)
    mixed = patches[:, :, order].view(2, 3, 4, 4, 4, 4)
    mixed = mixed.permute(0, 1, 2, 4, 3, 5).reshape(2, 3, 16, 16)
    torch.testing.assert_close(blind(mixed), blind(x), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(seeing(mixed), seeing(x), rtol=1e-4, atol=1e-5)


@given(st.integers(1, 4), st.integers(1, 3), st.integers(2, 9))
def test_a_recurrent_layer_shares_its_weights_over_the_steps(
    steps: int, batch: int, side: int
) -> None:
    it = RecurrentConv(8, steps)
    assert sum(p.numel() for p in it.parameters()) == 2 * 9 * 8 * 8 + 8  # whatever the steps
    calls = []
    it.recurrent_conv.register_forward_hook(lambda *_: calls.append(1))
    it(torch.randn(batch, 8, side, side))
    assert len(calls) == steps


@given(st.integers(0, 3))
def test_a_recurrent_layer_sees_one_pixel_further_a_step(steps: int) -> None:
    it = RecurrentConv(4, steps)
    for parameter in it.parameters():
        torch.nn.init.constant_(parameter, 0.1)  # so that no relu is closed
    x = torch.rand(1, 4, 11, 11, requires_grad=True)
    it(x)[0, :, 5, 5].square().sum().backward()
    seen = (x.grad.abs().sum((0, 1)) > 0).any(1).nonzero().flatten()
    # Response normalisation is across maps, so that it widens nothing.
    assert seen.tolist() == list(range(5 - 1 - steps, 5 + 1 + steps + 1))


@given(sizes, sizes, seeds)
def test_pads_are_not_attended_to(n: int, pads: int, seed: int) -> None:
    torch.manual_seed(seed)
    it = Attention(8, 2)
    x = torch.randn(2, n + pads, 8)
    mask = torch.arange(n + pads).expand(2, -1) < n
    torch.testing.assert_close(it(x, mask)[:, :n], it(x[:, :n]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pads", [0, 5])
def test_plain_products_attend_as_the_fused_kernel_does(
    pads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    exact = torch.randn(3, 2, 3, 17, 32, dtype=torch.float64, requires_grad=True)
    seen = (torch.arange(17) < 17 - pads).expand(2, 1, 1, -1) if pads else None
    wanted = F.scaled_dot_product_attention(*exact, attn_mask=seen)
    wanted.square().sum().backward()
    fused = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", None)  # it is not asked
    rounded = exact.detach().bfloat16().requires_grad_()
    found = attend(*rounded, seen)
    found.square().sum().backward()
    # bfloat16 keeps 8 bits.
    torch.testing.assert_close(found.double(), wanted, rtol=2e-2, atol=2e-2)
    scale = exact.grad.abs().max()
    torch.testing.assert_close(rounded.grad.double() / scale, exact.grad / scale, rtol=0, atol=2e-2)
    monkeypatch.setattr(F, "scaled_dot_product_attention", fused)
    kept = fused(*rounded, attn_mask=seen)
    assert (found - wanted).abs().mean() < 2 * (kept - wanted).abs().mean()


@pytest.mark.parametrize(
    ("dtype", "length"), [(torch.float32, 8), (torch.bfloat16, SHORT + 1), (torch.float64, 8)]
)
def test_the_fused_kernel_attends_elsewhere(dtype: torch.dtype, length: int) -> None:
    q, k, v = torch.randn(3, 1, 1, length, 4, dtype=dtype).unbind()
    assert torch.equal(attend(q, k, v, None), F.scaled_dot_product_attention(q, k, v))


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 4), st.integers(60, 200), seeds)
def test_large_products_by_convolution_are_the_plain_products(
    batch: int, length: int, seed: int
) -> None:
    torch.manual_seed(seed)
    x = torch.randn(batch, length, 256, requires_grad=True)
    w = torch.randn(LARGE // x.numel() + 1, 256, requires_grad=True)
    b = torch.randn(w.shape[0], requires_grad=True)
    plain = x @ w.T + b
    fast = along_channels(w, b, x)
    torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-3)
    g = torch.randn_like(plain)
    for mine, theirs in zip(
        torch.autograd.grad(fast, (x, w, b), g),
        torch.autograd.grad(plain, (x, w, b), g),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-2)
    v = torch.randn(w.shape[0], length)
    c = torch.randn(w.shape[0])
    torch.testing.assert_close(
        along_sequence(v, c, x),
        torch.einsum("rs,bsc->brc", v, x) + c[:, None],
        rtol=1e-4,
        atol=1e-3,
    )


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("length", [60, 144, 256, 400])
def test_no_product_falls_to_the_slow_kernel_of_dilated_convolutions(
    batch: int, length: int
) -> None:
    weight, x = torch.zeros(LARGE // (length * 64) + 1, length), torch.zeros(batch, length, 64)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            along_sequence(weight, torch.zeros(len(weight)), x)
            channels = x.transpose(1, 2).contiguous()
            along_channels(weight, torch.zeros(len(weight)), channels)
    finally:
        torch.set_num_threads(threads)
    names = {event.key for event in profile.key_averages()}
    assert names & {"aten::mkldnn_convolution", "aten::baddbmm"}
    assert not any("slow_conv" in name for name in names)


def test_the_convolution_is_taken_only_where_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    real = F.conv2d
    monkeypatch.setattr(F, "conv2d", lambda *a, **k: taken.append(1) or real(*a, **k))
    large, small = torch.randn(8, 200, 256), torch.randn(2, 10, 256)
    layer = Linear(256, 256)
    layer(large)
    assert taken == [1]
    layer(small)
    with torch.autocast("cpu", torch.bfloat16):
        layer(large)
    layer.double()(large.double())
    assert taken == [1]


@given(st.sampled_from([2, 3, 5]), st.integers(3, 7), seeds)
def test_a_locally_connected_layer_with_equal_weights_is_a_convolution(
    field: int, side: int, seed: int
) -> None:
    torch.manual_seed(seed)
    it = LocallyConnected(2, side, 3, field)
    shared = torch.randn(3, 2, field, field)
    it.weight.data[:] = shared.flatten(1).T
    x = torch.randn(2, 2, side, side)
    wanted = F.conv2d(F.pad(x, it.padding), shared).flatten(2)
    torch.testing.assert_close(it(x), wanted, rtol=1e-4, atol=1e-4)


def test_the_step_is_a_step_and_its_gradient_goes_straight_through() -> None:
    x = torch.tensor([-2.0, -0.5, 0.0, 0.5, 2.0], requires_grad=True)
    y = activation("step")(x)
    assert y.tolist() == [0, 0, 1, 1, 1]
    y.sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 1, 0]


@pytest.mark.parametrize(
    ("name", "f"),
    {
        "identity": lambda x: x,
        "logistic": lambda x: 1 / (1 + (-x).exp()),
        "tanh": lambda x: 2 / (1 + (-2 * x).exp()) - 1,
        "arctan": torch.arctan,
        "relu": lambda x: x.clamp(min=0),
        "prelu": lambda x: torch.where(x < 0, 0.25 * x, x),
        "elu": lambda x: torch.where(x < 0, x.exp() - 1, x),
        "softplus": lambda x: (1 + x.exp()).log(),
        "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
        "gelu-tanh": lambda x: (
            0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        ),
    }.items(),
)
def test_activations_are_the_documents_equations(name: str, f: Any) -> None:
    x = torch.linspace(-4, 4, 101)
    torch.testing.assert_close(activation(name)(x), f(x), rtol=1e-4, atol=1e-5)


def test_stochastic_depth_leaves_out_examples_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    it, x = DropPath(0.25), torch.ones(4000, 2)
    y = it(x)
    assert y.unique().tolist() == [0.0, pytest.approx(4 / 3)]
    assert torch.equal(y[:, 0], y[:, 1])
    assert y.mean().item() == pytest.approx(1, abs=0.05)
    assert torch.equal(it.eval()(x), x)
    rates = [getattr(each, "rate", 0) for each in drop_paths(0.2, 3)]
    assert rates == pytest.approx([0, 0.1, 0.2])


def test_resizing_positions_to_their_own_size_changes_nothing() -> None:
    weight = torch.randn(1 + 49, 8)
    torch.testing.assert_close(resized(weight, 50, extra=1), weight)
    with pytest.raises(ModelError, match="no squares"):
        resized(weight, 40, extra=1)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_a_vit_takes_images_of_its_own_size_and_weights_of_another(positions: str) -> None:
    model = create("vit-ti16", image_size=96, classes=3, positions=positions).eval()
    with pytest.raises(ModelError, match="images of 3×96×96, not 3×64×64"):
        model(torch.randn(1, 3, 64, 64))
    assert model(torch.randn(1, 3, 96, 96)).shape == (1, 3)
    large = create("vit-ti16", image_size=128, classes=3, positions=positions)
    assert load_weights(large, model.state_dict(), source="it").fresh == 0


@pytest.mark.parametrize("name", ["mixer", "gmlp"])
def test_mixer_and_gmlp_refuse_another_size_and_say_why(name: str) -> None:
    model = create(name, image_size=64, depth=1)
    with pytest.raises(ModelError, match="depend on S"):
        load_weights(create(name, image_size=96, depth=1), model.state_dict(), source="it")


def test_a_spatial_map_has_no_transposes_to_pay_for() -> None:
    it = SpatialLinear(6, 4)
    assert it(torch.randn(2, 6, 5)).is_contiguous()


def test_what_has_no_head_says_so() -> None:
    with pytest.raises(ModelError, match="no head with weights"):
        head_modules(torch.nn.Sequential())


@pytest.mark.parametrize("name", ["convnet", "rcnn-96", "resnet-20"])
def test_models_for_any_size_still_want_their_channels(name: str) -> None:
    model = create(name, channels=1, classes=3)
    assert model(torch.randn(2, 1, 20, 20)).shape == (2, 3)
    with pytest.raises(ModelError, match=r"images B×1×H×W, not 2×3×20×20"):
        model(torch.randn(2, 3, 20, 20))


@pytest.mark.parametrize("matrix", ["dense", "toeplitz"])
@pytest.mark.parametrize("gate", ["linear", "additive", "multiplicative", "split"])
def test_every_gate_starts_open(gate: Gate, matrix: Matrix) -> None:
    """s(Z) ≈ Z, of the linear gate norm(Z), so that none has a head start over another."""
    made, _ = spatial_gate(gate, 16, 32, 12, matrix, 0)
    z = torch.randn(4, 12, 32)
    let_through = {"linear": F.layer_norm(z, (32,)), "split": z[..., :16]}.get(gate, z)
    assert torch.allclose(made(z, z, None), let_through, atol=1e-4)


def test_local_response_normalisation_is_centred() -> None:
    """Over N/2 maps on either side; for odd N it is torch's."""
    x = torch.rand(2, 24, 3, 3)
    theirs = torch.nn.LocalResponseNorm(3, alpha=1e-3, beta=0.75)(x)
    assert torch.allclose(LocalResponseNorm(3, alpha=1e-3, beta=0.75)(x), theirs, atol=1e-6)
    found = LocalResponseNorm(4, alpha=1.0, beta=0.75)(x)
    assert torch.allclose(LocalResponseNorm(4, alpha=1.0, beta=0.75)(x.flip(1)).flip(1), found)
    expected = x[:, 5] / (1 + x[:, 3:8].square().sum(1) / 4) ** 0.75
    assert torch.allclose(found[:, 5], expected, atol=1e-6)


def test_gmlp_takes_either_form_of_gelu() -> None:
    arguments = {"image_size": 8, "patch": 4, "width": 8, "depth": 1, "hidden": 16, "channels": 1}
    exact = create("gmlp", **arguments)
    other = create("gmlp", **arguments, activation="gelu-tanh")
    other.load_state_dict(exact.state_dict())
    images = 3 * torch.randn(4, 1, 8, 8)
    assert 0 < (exact(images) - other(images)).abs().max() < 1e-2


def test_halonet_says_which_sizes_it_takes() -> None:
    with torch.device("meta"):
        model = create("halonet-h4", image_size=384, base=128, convolutions=2)
        assert model(torch.empty(2, 3, 384, 384)).shape == (2, 1000)
        with pytest.raises(ModelError, match="multiples of 384 pixels, not 224"):
            create("halonet-h4", image_size=224)
    assert sum(p.numel() for p in model.parameters()) == 75_090_792
