"""`bench rehearse` by the installed command: it finds planted failures, and leaves nothing."""

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from tests.bench.rehearse.planted import SOURCE
from tests.commands import bench, start, wait_for

#: Neither data nor weights are at hand, nor a network.
NOTHING = {"BENCH_DATA": None, "BENCH_MODELS": None, "HF_HUB_OFFLINE": "1"}
PLANTED = ("shape", "head", "silent", "forgets", "unpicklable", "infinite", "killed")
#: What the one line of each says.
CAUSES = {
    "shape": "mat1 and mat2 shapes cannot be multiplied (40x10 and 11x10)",
    "head": "training and test: IndexError: Target",
    "silent": "training and test: AssertionError (planted.py:",
    "forgets": "resume: NotResumed: after resuming from the checkpoint",
    "unpicklable": "lambda",
    "infinite": "Diverged: the training loss is",
    "killed": "its process was killed by SIGKILL",
    "positions": "index 48 is out of bounds",
    "patch": "model: patches of 3 don't divide images of 8",
    "column": "has no column 'text'",
}


def page(entries: Mapping[str, Any], data: list[Any], **further: Any) -> str:
    study = {
        "title": "Planted",
        "question": "Is it found?",
        "data": data,
        "entries": entries,
        "recipe": {"epochs": 2, "lr": 1e-3},
        "seeds": 2,
        "scales": {"smoke": None},
    }
    return yaml.safe_dump({**study, **further}, sort_keys=False)


def rehearse(folder: Path, *words: str, env: Mapping[str, str | None] | None = None) -> Any:
    temporary = folder / "t"  # short, as names of sockets are to be
    temporary.mkdir(exist_ok=True)
    return bench(
        "rehearse", *words, cwd=folder, env={**NOTHING, "TMPDIR": str(temporary), **(env or {})}
    )


def everything_in(folder: Path) -> set[str]:
    """But for what Python and torch keep by themselves, where models of one's own are counted."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts
        if not any(part.startswith("torchinductor_") for part in path.parts)
    }


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], int]:
    """One page with all planted failures, rehearsed."""
    folder = tmp_path_factory.mktemp("planted")
    (folder / "planted.py").write_text(SOURCE, encoding="utf-8")
    words = " ".join(f"word{number}" for number in range(40))
    (folder / "own.txt").write_text("\n\n".join([f"{words} {words}"] * 60), encoding="utf-8")
    pq.write_table(pa.table({"body": ["some text"] * 50}), folder / "wrong.parquet")
    entries: dict[str, Any] = {
        name: {"model": f"planted.py:{name}", "data": ["digits"]} for name in PLANTED
    }
    entries["fine"] = {"model": "planted:fine", "data": ["digits"]}  # by its module
    entries["patch"] = {
        "model": "vit",
        "args": {"patch": 3, "width": 16, "heads": 2},
        "data": ["digits"],
    }
    entries["positions"] = {"model": "planted.py:positions", "data": ["text:own.txt"]}
    entries["words"] = {"model": "gmlp-text", "args": {"width": 16, "depth": 1, "hidden": 32}}
    entries["words"]["data"] = ["text:own.txt"]
    entries["column"] = {**entries["words"], "data": ["text:wrong.parquet"]}
    text = page(entries, ["digits", "text:own.txt", "text:wrong.parquet"])
    (folder / "page.yaml").write_text(text, encoding="utf-8")
    done = rehearse(folder, "page.yaml", "--format", "json")
    assert done.stdout, done.stderr
    return folder, {row["entry"]: row for row in json.loads(done.stdout)}, done.returncode


@pytest.mark.slow
@pytest.mark.parametrize("name", CAUSES)
def test_a_planted_failure_is_named_in_one_line(name: str, found: Any) -> None:
    _, rows, code = found
    assert code == 3
    assert rows[name]["status"] == "fails", rows[name]
    assert CAUSES[name] in rows[name]["cause"]
    assert "\n" not in rows[name]["cause"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fine", "words"])
def test_what_is_sound_is_ok_on_the_cpu_with_its_peak_measured(name: str, found: Any) -> None:
    _, rows, _ = found
    assert (rows[name]["status"], rows[name]["on"], rows[name]["cause"]) == ("ok", "cpu", "")
    assert rows[name]["real"] == "data"
    assert rows[name]["measured"]
    assert rows[name]["peak_bytes"] > 10**8


@pytest.mark.slow
def test_a_rehearsal_leaves_nothing(found: Any) -> None:
    folder, _, _ = found
    assert everything_in(folder) == {
        "planted.py",
        "own.txt",
        "wrong.parquet",
        "page.yaml",
        "t",
    }


@pytest.mark.slow
def test_the_table_fits_a_narrow_terminal_and_a_pipe(tmp_path: Path) -> None:
    text = page(
        {"MLP": {"model": "mlp"}, "Broken": {"model": "vit", "args": {"patch": 3}}}, ["digits"]
    )
    (tmp_path / "page.yaml").write_text(text, encoding="utf-8")
    done = rehearse(tmp_path, "page.yaml", env={"COLUMNS": "80"})
    assert done.returncode == 3
    lines = done.stdout.splitlines()
    table = [line for line in lines if not line.startswith("would fail:")]
    assert max(map(len, table)) <= 80, done.stdout
    assert any(line.startswith("MLP on digits") and "ok (cpu)" in line for line in table)
    assert any(line.startswith("2 runs: 1 ok, 1 fails (2 distinct: 1 on") for line in table)
    assert "\x1b" not in done.stdout


@pytest.mark.slow
def test_what_starts_from_a_stage_loads_its_weights_and_falls_with_it(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(SOURCE, encoding="utf-8")
    entries = {
        "sound": {"model": "mlp", "start": "first"},
        "broken": {"model": "planted.py:head", "start": "first"},
    }
    text = page(entries, ["digits"], stages={"first": {"data": "digits"}})
    (tmp_path / "page.yaml").write_text(text, encoding="utf-8")
    done = rehearse(tmp_path, "page.yaml", "--format", "json")
    rows = {row["entry"]: row for row in json.loads(done.stdout)}
    assert [(name, row["status"]) for name, row in rows.items()] == [
        ("first (sound)", "ok"),
        ("first (broken)", "fails"),
        ("sound", "ok"),
        ("broken", "not rehearsed"),
    ]
    assert rows["broken"]["cause"] == "it starts from a stage that fails"
    assert done.returncode == 3


@pytest.mark.slow
def test_images_of_ones_own_and_data_that_is_not_at_hand(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(30):
            image = Image.new("RGB", (40 + number, 30), (number, 0, 0))
            image.save(tmp_path / "pictures" / name / f"{number}.png")
    streamed = {"name": "imagenet1k", "image_size": 64}
    data = ["folder:pictures", {"name": "cifar10", "image_size": 16}, "vtab-caltech101", streamed]
    entries = {"LeNet": {"model": "mlp", "args": {"width": 8}}}
    (tmp_path / "page.yaml").write_text(page(entries, data), encoding="utf-8")
    home = tmp_path / "home"
    own = {"HOME": str(home), "HF_HOME": None, "XDG_CACHE_HOME": None, "HF_DATASETS_CACHE": None}
    done = rehearse(tmp_path, "page.yaml", "--format", "json", env=own)
    assert not list(home.rglob("*.arrow"))  # nor does `datasets` keep anything
    rows = {row["dataset"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 0, done.stdout + done.stderr
    assert rows["folder:pictures"]["real"] == "data"
    assert rows["cifar10"]["real"] == rows["vtab-caltech101"]["real"] == ""


@pytest.mark.slow
def test_weights_that_are_not_at_hand_are_made_at_random_with_their_configuration(
    tmp_path: Path,
) -> None:
    images = [{"name": "cifar10", "image_size": 64}]
    entries = {
        "timm": {"model": "timm/resnet10t", "weights": "timm/resnet10t.c3_in1k"},
        "unknown": {"model": "timm/resnet10t", "weights": "somebody/resnet10t"},
    }
    (tmp_path / "page.yaml").write_text(page(entries, images), encoding="utf-8")
    done = rehearse(tmp_path, "page.yaml", "--format", "json", "--on", "cpu")
    rows = {row["entry"]: row for row in json.loads(done.stdout)}
    assert (rows["timm"]["status"], rows["timm"]["on"]) == ("ok", "cpu"), rows["timm"]
    assert "weights of timm/resnet10t.c3_in1k made up" in rows["timm"]["notes"]
    assert rows["unknown"]["status"] == "not rehearsed"
    assert rows["unknown"]["cause"] == "the configuration of somebody/resnet10t is not at hand"
    assert done.returncode == 0  # what can't be told is no failure


@pytest.mark.slow
def test_on_the_meta_device_nothing_is_trained(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text(SOURCE, encoding="utf-8")
    entries = {"large": {"model": "vit-l16"}, "broken": {"model": "planted.py:silent"}}
    text = page(entries, ["imagenet1k", "digits"])
    (tmp_path / "page.yaml").write_text(text, encoding="utf-8")
    done = rehearse(tmp_path, "page.yaml", "--format", "json", "--on", "meta")
    rows = {(row["entry"], row["dataset"]): row for row in json.loads(done.stdout)}
    large = rows["large", "imagenet1k"]
    assert (large["status"], large["on"], large["measured"]) == ("ok", "meta", False)
    assert large["peak_bytes"] > 16 * 300e6  # weights, gradients, and two moments
    assert rows["broken", "digits"]["status"] == "fails"
    assert rows["broken", "digits"]["cause"].startswith("training step: AssertionError (planted.py")


@pytest.mark.slow
def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "page.yaml").write_text(page({"ViT": {"model": "vit"}}, ["digits"]), "utf-8")
    temporary = tmp_path / "t"
    temporary.mkdir()
    process = start(
        "rehearse", "page.yaml", cwd=tmp_path, env={**NOTHING, "TMPDIR": str(temporary)}
    )
    wait_for(lambda: list(temporary.glob("bench-rehearse-*/case-*")), "a case")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped: nothing is kept of a rehearsal" in out, err
    assert "Traceback" not in out + err
    assert everything_in(tmp_path) == {"page.yaml", "t"}


def test_a_mistake_is_one_line(tmp_path: Path) -> None:
    for words, line in (
        ((), "name a study, or --all of them"),
        (("quickstart", "--all"), "--all rehearses all studies"),
        (("quikstart",), "unknown study 'quikstart'; did you mean 'quickstart'?"),
    ):
        done = rehearse(tmp_path, *words)
        assert done.returncode == 2
        assert line in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_what_diverges_on_two_examples_alone_is_tried_on_more(tmp_path: Path) -> None:
    """Of so deep a network with batch norm the gradient of two examples is no number."""
    deep = {"model": "mlp", "args": {"depth": 56, "width": 512, "batch_norm": True}}
    recipe = {"epochs": 2, "lr": 1e-3, "batch_size": 64}
    text = page({"Deep": deep}, ["cifar10"], recipe=recipe)
    (tmp_path / "page.yaml").write_text(text, encoding="utf-8")
    done = rehearse(tmp_path, "page.yaml", "--format", "json")
    (row,) = json.loads(done.stdout)
    assert (row["status"], row["notes"]) == ("ok", "batch 16 for 64"), row
