"""At home in somebody else's project: installed as users install it, and started in a folder that
has packages of the rooms' names, models of its own, and files named as the libraries are."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from lightning_bench.bench.cli.app import app

pytestmark = pytest.mark.slow

if importlib.util.find_spec("hatchling") is None:
    pytest.skip("hatchling is not installed: no wheel can be built", allow_module_level=True)

ROOT = Path(__file__).parents[1]
ROOMS = ("bench", "data", "models", "reports", "studies")
#: Whoever imports one of these from the project leaves a word of it, and ends.
DECOYS = ("numpy", "pydantic", "pytorch_lightning", "rich", "torch", "typer", "wandb", "yaml")

FILES = {
    **{f"{room}/__init__.py": "" for room in ROOMS},
    **{
        f"{name}.py": f"open(__file__ + '.imported', 'w')\nraise SystemExit('not {name}')\n"
        for name in DECOYS
    },
    "torch_utils.py": "WIDTH = 8\n",
    "lib/width.py": "from torch_utils import WIDTH\n",
    "models/mynet.py": """\
        from torch import nn

        from lib.width import WIDTH
        from models.parts.body import Body


        def my_net(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
            \"\"\"One of the project's package.\"\"\"
            return nn.Sequential(
                nn.Flatten(), Body(channels * image_size**2, WIDTH), nn.Linear(WIDTH, classes)
            )
        """,
    "models/parts/__init__.py": "",
    "models/parts/body.py": """\
        from torch import nn

        from ..activation import Activation


        class Body(nn.Sequential):
            def __init__(self, inputs: int, outputs: int) -> None:
                super().__init__(nn.Linear(inputs, outputs), Activation())
        """,
    "models/activation.py": "from torch.nn import ReLU as Activation\n",
    "nets/file.py": """\
        from torch import Tensor, nn

        from beside import WIDTH
        from . import unused

        print("this is not JSON")


        class Net(nn.Module):
            def __init__(self, inputs: int, classes: int) -> None:
                super().__init__()
                self.body = nn.Linear(inputs, WIDTH)
                self.head = nn.Linear(WIDTH, classes)

            def forward(self, images: Tensor) -> Tensor:
                return self.head(self.body(images.flatten(1)))


        def make(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> Net:
            \"\"\"One of a file.\"\"\"
            return Net(channels * image_size**2, classes)
        """,
    "nets/beside.py": "WIDTH = 4\n",
    "nets/unused.py": "",
    "page.yaml": """\
        title: Mine
        question: Is it at home?
        data: [digits]
        entries:
          Module: {model: "models.mynet:my_net"}
          File: {model: "nets/file.py:make"}
          MLP: {model: mlp, args: {width: 8}}
        recipe: {epochs: 1}
        seeds: 2
        scales: {smoke: {}}
        """,
}


class Installed:
    """An environment that the project is installed in, and a foreign folder to start it in."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.environment, self.project = folder / "environment", folder / "project"
        run(sys.executable, "-m", "venv", self.environment)
        pip = (self.environment / "bin" / "python", "-m", "pip", "install", "--no-index", "-q")
        run(*pip, "--no-deps", wheel)
        (self.site,) = self.environment.glob("lib/python*/site-packages")
        # The dependencies of this environment; what it has by a .pth, as this project, is not.
        others = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
        (self.site / "dependencies.pth").write_text("\n".join(others), encoding="utf-8")
        for name, text in FILES.items():
            path = self.project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")

    def script(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """`bench`, as it was installed."""
        return self._start(self.environment / "bin" / "bench", *words)

    def module(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """`python -m lightning_bench`, which Python lets import from the folder first."""
        return self._start(self.environment / "bin" / "python", "-m", "lightning_bench", *words)

    def reasons(self, start: Callable[..., "subprocess.CompletedProcess[str]"]) -> dict[str, str]:
        """The state and reason of each entry's runs, as the plan tells them."""
        rows = json.loads(start("plan", "page.yaml", "--format", "json").stdout)
        return {row["entry"]: f"{row['state']}: {row['reason']}" for row in rows}

    def edit(self, name: str) -> None:
        """Change a file's code, if to no effect."""
        path = self.project / name
        path.write_text(f"{path.read_text(encoding='utf-8')}\nCHANGED = 1\n", encoding="utf-8")

    def decoys(self) -> list[str]:
        """The files of the project that were imported in a library's place."""
        return [path.name for path in self.project.rglob("*.imported")]

    def _start(
        self, *words: str | Path, cwd: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        known = {k: v for k, v in os.environ.items() if not k.startswith(("BENCH_", "PYTHON"))}
        cache = self.project.parent / "cache"
        return subprocess.run(
            words, cwd=cwd or self.project, capture_output=True, text=True, check=False,
            timeout=300 if cwd is None else 900,
            env={**known, "XDG_CACHE_HOME": str(cache), "COLUMNS": "150", "WANDB_MODE": "offline"},
        )  # fmt: skip


def run(*words: str | Path, cwd: Path = ROOT) -> None:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def build(source: Path, target: str, out: Path) -> Path:
    """A distribution as hatchling builds it for pip and uv."""
    before = set(out.glob("*"))
    run(
        sys.executable, "-c",
        f"import sys; from hatchling.build import build_{target}; build_{target}(sys.argv[1])", out,
        cwd=source,
    )  # fmt: skip
    (made,) = set(out.glob("*")) - before
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    return build(ROOT, "wheel", out)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installed:
    """The wheel, in a project whose page has been run."""
    made = Installed(tmp_path_factory.mktemp("wheel"), wheel)
    done = made.script("run", "page.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def members(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {info.filename for info in archive.infolist()}


def test_the_wheel_holds_the_rooms_their_data_and_nothing_else(wheel: Path, tmp_path: Path) -> None:
    inside = members(wheel)
    assert {name.partition("/")[0].partition("-")[0] for name in inside} == {"lightning_bench"}
    package = ROOT / "src" / "lightning_bench"
    sources = [path for room in (*ROOMS, "common") for path in (package / room).rglob("*")]
    wanted = {
        path.relative_to(package.parent).as_posix()
        for path in (package / "py.typed", package / "__main__.py", *sources)
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted <= inside
    assert {"lightning_bench/models/registry/catalogue.json", "lightning_bench/py.typed"} <= inside
    # By way of the source distribution, it is the same wheel.
    source = build(ROOT, "sdist", tmp_path)
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / source.name.removesuffix(".tar.gz")
    assert members(build(unpacked, "wheel", tmp_path)) == inside


def test_nothing_else_is_installed_or_importable(installed: Installed) -> None:
    ours = {path.name for path in installed.site.iterdir()}
    ours -= {name for name in ours if name.startswith(("pip", "setuptools", "pkg_resources"))}
    ours -= {"_distutils_hack", "distutils-precedence.pth", "dependencies.pth", "__pycache__"}
    assert ours == {"lightning_bench", next(n for n in ours if n.startswith("lightning_bench-"))}
    code = "import importlib.util, sys; print(importlib.util.find_spec(sys.argv[1]))"
    python = installed.environment / "bin" / "python"
    for name in (*ROOMS, "tests", "benchmarks", "noxfile"):
        spec = subprocess.run(
            [python, "-P", "-c", code, name], capture_output=True, text=True, cwd=installed.site
        ).stdout
        assert spec.strip() == "None" or (str(ROOT) not in spec and str(installed.site) not in spec)


def test_a_project_with_the_rooms_names_runs(installed: Installed) -> None:
    expected = dict.fromkeys(("Module", "File", "MLP"), "done")
    for start in (installed.script, installed.module):
        reasons = installed.reasons(start)
        assert {entry: reason.partition(":")[0] for entry, reason in reasons.items()} == expected
        for words in (["--help"], ["list"], ["describe", "models.mynet:my_net"]):
            done = start(*words)
            assert done.returncode == 0, done.stderr
    assert installed.decoys() == []


def test_a_model_that_is_not_there_is_one_line(installed: Installed) -> None:
    for model, says in (
        ("models.mynot:my_net", "did you mean 'mynet'?"),
        ("nets/fiel.py:make", "did you mean 'file.py'?"),
        ("nets/file.py:mak", "did you mean 'make'?"),
        ("nets/file.py", "as in nets/file.py:make"),
        ("torch.py:make", "not torch"),
    ):
        done = installed.script("run", "page.yaml", "--set", f"entries.File.model={model}")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("bench: --set entries.File.model: ")
        assert done.stderr.count("\n") == 1
        assert says in done.stderr
    assert installed.decoys() == ["torch.py.imported"]  # as was asked for
    (installed.project / "torch.py.imported").unlink()


#: Each command with arguments that make it work on the project's page.
COMMANDS: dict[str, list[str]] = {
    "list": ["models"],
    "describe": ["nets/file.py:make"],
    "plan": ["page.yaml"],
    "prepare": ["page.yaml"],
    "rehearse": ["page.yaml"],
    "run": ["page.yaml"],
    "status": ["page.yaml"],
    "logs": ["Module/digits/0", "--study", "page.yaml"],
    "cancel": ["page.yaml"],
    "measure": ["models.mynet:my_net", "nets/file.py:make", "--mode", "count"],
    "report": ["page.yaml"],
    "compare": ["page.yaml", "Module", "File"],
    "diff": ["bench-store/reports/page-smoke", "bench-store/reports/page-smoke"],
    "sync": ["page.yaml", "--to", "csv"],
    "check": ["page.yaml"],
    "reproduce": ["KEY"],
    "check-data": ["digits"],
    "check-model": ["nets/file.py:make"],
    "check-device": ["--device", "cpu", "--devices", "1", "--steps", "1,2"],
}


@pytest.mark.parametrize("command", sorted(typer.main.get_command(app).commands))  # type: ignore[attr-defined]
def test_every_command_works_as_installed(installed: Installed, command: str) -> None:
    words = COMMANDS[command]
    if command == "reproduce":
        rows = json.loads(installed.script("plan", "page.yaml", "--format", "json").stdout)
        words = [next(row["key"] for row in rows if row["entry"] == "File")]
    done = installed.script(command, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert installed.decoys() == []


def test_an_edited_file_makes_its_runs_stale(installed: Installed) -> None:
    """The model's own, one that it imports absolutely, and one relatively, two levels deep."""
    edited: list[str] = []
    for name in ("models/mynet.py", "lib/width.py", "models/activation.py"):
        installed.edit(name)
        edited.append(name)
        for start in (installed.script, installed.module):
            reasons = installed.reasons(start)
            named = sorted(f"./{each}" for each in edited)
            more = f" and {len(named) - 2} more" if len(named) > 2 else ""
            assert reasons["Module"] == f"stale: {', '.join(named[:2])}{more} changed since"
            assert reasons["File"].startswith("done")
            assert reasons["MLP"].startswith("done")
    installed.edit("torch.py")
    installed.edit("models/__init__.py")
    assert installed.reasons(installed.script)["File"].startswith("done")
    assert "./models/__init__.py" in installed.reasons(installed.script)["Module"]
    assert installed.decoys() == []


def test_the_example_of_ones_own_project_comes_to_its_table(
    installed: Installed, tmp_path: Path
) -> None:
    """examples/own_project: networks, a LightningModule, a LightningDataModule, a table, tuned."""
    project = tmp_path / "project"
    shutil.copytree(ROOT / "examples" / "own_project", project)
    run(sys.executable, "data/make_shapes.py", cwd=project)
    script = installed.environment / "bin" / "bench"
    less = ("--set", "search.trials=2", "--set", "seeds=2")  # of the page's three
    done = installed._start(script, "run", "study.yaml", *less, cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = installed._start(script, "plan", "study.yaml", *less, "--format", "json", cwd=project)
    rows = json.loads(shown.stdout)
    runs = [row for row in rows if "seed" in row]
    assert {row["state"] for row in runs} == {"done"}
    assert len(runs) == 3 * 2 * 2
    (report,) = project.glob("bench-store/reports/*/report.tex")
    table = report.read_text(encoding="utf-8")
    for word in ("ConvNet", "Perceptron", "Lightning", "Digits", "Shapes", r"\toprule"):
        assert word in table
    assert "data.digits" not in table.partition(r"\toprule")[2].partition(r"\bottomrule")[0]


def test_an_editable_installation_does_the_same(tmp_path: Path) -> None:
    made = Installed(tmp_path, build(ROOT, "editable", tmp_path))
    assert not (made.site / "lightning_bench").exists()
    done = made.script("run", "page.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    made.edit("nets/beside.py")
    for start in (made.script, made.module):
        reasons = made.reasons(start)
        assert reasons["File"] == "stale: ./nets/beside.py changed since"
        assert reasons["Module"].startswith("done")
    assert made.decoys() == []
