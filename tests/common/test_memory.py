"""Memory of processes, on known allocations."""

import subprocess
import sys

import pytest

MB = 1_000_000


def in_a_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_known_allocation_is_measured_within_five_per_cent():
    found = in_a_process(
        "from lightning_bench.common import memory\n"
        "before = memory.resident_bytes(memory.tree())\n"
        "assert memory.reset_peak(memory.tree())\n"
        "held = bytearray(300_000_000); held[::4096] = b'x' * len(held[::4096]); del held\n"
        "print(memory.peak_bytes(memory.tree()) - before)"
    )
    assert int(found) == pytest.approx(300 * MB, rel=0.05)


def test_children_are_part_of_the_tree():
    found = in_a_process(
        "import subprocess, sys\n"
        "from lightning_bench.common import memory\n"
        "code = 'held = b\"x\" * 100_000_000; print(1, flush=True); input()'\n"
        "child = subprocess.Popen([sys.executable, '-c', code], stdin=-1, stdout=-1)\n"
        "child.stdout.readline()\n"
        "alone = memory._field(memory.tree()[0], 'VmRSS')\n"
        "print(memory.resident_bytes(memory.tree()) - alone)\n"
        "child.kill(); child.wait()"
    )
    assert int(found) > 100 * MB


def test_too_much_is_an_error_and_nobody_is_killed():
    found = in_a_process(
        "from lightning_bench.common import memory\n"
        "memory.limit_to_available()\n"
        "try: held = bytearray(memory.available_bytes() * 2)\n"
        "except MemoryError: print('refused')"
    )
    assert found == "refused"
