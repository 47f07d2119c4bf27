"""Source digests: awake to code, blind to comments."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lightning_bench
from lightning_bench.bench.plan import source_digests
from lightning_bench.bench.spec import DataSpec, ModelSpec, RunSpec
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


def test_the_places_and_order_of_our_modules_do_not_matter(tmp_path: Path) -> None:
    before = """
from lightning_bench.models.layers.spatial_gating_unit import Gate
from lightning_bench.models.layers import linear
from lightning_bench.models.mixer import Mixer
MODULE = "lightning_bench.models.mixer"
"""
    after = """
from lightning_bench.models.elsewhere.mixer import Mixer
from lightning_bench.models.spatial_gating_unit import Gate
from lightning_bench.models.layers import linear
MODULE = "lightning_bench.models.mixer"
"""
    assert digest_of(tmp_path, before) == digest_of(tmp_path, after)
    assert digest_of(tmp_path, before) != digest_of(tmp_path, before.replace("Gate", "Gated"))
    other = before.replace("layers.spatial_gating_unit", "layers.spatial_linear")
    assert digest_of(tmp_path, before) != digest_of(tmp_path, other)


IMAGES = "lightning_bench.data.modules.image_data"
CLASSIFY = "lightning_bench.models.tasks.classify"
TRAINING = "lightning_bench.bench.run.training"


@pytest.mark.parametrize("name", sorted(model_catalogue.entries()))
def test_every_model_knows_its_files(name: str) -> None:
    entry = model_catalogue.entries()[name]
    files = source_digests.files_behind([TRAINING, entry.module, IMAGES, CLASSIFY])
    assert f"models/{entry.module.rpartition('.')[2]}.py" in files
    of_bench = {path for path in files if path.startswith("bench/")}
    assert {"bench/training.py", "bench/trainer.py", "bench/checkpoint.py"} <= of_bench
    assert {"data/image_data.py", "data/loader.py", "data/dataset.py"} <= files.keys()
    assert "models/classify.py" in files
    assert "models/registry.py" not in files
    assert {path.split("/")[0] for path in files} == {"bench", "data", "models"}


def test_layers_are_followed_and_strangers_are_not() -> None:
    files = source_digests.files_behind(["lightning_bench.models.mixer", IMAGES])
    assert "layers" in {path.parent.name for path in files.values()}
    assert "models/vit.py" not in files


def test_what_is_not_followed_is_there_and_has_a_reason() -> None:
    for module, reason in source_digests.NOT_FOLLOWED.items():
        assert importlib.util.find_spec(module) is not None, f"{module} is gone"
        assert reason


def test_no_two_followed_modules_have_one_name() -> None:
    """Else one would hide the other in a record, and a move could make a run stale."""
    root = Path(lightning_bench.__file__).parent
    for room in ("bench/run", "data", "models"):
        names = [source_digests.stable_name(path) for path in (root / room).rglob("*.py")]
        assert sorted(set(names)) == sorted(names)


def sources_in(copy: Path, spec: RunSpec) -> dict[str, str]:
    """The sources of a run as a copy of the package tells them."""
    code = (
        "import json, sys; from lightning_bench.bench.plan import source_digests;"
        "from lightning_bench.bench.spec import RunSpec;"
        "spec = RunSpec.model_validate_json(sys.argv[1]);"
        "print(json.dumps(dict(source_digests.of_run(spec))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, spec.model_dump_json()],
        capture_output=True, text=True, cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package whose catalogue takes the models as counted, whatever is changed."""
    copied = tmp_path / "lightning_bench"
    shutil.copytree(Path(lightning_bench.__file__).parent, copied)
    catalogue = copied / "models" / "registry" / "catalogue.py"
    text = catalogue.read_text(encoding="utf-8")
    known = f"def digest() -> str:\n    return {model_catalogue.digest()!r}\n"
    catalogue.write_text(
        text.replace("def digest() -> str:", f"{known}\n\ndef _digest() -> str:"), encoding="utf-8"
    )
    return tmp_path


SPEC = RunSpec(model=ModelSpec(name="mixer-s32"), data=DataSpec(name="digits"))


def test_a_new_module_of_training_is_found_by_itself(copy: Path) -> None:
    run = copy / "lightning_bench" / "bench" / "run"
    (run / "planted.py").write_text("SPEED = 1\n", encoding="utf-8")
    trainer = run / "trainer.py"
    text = trainer.read_text(encoding="utf-8")
    trainer.write_text(f"{text}\nfrom .planted import SPEED\n", encoding="utf-8")
    assert "bench/planted.py" not in source_digests.of_run(SPEC)
    assert "bench/planted.py" in sources_in(copy, SPEC)


def test_to_move_a_module_makes_nothing_stale(copy: Path) -> None:
    """It keeps its name and digest, and so does whatever imports it."""
    before = dict(source_digests.of_run(SPEC))
    assert sources_in(copy, SPEC) == before
    package = copy / "lightning_bench"
    for old, new in (
        ("models/layers/linear", "models/tasks/linear"),  # by its name, as other modules do
        ("models/layers/patch_embedding", "models/patch_embedding"),
        ("data/modules/image_data", "data/transforms/image_data"),  # named in a string as well
        ("bench/run/trainer", "bench/run/deep/trainer"),
    ):
        (package / new).parent.mkdir(exist_ok=True)
        (package / f"{old}.py").rename(package / f"{new}.py")
        rename(package, old.replace("/", "."), new.replace("/", "."))
    assert sources_in(copy, SPEC) == before


def rename(package: Path, old: str, new: str) -> None:
    """Change every import of a module."""
    (of, name), (into, _) = old.rsplit(".", 1), new.rsplit(".", 1)
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        changed = text.replace(f"lightning_bench.{old}", f"lightning_bench.{new}").replace(
            f"from lightning_bench.{of} import {name}\n",
            f"from lightning_bench.{into} import {name}\n",
        )
        if changed != text:
            path.write_text(changed, encoding="utf-8")


def test_nothing_of_it_imports_torch() -> None:
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
