"""GitHub's workflows call commands that there are, with options that they have."""

import re
from pathlib import Path

import pytest
import typer
import yaml

from lightning_bench.bench.cli.app import app

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def lines(workflow: Path) -> list[str]:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_its_bench_commands_parse(workflow: Path) -> None:
    commands = [line.split()[1:] for line in lines(workflow) if line.startswith(".venv/bin/bench")]
    assert commands
    group = typer.main.get_command(app)
    for name, *words in commands:
        command = group.commands[name]  # type: ignore[attr-defined]
        command.make_context(name, list(words), resilient_parsing=False)


def test_its_sessions_of_nox_are_those_of_the_noxfile() -> None:
    known = set(re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(), re.MULTILINE))
    named = [word for path in WORKFLOWS for line in lines(path) if ".venv/bin/nox" in line
             for word in line.split("-s ")[-1].split()]  # fmt: skip
    assert named
    assert set(named) <= known


def test_no_pull_request_reaches_a_runner_of_ones_own() -> None:
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        jobs = workflow["jobs"].values()
        if any("self-hosted" in job["runs-on"] for job in jobs):
            # YAML 1.1 reads `on` as true.
            assert set(workflow[True]) == {"workflow_dispatch", "schedule"}
