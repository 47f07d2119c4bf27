"""What `bench plan` says of time, memory, disk, energy and money, by a machine's name."""

import json
from pathlib import Path

import pytest

from lightning_bench.bench.cli.app import run
from lightning_bench.bench.execute import devices
from lightning_bench.bench.execute.devices import Card, Found
from tests.factory import study_page

PAGE = study_page(
    entries={"A": {"model": "mlp"}, "ViT": {"model": "vit-b16"}},
    data=[{"name": "cifar10", "image_size": 224}],
    recipe={"epochs": 1000, "batch_size": 4096, "precision": "bf16"},
    seeds=2,
)


@pytest.fixture(autouse=True)
def _page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "page.yaml").write_text(PAGE)


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert run(["plan", "page.yaml", *options]) == 0
    return capsys.readouterr().out


def test_a_plan_for_other_machines_tells_time_energy_money_memory_and_disk(capsys) -> None:
    told = printed(capsys, "--on", "a100:2", "--price", "2.5")
    assert "for 4 runs on 2 × a100; by their models' FLOPs" in told
    assert "kWh, at 400 W a device" in told
    assert "at 2.5 a device-hour" in told
    assert "memory: at most about" in told
    assert "(ViT on cifar10)" in told
    assert "does not fit: ViT on cifar10 needs about" in told
    assert "disk: " in told
    assert "of data to fetch" in told


def test_twice_the_share_of_the_peak_is_half_the_time(capsys) -> None:
    def seconds(*options: str) -> dict[str, float]:
        rows = json.loads(printed(capsys, "--on", "h100:8", *options, "--format", "json"))
        assert {row["basis"] for row in rows} == {"counted"}
        return {row["entry"]: row["expected_s"] for row in rows}

    plain, better = seconds("--mfu", "0.2"), seconds("--mfu", "0.4")
    assert plain["ViT"] / better["ViT"] == pytest.approx(2, rel=0.05)


def test_a_plan_for_this_host_knows_its_memory_too(capsys) -> None:
    told = printed(capsys, "--set", "recipe.precision=fp32")
    assert "this host" in told
    assert "memory: at most about" in told
    assert "kWh" not in told
    rows = json.loads(printed(capsys, "--format", "json", "--set", "recipe.precision=fp32"))
    assert all(
        row["memory_bytes"] > 1e9 and row["flops"] > 1e15 for row in rows if row["entry"] == "ViT"
    )


def test_without_a_name_it_is_for_the_gpus_here_by_their_sheet(capsys, monkeypatch) -> None:
    def have(*names: str) -> None:
        cards = tuple(Card(str(i), name) for i, name in enumerate(names))
        monkeypatch.setattr(devices, "find", lambda **_: Found(cards))

    have("NVIDIA A10", "NVIDIA A10")
    assert " on 2 × a10, " in printed(capsys)
    have("Tesla K80")
    assert "no sheet of its GPU is known: name a like one (--on)" in printed(capsys)
    told = printed(capsys, "--device", "cpu", "--set", "recipe.precision=fp32")
    assert "this host" in told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--on", "a10O"], "unknown machine"),
        (["--mfu", "1.5"], "--mfu is a share"),
        (["--on", "v100"], "v100 does not compute in bf16"),
        (["--price", "-1"], "--price"),
    ],
)
def test_mistakes_are_one_line(capsys, options: list[str], told: str) -> None:
    assert run(["plan", "page.yaml", *options]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1
