"""Labels that look like markup, or that a terminal would obey, are printed as they are."""

import io
from pathlib import Path

import pytest
from rich.table import Table

from lightning_bench.bench.cli.app import run
from lightning_bench.bench.cli.console import Console, PlainConsole, styled
from tests.factory import study_page

HOSTILE = ["[bold]x[/] [/nope]", "[ours]", ":smile:", "*", "=1+1"]


@pytest.mark.parametrize("kind", [Console, PlainConsole])
def test_brackets_and_control_characters_are_letters(kind: type[PlainConsole]) -> None:
    printed = io.StringIO()
    console = kind(file=printed, width=200, force_terminal=True, color_system=None)
    table = Table(box=None)
    table.add_column("[red]column[/]")
    table.add_row("[/nope] \x1b]0;title\x07")
    console.print("[bold]x[/] :smile: \x1b[31m\u202e", table)
    console.print(styled("[done]", "", " [/] \x9b31m"))
    text = printed.getvalue()
    for shown in ("[bold]x[/] :smile: \\x1b[31m\\u202e", "[/nope] \\x1b]0;title\\x07",
                  "[red]column[/]", "[done] [/] \\x9b31m"):  # fmt: skip
        assert shown in text
    assert not set(text) & set("\x1b\x07\x9b\u202e")


@pytest.mark.parametrize("command", ["plan", "status"])
def test_labels_like_markup_are_shown(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.yaml"
    entries = {label: {"model": "mlp"} for label in HOSTILE}
    page.write_text(study_page(entries=entries, seeds=1), encoding="utf-8")
    (tmp_path / "store" / "runs").mkdir(parents=True)
    assert run([command, str(page), "--store", str(tmp_path / "store")]) == 0
    printed = capsys.readouterr().out
    assert all(label in printed for label in HOSTILE)
