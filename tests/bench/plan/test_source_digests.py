"""Source digests: awake to code, blind to comments."""

import importlib
import sys
from pathlib import Path

import pytest

from lightning_bench.bench.plan import source_digests
from lightning_bench.bench.study.load import load
from lightning_bench.data import catalogue as data_catalogue
from lightning_bench.models.registry import catalogue as model_catalogue


def digest_of(tmp_path: Path, text: str) -> str:
    path = tmp_path / f"{abs(hash(text))}.py"
    path.write_text(text, encoding="utf-8")
    return source_digests.digest(path)


CODE = 'def f(x):\n    """Say."""\n    return x + 1\n'


@pytest.mark.parametrize(
    "same",
    [
        '"""New."""\n\n\ndef f(x):\n    """Say more."""\n\n    # why\n    return x + 1\n',
        "def f(x):\n    return (x + 1)\n",
    ],
)
def test_comments_docstrings_and_layout_do_not_matter(tmp_path: Path, same: str) -> None:
    assert digest_of(tmp_path, CODE) == digest_of(tmp_path, same)


@pytest.mark.parametrize("other", ["x + 2", "x - 1", "y + 1", "'x + 1'"])
def test_code_matters(tmp_path: Path, other: str) -> None:
    assert digest_of(tmp_path, CODE) != digest_of(tmp_path, CODE.replace("x + 1", other))


#: Whatever of `bench` can change a result.
TRAINING = {
    f"bench/run/{name}.py"
    for name in (
        "training", "loading", "trainer", "callbacks",
        "control", "checkpoint_state", "checkpoint", "fsdp",
    )
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(model_catalogue.entries()))
def test_every_model_knows_its_files(name: str) -> None:
    entry = model_catalogue.entries()[name]
    found = source_digests.behind(entry.module, "lightning_bench.data.modules.image_data")
    assert entry.module.removeprefix("lightning_bench.").replace(".", "/") + ".py" in found
    assert {path for path in found if path.split("/")[0] not in {"data", "models"}} == TRAINING
    assert {"data/modules/image_data.py", "data/loader.py"} <= found.keys()
    assert "models/tasks/classify.py" in found
    assert "models/registry/registry.py" not in found


def test_layers_are_followed_and_strangers_are_not() -> None:
    found = source_digests.behind(
        "lightning_bench.models.mixer", "lightning_bench.data.modules.image_data"
    )
    assert any(path.startswith("models/layers/") for path in found)
    assert "models/vit.py" not in found


def test_every_file_behind_a_run_is_found_as_the_import_system_finds_it() -> None:
    for run in load("quickstart").runs()[:5]:
        for path in source_digests.of_run(run.spec):
            if ":" in path:  # an entry of the catalogue
                continue
            module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            assert importlib.util.find_spec(f"lightning_bench.{module}") is not None


def test_nothing_of_it_imports_torch() -> None:
    import subprocess

    code = (
        "import sys; from lightning_bench.bench.plan import source_digests as sources;"
        "from lightning_bench.bench.study.load import load;"
        "[sources.of_run(r.spec) for r in load('quickstart').runs()];"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_changes_are_named() -> None:
    assert source_digests.changed({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == [
        "b",
        "c",
    ]
    assert data_catalogue.entries()["digits"].module == "lightning_bench.data.modules.image_data"
