"""Coverage of the lines that mention a device, under the tests of pretended CUDA.

    python -m benchmarks.device_coverage [options of pytest]

Prints each line with `cuda`, `device` or `gpu` in it that no process of these tests has executed.
One that can't be, as it needs another machine, says so: `# not run: why`. Target: none besides.
"""

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


def tests() -> list[str]:
    """The test files that pretend CUDA, fake some call of it, or tell what is asked for."""
    pretend = ("cuda", "CudaClock", "FakeTensorMode", "pynvml", "nvml", "gpus")
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path) for path in files if any(w in path.read_text("utf-8") for w in pretend)]


def main() -> int:
    """Run the tests, then print what they did not run."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": str(SITE), "DEVICE_LINES": folder}
        words = ["pytest", "-q", "-p", "no:cacheprovider", *sys.argv[1:], *tests()]
        done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, env=environment)
        executed = {
            line for path in Path(folder).iterdir() for line in path.read_text("utf-8").split()
        }
    counted = missed = excused = 0
    for path in device_lines.files():
        text = path.read_text(encoding="utf-8").splitlines()
        inside = path.relative_to(ROOT).as_posix()
        for line in sorted(device_lines.mentions(str(path))):
            counted += 1
            if f"{inside}:{line}" in executed:
                continue
            if EXCUSE in text[line - 1]:
                excused += 1
                continue
            missed += 1
            print(f"{inside}:{line}: {text[line - 1].strip()}")
    print(f"{counted} lines mention a device: {missed} were not run, {excused} say why not")
    return done.returncode or int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
