"""Coverage of the lines that mention a device, under tests of pretended CUDA and of the CPU.

    python -m benchmarks.device_coverage [--lines FOLDER] [options of pytest]

Prints each line of code with `cuda`, `device` or `gpu` in it that no process of these tests has
executed, and fails where there is one. What can't be run, as it needs another machine, says so
beside it or in the line above: `# not run: why`. With --lines what was executed is kept in a
folder, to which later calls add: `--lines FOLDER path::test` runs that test alone, `--lines FOLDER
none` prints, `--lines FOLDER prepare` makes the folder for tests that somebody else starts.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = ROOT / "tests/pretended_cuda/site"
sys.path.append(str(SITE))
import device_lines  # noqa: E402

EXCUSE = "# not run: "

#: Tests that between them run every such line, one a line of the file; of the slow ones as few as
#: do. A line that none of them runs wants a test, and that test its place there.
TESTS = Path(__file__).with_name("device_tests.txt")


def tests() -> list[str]:
    """Tests that run all lines that mention a device."""
    lines = TESTS.read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def run(folder: Path, words: list[str]) -> int:
    """Run tests, all of the above where none is named; their processes mark lines there."""
    device_lines.prepare(folder)
    if words in (["none"], ["prepare"]):
        return 0
    if not any(Path(word.partition("::")[0]).exists() for word in words):
        words = [*words, "-n", "auto", "--dist", "loadscope", *tests()]
    environment = {**os.environ, "PYTHONPATH": str(SITE), "DEVICE_LINES": str(folder)}
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    return subprocess.run(pytest, cwd=ROOT, env=environment).returncode


def show(folder: Path) -> int:
    """Print the lines that were not executed, and how many there are."""
    missed = excused = 0
    lines = device_lines.executed(folder)
    for place, was_run in lines.items():
        file, _, number = place.rpartition(":")
        text = ["", *(ROOT / file).read_text(encoding="utf-8").splitlines()]
        line, above = text[int(number)].strip(), text[int(number) - 1].strip()
        if was_run:
            continue
        if EXCUSE in line or above.startswith(EXCUSE):
            excused += 1
            continue
        missed += 1
        print(f"{place}: {line}")
    print(
        f"{len(lines)} lines mention a device: {missed} were not run without a reason, "
        f"{excused} say why"
    )
    return missed


def main() -> int:
    """Run the tests, then print what they did not run."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--lines", type=Path)
    options, words = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.lines or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        code = run(folder.resolve(), words)
        if words == ["prepare"]:
            return code
        return int(show(folder) > 0) or code


if __name__ == "__main__":
    sys.exit(main())
