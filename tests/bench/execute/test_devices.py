"""What a device means on hosts of many kinds, pretended ones, asked from a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute import devices
from tests.pretended_cuda.environment import pretended

ASK = """
import json, sys
from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute import devices

def told(what):
    try:
        return what()
    except UserError as error:
        return str(error)

found = devices.find(insist=sys.argv[1] == "cuda")
print(json.dumps({
    "ids": [card.id for card in found.cards],
    "kinds": [card.name for card in found.cards],
    "device": told(lambda: devices.resolve(sys.argv[1])),
    "room": {n: told(lambda: devices.demand(sys.argv[1], n, 1)) for n in (1, 2, 3)},
    "bf16": devices.unfit_cards("bf16"),
    "likely": devices.likely_room(1, 1),
    "power": [devices.power_and_profile(card.uuid.partition("-")[2]) for card in found.cards],
    "torch": "torch" in sys.modules,
}))
"""


def host(folder: Path, device: str = "auto", **options: Any) -> dict[str, Any]:
    """What a process says of the devices of such a host."""
    env = {**os.environ, **pretended(folder, **options)}
    given = {name: value for name, value in env.items() if value is not None}
    words = [sys.executable, "-c", ASK, device]
    done = subprocess.run(words, env=given, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert not told.pop("torch")  # it is this process's children's to import
    return told


@pytest.mark.parametrize(
    ("visible", "ids"),
    [
        (None, ["0", "1", "2"]),
        ("2,0", ["2", "0"]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        # CUDA sees none from the first one on that there is not, and none at all if one is twice.
        ("2,-1,1", ["2"]),
        ("1,7,0", ["1"]),
    ],
)
def test_nvml_and_the_environment_say_which_gpus_there_are(
    tmp_path: Path, visible: str | None, ids: list[str]
) -> None:
    names = ["NVIDIA A100-SXM4-80GB", "NVIDIA T4"]
    found = host(tmp_path, devices=3, visible=visible, names=names)
    assert found["ids"] == ids
    assert found["device"] == ("cuda" if ids else "cpu")
    assert found["kinds"] == [names[int(card) % 2] for card in ids]
    if ids:
        room = {str(n): len(ids) // n for n in (1, 2, 3) if n <= len(ids)}
        assert {n: free for n, free in found["room"].items() if isinstance(free, int)} == room


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"devices": 2, "visible": "7"}, "CUDA_VISIBLE_DEVICES is 7, and there are 2 GPUs here"),
        ({"devices": 2, "visible": "0,0"}, "CUDA_VISIBLE_DEVICES is 0,0, and there are 2 GPUs"),
        (
            {"supports": 12040},
            "the driver (550.54.15) is too old: it supports CUDA 12.4, and torch is built for 13.2",
        ),
        (
            {"devices": 0, "visible": "0,1", "nvml": False},
            "CUDA_VISIBLE_DEVICES is 0,1, but torch finds no GPU",
        ),
    ],
)
def test_gpus_that_can_not_be_used_are_told_and_never_replaced_by_the_cpu(
    tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    for device in ("auto", "cuda"):
        found = host(tmp_path, device, **options)
        assert found["device"].startswith(f"--device {device}: {says}")
        assert ("--device cpu" in found["device"]) == (device == "auto")


def test_without_nvml_torch_is_asked_where_something_speaks_for_a_gpu(tmp_path: Path) -> None:
    named = host(tmp_path, devices=2, visible="1", nvml=False, hip="6.2")
    assert (named["ids"], named["kinds"]) == (["1"], ["NVIDIA Pretended 80GB"])
    insisted = host(tmp_path, "cuda", devices=2, nvml=False)
    assert insisted["ids"] == ["0", "1"]
    assert insisted["room"] == {"1": 2, "2": 1, "3": "--devices 3: there are 2 GPUs here"}
    assert (named["likely"], named["power"]) == (1, [[None, ""]])
    # Nothing does, and the second or two that torch takes are saved.
    assert host(tmp_path, devices=2, nvml=False)["ids"] == []


def test_a_torch_for_cpus_alone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_torch_builds", dict)
    assert devices._mismatch() == "there is a GPU, but torch is built for CPUs alone"
    found = devices._found_by_torch(["0"], insist=False)
    assert found.problem.endswith("_VISIBLE_DEVICES is 0, but torch is built for CPUs alone")
    assert devices._found_by_torch(None, insist=False) == devices.Found()


def test_each_instance_of_mig_is_a_gpu_and_runs_take_one_each(tmp_path: Path) -> None:
    found = host(tmp_path, devices=2, mig=True)
    assert len(found["ids"]) == 4
    assert all(card.startswith("MIG-") for card in found["ids"])
    assert found["kinds"] == ["NVIDIA Pretended 80GB MIG 3g.40gb"] * 4
    assert found["room"]["1"] == found["likely"] == 4
    assert found["power"] == [[None, "3g.40gb"]] * 4
    assert "NCCL does not serve MIG's instances" in found["room"]["2"]
    assert host(tmp_path, devices=2, mig=True, visible=found["ids"][3])["ids"] == [found["ids"][3]]


def test_a_card_before_ampere_computes_in_no_bf16(tmp_path: Path) -> None:
    old = host(tmp_path, names=["NVIDIA T4"], capability=(7, 5))
    assert old["bf16"] == (
        "precision bf16 needs an Ampere GPU or a later one; NVIDIA T4 has compute capability 7.5: "
        "take fp32 or fp16"
    )
    assert host(tmp_path)["bf16"] == ""


def test_other_accelerators_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert devices.parse_device("cuda") == "cuda"
    with pytest.raises(UserError, match=r"--device mps: the GPU of a Mac .*; take --device cpu"):
        devices.parse_device("mps")
    with pytest.raises(UserError, match="--device xpu: Intel's GPUs"):
        devices.parse_device("xpu")
    with pytest.raises(UserError, match="--device gpu: it is auto, cpu or cuda"):
        devices.parse_device("gpu")
    assert devices.unused_accelerator() == ""
    monkeypatch.setattr(devices.sys, "platform", "darwin")
    monkeypatch.setattr(devices.platform, "machine", lambda: "arm64")
    assert devices.unused_accelerator().startswith("on the CPU: the GPU of a Mac (MPS) is not")


def test_on_a_cpu_ranks_and_threads_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert devices.demand("auto", 2, threads=1) == 4
    assert devices.demand("cpu", 2, threads=2) == 2
    assert devices.demand("cpu", 4, threads=4) == 1  # crowded, but somebody wants it
    with pytest.raises(UserError, match="--devices 9: there are 8 CPU cores here"):
        devices.demand("auto", 9, threads=1)
    with pytest.raises(UserError, match="no GPU is visible here"):
        devices.demand("cuda", 1, threads=1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    with pytest.raises(UserError, match="--devices 2: there is 1 CPU core here"):
        devices.demand("auto", 2, threads=1)


def test_slots_of_several_gpus_do_not_overlap() -> None:
    eight = [f"GPU-{i}" for i in range(8)]
    assert [devices.share(eight, 4, slot) for slot in range(2)] == [
        ("GPU-0", "GPU-1", "GPU-2", "GPU-3"),
        ("GPU-4", "GPU-5", "GPU-6", "GPU-7"),
    ]
    assert [devices.share(eight, 1, slot) for slot in range(8)] == [(gpu,) for gpu in eight]
    # Three do not divide eight: two are left over. More slots than room share.
    assert devices.share(eight, 3, 2) == devices.share(eight, 3, 0)


@pytest.mark.parametrize(
    ("device", "variable", "kind"), [("cpu", "CXX", "C\\+\\+"), ("cuda", "CC", "C")]
)
def test_a_missing_compiler_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Any, variable: str, kind: str
) -> None:
    monkeypatch.setenv(variable, "no-such-compiler")
    with pytest.raises(UserError, match=f"no {kind} compiler no-such-compiler on this host"):
        devices.demand_compiler(device)
    (tmp_path / "cc").write_text("")
    (tmp_path / "cc").chmod(0o755)
    monkeypatch.setenv(variable, str(tmp_path / "cc"))
    monkeypatch.setattr(devices.sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(UserError, match="Python's C headers are not on this host"):
        devices.demand_compiler(device)
