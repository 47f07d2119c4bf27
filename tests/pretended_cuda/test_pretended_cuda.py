"""Pretended CUDA refuses what CUDA and NCCL refuse, and frees what they free."""

import os
import subprocess
import sys
from pathlib import Path

from tests.pretended_cuda.environment import pretended, touched

REFUSALS = """
import os, torch

def refused(what, words):
    try:
        what()
    except RuntimeError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)

assert torch.cuda.device_count() == 2 and torch.cuda.is_available()
child = os.fork()
if not child:
    torch.cuda.set_device(0)  # the parent has not initialised it
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
torch.cuda.set_device(1)
refused(lambda: torch.cuda.set_device(2), "invalid device ordinal")
refused(lambda: torch.zeros(2, device="cuda:2"), "invalid device ordinal")
child = os.fork()
if not child:
    refused(lambda: torch.cuda.set_device(0), "Cannot re-initialize CUDA in forked subprocess")
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
model, batch = torch.nn.Linear(4, 2).to("cuda"), torch.ones(3, 4)
assert batch.to("cuda:1") is not batch
model(batch.to("cuda:1"))
refused(lambda: model(batch), "cuda:1 and cpu")
refused(lambda: model(batch.to("cuda:0")), "cuda:1 and cuda:0")
with torch.device("meta"):
    assert torch.nn.Linear(2, 2).weight.is_meta and torch.ones(2).is_meta
with torch.device("cuda"):
    model(torch.ones(3, 4))
assert batch.pin_memory().is_pinned() and not batch.is_pinned()

import torch.distributed as dist
meeting = os.environ["MEETING"]
dist.init_process_group("nccl", init_method=f"file://{meeting}", rank=0, world_size=1)
dist.all_reduce(torch.ones(1, device="cuda"))
refused(lambda: dist.all_reduce(torch.ones(1)), "No backend type associated with device type cpu")
dist.destroy_process_group()
both = "cpu:gloo,cuda:nccl"
dist.init_process_group(both, init_method=f"file://{meeting}2", rank=0, world_size=1)
dist.all_reduce(torch.ones(1))
try:
    try:
        raise ValueError
    finally:
        dist.destroy_process_group()
except ValueError:
    raise SystemExit("NCCL would have hung")
"""

MEMORY = """
import os, sys, torch
model = torch.nn.Linear(100, 100).to("cuda")  # 40,400 bytes, and each batch 400 an example

def step(batch):
    model(torch.ones(batch, 100).to("cuda"))

step(1000)
assert torch.cuda.memory_reserved() == torch.cuda.max_memory_allocated() == 440_400
child = os.environ.pop("SECOND", None)
if child:
    raise SystemExit
os.environ["SECOND"] = "yes"
import subprocess
assert subprocess.run([sys.executable, *sys.argv], stderr=subprocess.PIPE).returncode == 0
assert torch.cuda.mem_get_info()[0] == 3_000_000 - 1_440_400  # the other's is given back
step(4000)
step(1)
try:
    subprocess.run([sys.executable, *sys.argv], check=True)
except subprocess.CalledProcessError:
    pass  # torch keeps what it had
else:
    raise AssertionError("the card has room for both")
torch.cuda.empty_cache()
subprocess.run([sys.executable, *sys.argv], check=True)
try:
    step(40_000)
except torch.OutOfMemoryError as error:
    print(error)
"""


def run(script: str, folder: Path, **options: object) -> "subprocess.CompletedProcess[str]":
    (folder / "script.py").write_text(script, encoding="utf-8")
    env = os.environ | {"MEETING": str(folder / "meeting")} | pretended(folder, **options)
    given = {name: value for name, value in env.items() if value is not None}
    words = [sys.executable, str(folder / "script.py")]
    return subprocess.run(words, env=given, capture_output=True, text=True, timeout=120)


def test_it_refuses_what_cuda_and_nccl_refuse(tmp_path: Path) -> None:
    done = run(REFUSALS, tmp_path, devices=2, watchdog_s=0.1)
    assert "pretended NCCL hangs" in done.stderr, done.stderr
    assert done.returncode < 0  # the watchdog's abort
    assert len(touched(tmp_path)) == 2  # not the fork that was refused


def test_processes_share_a_card_and_give_its_memory_back(tmp_path: Path) -> None:
    done = run(MEMORY, tmp_path, capacity=3_000_000)
    assert done.returncode == 0, done.stderr
    assert "CUDA out of memory. Tried to allocate" in done.stdout
