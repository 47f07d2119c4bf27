"""Networks of the user's own as they stand: their arguments, their outputs, their lazy layers."""

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import counting, registry, user_code
from lightning_bench.models.registry.arguments import check, missing
from lightning_bench.models.registry.user_model import Adapted

IMAGES = {"channels": 1, "image_size": 8, "classes": 4}
TEXTS = {"vocab_size": 50, "length": 6, "classes": 4}
NETS = """
    from collections import namedtuple
    import torch
    from torch import nn

    class Plain(nn.Module):  # no types, one default
        def __init__(self, num_classes=10, in_chans=3):
            super().__init__()
            self.conv = nn.Conv2d(in_chans, 5, 3)
            self.head = nn.Linear(5, num_classes)
        def forward(self, x):
            return self.head(self.conv(x).mean((2, 3)))

    def Fixed():
        return Plain(4, 1)

    def Hundred(): return Plain(100, 1)

    def named(width, hidden=(3, 2), activation=nn.ReLU, **others):
        assert isinstance(hidden, tuple), hidden
        return nn.Sequential(nn.Flatten(), nn.Linear(64, width), activation(),
                             nn.Linear(width, others.get("outputs", 7)))

    class Lazy(nn.Module):
        def __init__(self, n_classes: int):
            super().__init__()
            self.body = nn.Sequential(nn.Flatten(), nn.LazyLinear(16), nn.LazyLinear(n_classes))
        def forward(self, x):
            return self.body(x)

    class Outputs(Plain):
        def __init__(self, kind: str, num_classes: int = 2, in_channels: int = 3):
            super().__init__(num_classes, in_channels)
            self.kind = kind
        def forward(self, x):
            y = super().forward(x)
            made = namedtuple("Made", "logits aux")(y, y + 1)
            return {"tuple": (y, y + 1), "dict": {"features": x, "logits": y}, "object": made,
                    "auxiliary": made if self.training else y, "none": {"a": x, "b": y}}[self.kind]

    class Numbers(Plain):  # needs numbers, which the meta device hasn't
        def forward(self, x):
            return super().forward(x) * (1 if float(x.sum()) > 1e9 else 2)

    class Rates(Plain):  # needs numbers before it is there
        def __init__(self):
            super().__init__()
            self.rates = [float(rate) for rate in torch.linspace(0, 0.1, 3)]

    class Text(nn.Module):
        def __init__(self, vocab_size, num_labels=2):
            super().__init__()
            self.embed, self.head = nn.Embedding(vocab_size, 8), nn.Linear(8, num_labels)
        def forward(self, ids, attention_mask, return_features=False):
            assert return_features is False
            return self.head((self.embed(ids) * attention_mask[..., None]).mean(1))

    def three(): return 3
    def broken(n_classes): raise KeyError("no such preset")
    instance = nn.Linear(2, 2)
    CONSTANT = 3
"""


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    (tmp_path / "nets.py").write_text(textwrap.dedent(NETS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BENCH_PAGE_FOLDER", "")
    return lambda attribute: f"nets.py:{attribute}"


def logits(name: str, facts: dict[str, int], **arguments: object) -> torch.Tensor:
    model = registry.create(name, **facts, **arguments)
    if "vocab_size" in facts:
        tokens = torch.ones(3, 6, dtype=torch.long)
        return model(tokens, torch.ones(3, 6, dtype=torch.bool), torch.zeros_like(tokens))
    return model(torch.randn(3, 1, 8, 8))


@pytest.mark.parametrize(
    ("name", "given"),
    [("Plain", {}), ("Fixed", {}), ("Lazy", {}), ("Numbers", {})]
    + [("Outputs", {"kind": kind}) for kind in ("tuple", "dict", "object", "auxiliary")]
    + [("named", {"width": 5, "outputs": "{classes}", "hidden": [1, 2]})],
)
def test_a_network_is_made_as_it_stands(nets, name: str, given: dict[str, object]) -> None:
    assert logits(nets(name), IMAGES, **given).shape == (3, 4)


def test_a_text_network_gets_the_mask_that_it_takes_and_no_flag(nets) -> None:
    assert logits(nets("Text"), TEXTS).shape == (3, 4)
    assert counting.count_one(nets("Text"), TEXTS)["parameters"] == 50 * 8 + 8 * 4 + 4


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("Hundred", {}, "gives 100 outputs an example, and the data has 4 classes$"),
        ("named", {"width": 5}, '7 outputs .* 4 classes; try `args: {num_classes: "{classes}"}`'),
        ("named", {}, "needs width, as in `args: {width: …}`"),
        ("named", {"width": "{clases}"}, r"there is no \{clases\}: of its data, \{channels\}, "),
        ("Outputs", {"kind": "none"}, "gives a dict in which no logits are found"),
        ("Plain", {"in_chans": 3}, "fails on images of 1×8×8: RuntimeError: .*expected input"),
        ("three", {}, "gives a int, not an nn.Module"),
        ("broken", {}, r"can't be made: KeyError: 'no such preset' \(nets.py:\d+\)"),
        ("instance", {}, "is a network already: name its class"),
        ("CONSTANT", {}, "a int makes no network"),
    ],
)
def test_what_does_not_fit_is_one_line(nets, name: str, given: dict[str, object], says) -> None:
    with pytest.raises(ModelError, match=says) as raised:
        registry.create(nets(name), **{**IMAGES, **given})
    assert "\n" not in str(raised.value)
    if "registered" not in says and name not in {"instance", "CONSTANT"}:
        counted = counting.count_one(nets(name), {**IMAGES, **given})
        assert counted == {"error": str(raised.value), "unfit": True}


def test_to_try_a_network_draws_no_random_number(nets) -> None:
    registry.look_up(nets("Plain"))  # its import may draw, too
    torch.manual_seed(3)
    tried = registry.create(nets("Plain"), **IMAGES).state_dict()
    drawn = torch.rand(3)
    torch.manual_seed(3)
    plain = user_code.import_module(nets("Plain")).Plain(4, 1).state_dict()
    assert torch.equal(drawn, torch.rand(3))
    assert all(torch.equal(tried[name], plain[name]) for name in plain)


def test_arguments_are_described_without_types_and_defaults(nets) -> None:
    facts = counting.describe(nets("named"))
    assert facts["arguments"]["width"] == {
        "name": "width", "kind": "any", "default": None, "choices": None, "optional": True,
        "required": True,
    } | {"optional": facts["arguments"]["width"]["optional"]}  # fmt: skip
    assert facts["arguments"]["hidden"]["default"] == [3, 2]
    assert facts["arguments"]["activation"]["default"] == "<ReLU>"
    assert (facts["form"], facts["kind"], facts["parameters"]) == ("network", "any", None)
    plain = counting.describe(nets("Plain"))
    assert plain["arguments"]["in_chans"]["fact"] == "channels"
    assert (plain["kind"], plain["parameters"]) == ("image", 3 * 5 * 9 + 5 + 5 * 10 + 10)
    assert plain["flops"]
    rates = counting.describe(nets("Rates"))
    assert (rates["parameters"], rates["flops"]) == (plain["parameters"], plain["flops"])


def test_what_the_data_would_fill_is_kept_in_the_key_where_the_page_gives_it(nets) -> None:
    """Else `num_classes: 10` at its default would be left out, and filled with the data's 4."""
    known = registry.look_up(nets("Plain")).arguments
    assert check("net", known, {"num_classes": 10}) == {"num_classes": 10}
    known = registry.look_up(nets("named")).arguments
    assert missing(known, {}) == ["width"]
    assert check("net", known, {"hidden": [3, 2], "outputs": 4}) == {"outputs": 4}


def test_an_adapter_keeps_the_networks_weights(nets) -> None:
    model = registry.create(nets("Outputs"), **IMAGES, kind="dict")
    assert isinstance(model, Adapted)
    assert isinstance(registry.create(nets("Plain"), **IMAGES), nn.Module)
    assert not isinstance(registry.create(nets("Plain"), **IMAGES), Adapted)
