"""A YAML of LightningCLI in a page is what it says there."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from lightning_bench.bench.study.cli_config import expanded
from lightning_bench.bench.study.page_errors import PageError

CONFIG: dict[str, Any] = {
    "seed_everything": 7,
    "trainer": {
        "max_epochs": 3, "max_steps": -1, "gradient_clip_val": 1, "precision": "bf16-mixed",
        "accelerator": "auto", "callbacks": None, "logger": True,
    },
    "model": {
        "class_path": "models.lit.Lit",
        "init_args": {"net": {"class_path": "models.net.Net", "init_args": {"width": 8}}},
    },
    "data": {"class_path": "data.dm.DM", "init_args": {"noise": 0.1}},
}  # fmt: skip


def page(tmp_path: Path, config: Any, entry: Any = None, data: Any = None) -> dict[str, Any]:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    told = {
        "entries": {"A": {"cli": "config.yaml", **(entry or {})}, "B": {"model": "mlp"}},
        "data": [{"name": "Mine", "cli": "config.yaml", **(data or {})}, "digits"],
    }
    return expanded(told, tmp_path)


def test_its_model_data_and_trainer_are_the_entrys(tmp_path: Path) -> None:
    for config in (CONFIG, {"fit": CONFIG}):
        found = page(tmp_path, config, {"metrics": {"val_acc": "accuracy"}})
        assert found["entries"] == {
            "A": {
                "model": "models.lit:Lit",
                "metrics": {"val_acc": "accuracy"},
                "args": CONFIG["model"]["init_args"],
                "recipe": {"epochs": 3, "clip_norm": 1.0, "precision": "bf16"},
            },
            "B": {"model": "mlp"},
        }
        mine = {"name": "Mine", "source": "data.dm:DM", "args": {"noise": 0.1}}
        assert found["data"] == [mine, "digits"]


def test_what_stands_in_the_page_outweighs_it(tmp_path: Path) -> None:
    config = {**CONFIG, "model": {"lr": 0.1, "width": 8}}  # of a CLI made for one class
    entry = {"model": "models.lit:Lit", "args": {"lr": 0.5}, "recipe": {"epochs": 9}}
    found = page(tmp_path, config, entry)["entries"]["A"]
    assert found["args"] == {"lr": 0.5, "width": 8}
    assert found["recipe"]["epochs"] == 9
    steps = {**CONFIG, "trainer": {"max_epochs": 3, "max_steps": 50}}
    assert page(tmp_path, steps)["entries"]["A"]["recipe"] == {"steps": 50}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({**CONFIG, "model": {"lr": 0.1}}, "no class_path: say model: module:Class beside it"),
        ({"data": CONFIG["data"]}, "it has no model section"),
        ({**CONFIG, "optimizer": {"class_path": "torch.optim.SGD"}}, "optimizer is none of"),
        ({**CONFIG, "ckpt_path": "last.ckpt"}, "ckpt_path would start from weights"),
        ({**CONFIG, "trainer": {"limit_train_batches": 3}}, r"trainer\.limit_train_batches would"),
        ({**CONFIG, "trainer": {"precision": "64"}}, r"trainer\.precision 64 is none"),
        ([1], "is no mapping"),
    ],
)
def test_what_would_be_something_else_here_is_refused(
    tmp_path: Path, config: Any, says: str
) -> None:
    with pytest.raises(PageError, match=says) as caught:
        page(tmp_path, config)
    assert caught.value.at == ("entries", "A", "cli")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="there is no file"):
        expanded({"entries": {"A": {"cli": "no.yaml"}}}, tmp_path)
