"""The rooms are packages of `lightning_bench`, and are imported as such."""

import subprocess
import sys
from pathlib import Path

import lightning_bench
from lightning_bench.models.registry import user_code

ROOMS = {"bench", "data", "models", "reports", "studies"}


def test_the_command_line_imports_no_room_by_its_bare_name() -> None:
    """There would be two copies of its modules, and in a foreign project another's."""
    code = (
        "import sys; from lightning_bench.bench.cli.app import run; code = run(sys.argv[2:]);"
        "sys.exit(code or sorted(set(sys.argv[1].split()) & sys.modules.keys()) or 0)"
    )
    words = [sys.executable, "-P", "-c", code, " ".join(ROOMS), "list"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_file_of_ours_imports_a_room_by_its_bare_name() -> None:
    package = Path(lightning_bench.__file__).parent
    folders = [*(package / room for room in ROOMS), package / "common", Path(__file__).parent]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    assert len(files) > 300
    for file in files:
        for relative, name in user_code.imports(file, ("any",)):
            assert relative or name[0] not in ROOMS, f"{file} imports {'.'.join(name)}"
