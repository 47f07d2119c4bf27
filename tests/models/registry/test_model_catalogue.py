"""The catalogue: current, without torch, and clear about what it doesn't know."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import lightning_bench
from lightning_bench.models.errors import ModelError, UnknownModel
from lightning_bench.models.registry import catalogue
from lightning_bench.models.registry.catalogue import (
    Argument,
    check_arguments,
    entries,
    find,
    markdown_table,
)
from lightning_bench.models.registry.registry import variants


def run(code: str, path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        cwd=path,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(lightning_bench.__file__).parents[1]),
            **environment,
        },
        check=False,
    )


def test_the_committed_facts_are_current() -> None:
    assert json.loads(catalogue.COMMITTED.read_text())["digest"] == catalogue.digest(), (
        "run `python -m lightning_bench.models.registry.catalogue`"
    )


def test_the_catalogue_holds_every_registered_variant() -> None:
    assert list(entries()) == list(variants()) == sorted(variants())
    for name, entry in entries().items():
        found = variants()[name]
        assert (entry.name, entry.kind, entry.family) == (name, found.kind, found.family)
        assert entry.depth == found.depth
        assert dict(entry.arguments) == dict(found.arguments)
        assert entry.title
        assert entry.summary
        assert entry.parameters > 0
        assert entry.flops > 0
        assert entry.module.startswith("lightning_bench.models.")


def test_look_up_imports_no_torch(tmp_path: Path) -> None:
    done = run(
        """
        import sys
        from lightning_bench.models.registry import catalogue
        catalogue.entries(), catalogue.markdown_table()
        catalogue.check_arguments(catalogue.find("vit"), {"depth": 2})
        catalogue.find("timm/resnet50.a1_in1k"), catalogue.find("hf/bert")
        print(sorted({"torch", "timm", "transformers", "numpy"} & set(sys.modules)))
        """,
        tmp_path,
    )
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("mixr-b16", "mixer-b16"),
        ("bert-13", "bert-12"),
        ("gmlp_text_36", "gmlp-text-36"),
        ("timm/resnet5", "resnet50"),
        ("hf/robrta", "roberta"),
    ],
)
def test_an_unknown_name_is_told_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownModel, match=rf"did you mean '{nearest}'\?") as error:
        find(name)
    assert "\n" not in str(error.value)


def test_library_names() -> None:
    assert find("timm/resnet50").family == "timm/resnet50"
    assert find("timm/resnet50").depth is None
    assert find("timm/resnet50.a1_in1k").kind == "image"
    assert find("hf/bert").kind == "text"
    assert find("hf/some-owner/some-model").arguments["weights"].optional


@pytest.mark.parametrize(
    ("given", "coerced"),
    [
        ({}, {}),
        ({"depth": 12}, {}),  # the default is left out
        ({"depth": 3}, {"depth": 3}),
        ({"depth": 3.0}, {"depth": 3}),
        ({"drop_path": 1}, {"drop_path": 1.0}),
        ({"drop_path": "1e-1"}, {"drop_path": 0.1}),  # as YAML 1.1 reads 1e-1
        ({"pool": "mean"}, {"pool": "mean"}),
    ],
)
def test_arguments_are_coerced_and_defaults_left_out(given: dict[str, Any], coerced: Any) -> None:
    got = check_arguments(find("vit"), given)
    assert got == coerced
    assert [type(each) for each in got.values()] == [type(each) for each in coerced.values()]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dpeth": 3}, r"vit: there is no argument 'dpeth'; did you mean 'depth'\?"),
        ({"depth": 2.5}, r"vit: depth takes an integer, not 2\.5"),
        ({"depth": True}, "vit: depth takes an integer, not True"),
        ({"depth": None}, "vit: depth takes an integer, not None"),
        ({"drop_path": "much"}, "vit: drop_path takes a number, not 'much'"),
        ({"pool": "maen"}, r"vit: pool is one of token, mean, not 'maen'; did you mean 'mean'\?"),
    ],
)
def test_wrong_arguments_are_clear_errors(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        check_arguments(find("vit"), given)


def test_optional_and_bool_arguments() -> None:
    gmlp = find("gmlp-text-18")
    assert gmlp.arguments["encoder"] == Argument("encoder", "str", None, None, optional=True)
    assert check_arguments(gmlp, {"encoder": None}) == {}
    assert check_arguments(find("mlp"), {"bias": False}) == {"bias": False}
    with pytest.raises(ModelError, match="bias takes true or false, not 0"):
        check_arguments(find("mlp"), {"bias": 0})


def test_the_table_has_a_row_a_variant() -> None:
    table = markdown_table().splitlines()
    assert len(table) == 2 + len(entries())
    row = next(line for line in table if line.startswith("| `mixer-b16` "))
    assert row == "| `mixer-b16` | Mixer-B/16 | 59,880,472 | 25.204 | 3×224×224 |"


THIRD_PARTY = '''
"""A third party's model."""
from torch import Tensor, nn


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = nn.Conv2d(1, width, 3)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).mean((2, 3)))


def small(*, channels: int = 1, image_size: int = 8, classes: int = 10, width: int = 4) -> Model:
    """A small one."""
    return Model(width)
'''


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "acme_models.py").write_text(THIRD_PARTY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BENCH_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_model_in_the_working_directory_is_described(third_party: Path) -> None:
    entry = find("acme_models:small")
    assert entry.parameters == 4 * 9 + 4 + 4 * 10 + 10
    assert entry.summary == "A small one."
    assert check_arguments(entry, {"width": 5}) == {"width": 5}
    (kept,) = (third_party / "cache" / "lightning-bench").glob("model-*.json")
    assert json.loads(kept.read_text())["name"] == "acme_models:small"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("acme_models:smal", r"has no 'smal'; did you mean 'small'\?"),
        ("acme_modles:small", "No module named 'acme_modles'"),
    ],
)
def test_a_model_that_isnt_there_is_a_clear_error(
    third_party: Path, name: str, message: str
) -> None:
    with pytest.raises(UnknownModel, match=message):
        find(name)


@pytest.mark.slow
def test_models_of_an_installed_package_are_counted_once(
    third_party: Path,
) -> None:
    (third_party / "acme_models.py").write_text(
        THIRD_PARTY.replace("def small", '@variant("ACME")\ndef acme_small').replace(
            "from torch", "from lightning_bench.models.registry.registry import variant\nfrom torch"
        )
    )
    info = third_party / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lightning_bench.models]\nacme = acme_models\n")
    code = """
        import sys
        sys.path.insert(0, ".")
        from lightning_bench.models.registry.catalogue import find
        print(find("acme-small").parameters, "torch" in sys.modules)
        """
    first = run(code, third_party)
    assert first.stdout.split() == ["90", "False"], first.stderr
    kept = list((third_party / "cache" / "lightning-bench").glob("*.json"))
    # The facts of our own models are those that were committed.
    assert len(kept) == 1
    assert kept[0].name.startswith("entry-point-")
    kept[0].write_text(kept[0].read_text().replace('"parameters": 90', '"parameters": 91'))
    assert run(code, third_party).stdout.split()[0] == "91"  # read, not counted again
    # A cache that can't be written costs time, no more.
    nowhere = third_party / "file"
    nowhere.write_text("")
    blocked = run(code, third_party, XDG_CACHE_HOME=str(nowhere))
    assert blocked.stdout.split()[0] == "90"
    assert "could not be kept" in blocked.stderr
    # One that is broken is named, to those who ask for a model that might be of it.
    (third_party / "acme_models.py").write_text("raise OSError('no licence')\n")
    assert run(code.replace("acme-small", "mlp"), third_party).returncode == 0
    told = "acme_models, an installed entry point: the models could not be counted: OSError: no"
    assert told in run(code, third_party).stderr


def test_models_with_arguments_are_counted_without_torch_here(tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("BENCH_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    known = catalogue.entries()["mixer-s32"]
    wanted = [("mixer-s32", {}), ("mlp", {"depth": 0, "classes": 2}), ("vit", {"heads": 5})]
    same, small, wrong = catalogue.counts(wanted)
    counted = {"parameters": known.parameters, "flops": known.flops}
    assert same.items() >= {**counted, "layers": 8, "tokens": 49}.items()
    assert same.keys() - counted == {
        "layers", "tokens", "activations", "convolved", "operations", "outputs"
    }  # fmt: skip
    assert wrong == {"error": "5 heads don't divide a width of 384"}
    assert small["parameters"] < known.parameters
    assert list(tmp_path.rglob("counts-*.json"))
