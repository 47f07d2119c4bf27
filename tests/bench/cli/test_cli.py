"""The command line: listings, one-line mistakes, and no torch where none is needed."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lightning_bench import __version__, studies
from lightning_bench.bench.cli.app import run
from lightning_bench.common.messages import duration
from lightning_bench.data import catalogue as data_catalogue
from lightning_bench.models.errors import UnknownModel
from lightning_bench.models.registry import catalogue as model_catalogue
from tests.commands import BENCH, bench


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert run([*arguments, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"lightning-bench {__version__}\n"
    assert run(["--help"]) == 0
    assert "Exit codes" in capsys.readouterr().out


def test_lists_name_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["name"] for row in listed(capsys, "list", "studies")] == list(studies.pages())
    rows = listed(capsys, "list", "models")
    assert [row["name"] for row in rows] == list(model_catalogue.entries())
    assert all(type(row["parameters"]) is int for row in rows if row["parameters"] is not None)
    assert [r["name"] for r in listed(capsys, "list", "data")] == list(data_catalogue.entries())
    kinds = {row["kind"] for row in listed(capsys, "list")}
    assert kinds == {"studies", "models", "data"}


def test_mixer_has_the_parameters_that_the_audit_counts(capsys) -> None:
    counts = {row["name"]: row["parameters"] for row in listed(capsys, "list", "models")}
    assert counts["mixer-b16"] == 59_880_472


@pytest.mark.parametrize("name", ["quickstart", "mixer-b16", "digits"])
def test_describe_knows_all_kinds(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert listed(capsys, "describe", name)[0]["name"] == name
    assert run(["describe", name]) == 0
    assert name in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["studies", "models", "data"])
def test_tables_fit_80_columns(capsys, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["list", kind]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80


def test_bare_bench_is_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    assert "Usage: bench" in capsys.readouterr().out
    done = subprocess.run(
        [sys.executable, "-m", "lightning_bench", "--version"], capture_output=True
    )
    assert done.returncode == 0


def test_the_models_have_a_markdown_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "models", "--format", "markdown"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 2 + len(model_catalogue.entries())
    assert run(["list", "data", "--format", "markdown"]) == 2


def test_prepare_verifies_what_is_embedded(capsys, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    rows = listed(capsys, "prepare", "quickstart")
    assert {row["name"]: row["state"] for row in rows} == {
        "digits": "ready",
        "polarity": "ready",
        "entailment": "ready",
    }


@pytest.mark.slow
def test_check_model_tells_good_from_bad(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check-model", "mlp"]) == 0
    assert "mlp keeps the contract" in capsys.readouterr().out
    assert run(["check-model", "tests.bench.misbehaving:raises"]) == 3
    assert "breaks it in" in capsys.readouterr().out


MISTAKES = [
    (["check-model", "mixr"], "there is no model 'mixr'"),
    (["run", "quickstrat"], "unknown study 'quickstrat'; did you mean 'quickstart'?"),
    (["run", "quickstart", "--scale", "smok"], "no scale 'smok'; did you mean 'smoke'?"),
    (["run", "quickstart", "--set", "recipe.epoch=1"], "did you mean 'epochs'?"),
    (["run", "quickstart", "--jobs", "0"], "'--jobs': Input should be greater than or equal to 1"),
    (["run", "quickstart", "--job", "2"], "No such option: --job"),
    (["run", "quickstart", "--device", "tpu"], "--device tpu: it is auto, cpu or cuda"),
    (["run"], "Missing argument 'STUDY'"),
    (["plan", "nowhere.yaml"], "no study page at nowhere.yaml"),
    (["describe", "vot"], "nothing is called 'vot'"),
    (["list", "modles"], "'modles' is not one of"),
    (["report", "quickstart"], "has no run of quickstart yet"),
    (["report", "quickstart", "--format", "pdf"], "unknown format 'pdf'"),
    (["status", "quickstart", "--store", "file"], "--store file is not a folder"),
    (["run", "quickstart", "--devices", "1000"], "--devices 1000: there are"),
    (
        ["run", "quickstart", "--strategy", "fsdp", "--set", "recipe.precision=fp16"],
        "MLP: precision fp16 needs a GPU",
    ),
    (
        ["run", "quickstart", "--set", "recipe.precision=fp16", "--device", "cpu"],
        "fp16 needs a GPU",
    ),
    (["run", "quickstart", "--quiet", "--verbose"], "--quiet and --verbose exclude each other"),
    (["run", "quickstart", "--launcher", "slrum"], "'slrum' is not one of"),
    (["run", "quickstart", "--cluster", "partitio=a"], "--cluster partitio: unknown key"),
    (["run", "quickstart", "--cluster", "partition"], "expected key=value"),
    (["run", "quickstart", "--cluster", "nodes=0"], "--cluster nodes: cluster.nodes: input should"),
    (["status", "quickstart", "--watch", "--format", "json"], "--watch shows tables"),
    (["logs", "lenet"], "bench-store has no run yet"),
    (["cancel", "quickstrat"], "no study or run is called 'quickstrat'; did you mean"),
    (["frobnicate"], "No such command 'frobnicate'"),
]


@pytest.mark.parametrize(("arguments", "says"), MISTAKES)
def test_mistakes_are_one_line_and_write_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], says: str
) -> None:
    (tmp_path / "file").write_text("")
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("bench: ")
    assert says in captured.err
    assert captured.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


QUICK = [["--help"], ["list"], ["plan", "quickstart"], ["status", "quickstart"]]


def imported(*arguments: str) -> set[str]:
    """The modules that a command has imported by its end."""
    code = (
        "import sys; from lightning_bench.bench.cli.app import run; code = run(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [*QUICK, ["run", "--help"]])
def test_no_torch_where_none_is_needed(arguments: list[str]) -> None:
    heavy = {"torch", "pytorch_lightning", "scipy", "pandas", "matplotlib"}
    assert not heavy & imported(*arguments)


@pytest.mark.parametrize("arguments", QUICK)
def test_what_writes_no_report_imports_no_report(arguments: list[str]) -> None:
    # What a plan can show is asked of the very test that its report will make, and of nothing else.
    inference = {".inference", ".max_t", ".power", ".e_values"}
    power = {"", ".request", ".report", ".statistics", *(f".statistics{x}" for x in inference)}
    needed = {f"lightning_bench.reports{name}" for name in power} if "plan" in arguments else set()
    found = {name for name in imported(*arguments) if "lightning_bench.reports" in name}
    assert found <= needed


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("list", "studies"), "quickstart"),
        (("describe", "lenet"), "convolution"),
        (("plan", "quickstart"), "missing"),
        (("status", "quickstart"), "missing"),
        (("cancel", "quickstart"), "nothing of quickstart is running"),
        (("prepare", "quickstart"), "can run without a network"),
        (("measure", "lenet", "--mode", "count"), "81,194"),
        pytest.param(("check-model", "mlp"), "keeps the contract", marks=pytest.mark.slow),
    ],
)
def test_the_installed_script_answers_in_any_folder(
    tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    for package in ("bench", "data", "models", "reports", "studies"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('the wrong package')")
    done = bench(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{shlex.quote(BENCH)} list models | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.7, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (7300, "2 h 1 min"),
        (2e5, "2 days 7 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_plan_looks_into_a_mirror_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A relative folder of images starts at --data-root, in a plan as in a run."""
    for i in range(20):
        path = tmp_path / "mirror" / "mine" / ("a", "b")[i % 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    page = tmp_path / "own.yaml"
    page.write_text(
        "title: t\nquestion: q\ndata: [{name: 'folder:mine', image_size: 8}]\n"
        "entries: {A: {model: mlp}}\nseeds: 1\nscales: {smoke: {}}\n",
        encoding="utf-8",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_DATA", "")  # put back afterwards
        patch.delenv("BENCH_DATA")
        assert run(["plan", str(page)]) == 2
        assert "there is no folder mine" in capsys.readouterr().err
        assert run(["plan", str(page), "--data-root", str(tmp_path / "mirror")]) == 0
        patch.delenv("BENCH_DATA")


def test_a_missing_vocabulary_is_asked_for_before_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data without the words to read it by: refused, instead of each run by itself."""
    from lightning_bench.bench.cli import preflight
    from lightning_bench.bench.cli.options import make_plan
    from lightning_bench.bench.store.store import Store
    from lightning_bench.bench.study.load import load
    from lightning_bench.data.errors import DataError
    from lightning_bench.data.sources import repository

    monkeypatch.setenv("BENCH_MODELS", str(tmp_path / "no"))
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(repository, "_cached", lambda *_: None)  # nor in anybody's cache
    folder = tmp_path / "mirror/nyu-mll/glue/sst2"
    folder.mkdir(parents=True)
    for split in ("train", "validation"):
        (folder / f"{split}-00000-of-00001.parquet").touch()
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "mirror"))
    page = tmp_path / "own.yaml"
    page.write_text(
        "title: t\nquestion: q\ndata: [sst2]\nentries: {A: {model: bag}}\nseeds: 1\n"
        "scales: {smoke: {}}\n",
        encoding="utf-8",
    )
    plan = make_plan(load(str(page)), Store(tmp_path / "store"))
    with pytest.raises(DataError, match=r"bert-base-uncased \(vocab.txt\) is neither"):
        preflight.demand_inputs(plan)


@pytest.mark.parametrize("name", ["fnet", "convbert", "nystromformer", "yoso"])
def test_an_encoder_whose_pads_leak_is_refused(name: str) -> None:
    with pytest.raises(UnknownModel, match=f"{name} of transformers lets pads change its results"):
        model_catalogue.find(f"hf/{name}")
