"""`bench measure`: one-line mistakes, tables that fit, figures of what was varied."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lightning_bench.bench.cli.app import run
from tests.commands import bench


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mixer-s61"], "did you mean 'mixer-s16'"),
        ([], "name at least one model"),
        (["mlp", "--batch-size", "many"], "--batch-size many: a number of examples, or max"),
        (["mlp", "--batch-size", "0"], "--batch-size 0"),
        (["mlp", "--mode", "trian"], "did you mean 'train'"),
        (["mlp", "--precision", "fp16", "--device", "cpu"], "bf16"),
        (["mlp", "--set", "depht=3"], "did you mean 'depth'"),
        (["mlp", "--set", "depth"], "expected KEY=VALUE"),
        (["mlp", "--vary", "depth=two"], "depth takes an integer"),
        (["mlp", "--rounds", "3"], "--rounds"),
        (["mlp", "--devices", "999"], "--devices 999"),
        (["mlp", "--compile", "--device", "cpu"], "there is no C++ compiler no-such-compiler"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    words, said, capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert run(["measure", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_it_starts_without_torch() -> None:
    code = (
        "import sys; from lightning_bench.bench.cli import measure_display;"
        "from lightning_bench.bench.measure import session; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_counts_are_printed_exactly(capsys) -> None:
    assert run(["measure", "lenet", "mixer-s16", "--mode", "count", "--format", "json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)
    place = [column["id"] for column in table["columns"]].index("parameters")
    values = {row["label"]: row["cells"][place]["value"] for row in table["rows"]}
    assert values == {"lenet": 81_194, "mixer-s16": 18_528_264}


def test_counts_of_sizes_give_the_exponents_in_them_and_in_s(capsys) -> None:
    words = ["mixer", "vit", "--vary", "image_size=64,128,224,320", "--mode", "count"]
    assert run(["measure", *words, "--format", "json"]) == 0
    counts, growth = json.loads(capsys.readouterr().out)
    assert len(counts["rows"]) == 8
    columns = [column["id"] for column in growth["columns"]]
    found = {
        (row["group"], row["label"]): dict(zip(columns, row["cells"], strict=True))
        for row in growth["rows"]
    }
    assert found["S", "mixer"]["flops"]["value"] == pytest.approx(1, abs=0.01)
    assert found["S", "mixer"]["degree"]["value"] == found["S", "mixer"]["claim"]["value"] == 1
    assert found["S", "vit"]["degree"]["value"] == found["S", "vit"]["claim"]["value"] == 2
    # At most 400 patches: the maps of the channels are most of it.
    assert 1 < found["S", "vit"]["flops"]["value"] < 1.2
    assert found["image size", "mixer"]["claim"]["value"] == 2
    assert run(["measure", "--vary", "image_size=64,128", "--mode", "count"]) == 2
    assert "name the models" in capsys.readouterr().err


@pytest.mark.slow
def test_counting_all_models_allocates_nothing_and_takes_seconds() -> None:
    """The largest has 16 billion parameters: 64 GB, if it were made."""
    # Not `ru_maxrss`, in which the peak of the process that started this one lives on.
    code = (
        "import re, sys, time; from lightning_bench.bench.cli.app import run\n"
        "code = run(['measure', '--mode', 'count', '--format', 'markdown'])\n"
        "peak_kb = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]\n"
        "print(code, peak_kb, time.process_time(), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    code, peak_kb, cpu_s = done.stderr.split()[-3:]
    assert code == "0"
    assert int(peak_kb) < 2_000_000
    # Of processor time, in one thread: 10 to 15 s here, with room for a slower machine.
    assert float(cpu_s) < 30
    assert "16,000,000,110" in done.stdout


@pytest.mark.slow
def test_growth_is_fitted_and_drawn(tmp_path: Path) -> None:
    words = ["mixer", "--quick", "--vary", "image_size=8,16,32", "--format", "markdown"]
    words += [f"--set={pair}" for pair in ("patch=4", "width=16", "depth=1")]
    done = bench("measure", *words, cwd=tmp_path, env={"COLUMNS": "80"})
    assert done.returncode == 0, done.stderr
    assert "mixer: degree 1 in S" in done.stdout
    drawn = sorted(path.name for path in tmp_path.glob("bench-store/reports/*/*"))
    assert drawn == [
        f"cost-{axis}-infer.{kind}" for axis in ("S", "image-size") for kind in ("png", "svg")
    ]
    assert all(len(line) <= 80 or "/" in line for line in done.stderr.splitlines())
