"""Which lines count as mentioning a device, and which of them are marked as executed."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.pretended_cuda.environment import ROOT, SITE

sys.path.append(str(SITE))
import device_lines

TEXT = '''"""A module about GPUs."""
from x import device
import torch.cuda  # on a device


def f(device: str, gpu: int) -> "Device":
    """Nothing about a GPU."""
    # neither on a device
    y: "Device" = 1
    if y:
        raise ValueError(
            "a long message "
            "about a GPU"
        )
    return g(y, device=y)


@device
class A:
    x: int = 1
    device_h = 2
    z = torch.device("meta")
    gpus = 3
'''


def test_code_counts_and_words_about_it_do_not() -> None:
    lines = TEXT.splitlines()
    assert [lines[number - 1].strip() for number in device_lines.lines_of(TEXT)] == [
        'def f(device: str, gpu: int) -> "Device":',
        '"a long message "',
        "return g(y, device=y)",
        "@device",
        "gpus = 3",
    ]


MARKED = """def of(device, gpus=0):
    if device == "cuda":
        return "a GPU"
    found = [
        "no " + device
        for device in (device,)
        if not gpus
    ]
    return (
        f"{found[0]}, "
        if found
        else device.upper()
    )
"""


def test_a_mark_is_set_by_what_is_executed_and_changes_nothing() -> None:
    numbers = {line: line for line in range(1, 14) if line not in (4, 8, 9, 13)}
    marks = bytearray(20)
    space: dict[str, Any] = {device_lines.NAME: marks}
    exec(compile(device_lines.marked(MARKED, numbers), "marked", "exec"), space)
    assert space["of"]("cpu") == "no cpu, "
    assert [line for line in numbers if not marks[line]] == [3, 12]
    assert space["of"]("cpu", 1) == "CPU"
    assert space["of"]("cuda") == "a GPU"
    assert all(marks[line] for line in numbers)


def test_processes_mark_the_lines_of_our_modules(tmp_path: Path) -> None:
    device_lines.prepare(tmp_path)
    assert not any(device_lines.executed(tmp_path).values())
    code = (
        "import os, signal\n"
        "from lightning_bench.bench.study.compatibility import unfit_precision\n"
        "if os.fork() == 0:\n"
        "    unfit_precision('tf32', 'cpu')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "os.wait()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(SITE), "DEVICE_LINES": str(tmp_path)}
    for _ in range(2):  # compiled, and read again
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    file = "bench/study/compatibility.py"
    text = (ROOT / file).read_text(encoding="utf-8").splitlines()
    seen = device_lines.executed(tmp_path)
    ours = [(text[int(at.partition(":")[2]) - 1], seen[at]) for at in seen if at.startswith(file)]
    assert [run for line, run in ours if "a CPU computes in fp32 or bf16" in line] == [True]
    assert [run for line, run in ours if "NVIDIA's GPUs, not of" in line] == [False]
    device_lines.prepare(tmp_path)
    assert device_lines.executed(tmp_path) == seen
