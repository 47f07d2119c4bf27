"""GPUs of a host that several benches, and other programs, want at once."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands import bench, start, wait_for
from tests.pretended_cuda.environment import pretended, uuid

CLAIM = """
import sys
from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute import gpu_locks

try:
    claimed = gpu_locks.claim(int(sys.argv[1]), int(sys.argv[2]))
except UserError as error:
    print(error, flush=True)
else:
    print(",".join(claimed.ids), claimed.warning, flush=True)
sys.stdin.read()
"""

STUDY = """\
title: A slow run
question: Who has the GPU?
data: [digits]
entries: {Slow: {model: "tests.bench.misbehaving:slow"}}
seeds: 1
recipe: {epochs: 3}
scales: {smoke: {}}
"""


def claim(folder: Path, most: int, least: int, **options: Any) -> "subprocess.Popen[str]":
    env = {**os.environ, **pretended(folder, **options)}
    given = {name: value for name, value in env.items() if value is not None}
    words = [sys.executable, "-c", CLAIM, str(most), str(least)]
    pipe = subprocess.PIPE
    return subprocess.Popen(words, env=given, stdin=pipe, stdout=pipe, text=True)


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def end(process: "subprocess.Popen[str]", *, killed: bool = False) -> None:
    if killed:
        process.kill()
    process.communicate()


def test_each_gpu_has_one_bench_until_it_ends_however_it_ends(tmp_path: Path) -> None:
    first = claim(tmp_path, 2, 1, devices=3)
    assert said(first) == "0,1"
    second = claim(tmp_path, 2, 1, devices=3)
    assert said(second) == "2"
    third = claim(tmp_path, 2, 2, devices=3)
    assert said(third).startswith(
        "2 GPUs are wanted, and other benches on this host use 3 of 3: wait for them"
    )
    end(third)
    end(first, killed=True)
    fourth = claim(tmp_path, 3, 2, devices=3)
    assert said(fourth) == "0,1"
    end(second)
    end(fourth)


def test_without_nvml_a_gpu_is_known_by_torchs_uuid(tmp_path: Path) -> None:
    hosts = [tmp_path / "here", tmp_path / "there"]
    for host in hosts:
        host.mkdir()
    first = claim(hosts[0], 1, 1, devices=2, nvml=False, visible="1")
    assert said(first) == "1"
    # Another host's card of this index, such as that of another container, is another card ...
    second = claim(hosts[1], 1, 1, devices=2, nvml=False, visible="1")
    assert said(second) == "1"
    # ... and this host's is the same one by whatever name.
    third = claim(hosts[0], 1, 1, devices=2, nvml=False, visible=uuid(hosts[0], 1))
    assert "other benches on this host use 1 of 1" in said(third)
    for process in (first, second, third):
        end(process)


def test_gpus_that_others_use_are_taken_last_and_told(tmp_path: Path) -> None:
    one = claim(tmp_path, 1, 1, devices=2, foreign=[12345])
    assert said(one) == "1"
    other = claim(tmp_path, 1, 1, devices=2, foreign=[12345])
    assert said(other).startswith("0 other programs use GPU 0, too")
    end(one)
    end(other)


@pytest.mark.slow
def test_two_benches_on_one_host_take_a_gpu_each(tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(STUDY, encoding="utf-8")
    host = pretended(tmp_path, devices=2)
    first = start("run", "slow.yaml", "--store", "first", cwd=tmp_path, env=host)
    wait_for(lambda: list((tmp_path / "first").glob("runs/*/log.txt")), "the first run")
    words = ["--set", "seeds=2", "--store", "second"]
    second = bench("run", "slow.yaml", *words, cwd=tmp_path, env=host)
    assert second.returncode == 0, second.stderr
    assert "2 of 2 runs to do, 1 at a time" in second.stdout
    out, _ = first.communicate(timeout=240)
    assert first.returncode == 0, out
    visible = {
        text.partition('"visible_devices":"')[2][0]
        for path in tmp_path.glob("*/runs/*/record.json")
        for text in [path.read_text(encoding="utf-8")]
    }
    assert visible == {"0", "1"}
