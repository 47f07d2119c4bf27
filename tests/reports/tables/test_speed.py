"""A session's tables: what may be compared stands together, what went wrong is seen."""

import numpy as np
import pytest

from lightning_bench.bench.measure.contenders import asked, contenders
from lightning_bench.bench.store.measurements import (
    Block,
    Contender,
    Counts,
    Machine,
    Measurement,
    MeasurementFailure,
    Memory,
    Session,
    Setting,
    WarmUp,
)
from lightning_bench.bench.study.load import load
from lightning_bench.reports.build import build
from lightning_bench.reports.figures import draw_speed, drawing_process, figure_data
from lightning_bench.reports.render import markdown, terminal
from lightning_bench.reports.tables import failed_attempts, scaling, speed
from tests.factory import PROVENANCE


def counts(flops: int = 1000, tokens: int | None = None) -> Counts:
    return Counts(
        parameters=10,
        parameters_untied=12,
        trainable=10,
        embedding=2,
        flops=flops,
        flops_train=3 * flops,
        activations=5,
        tokens=tokens,
    )


def measurement(label: str, step_s: float = 0.1, spread: float = 0.01, **changes) -> Measurement:
    rng = np.random.default_rng(len(label))
    setting = {"mode": "infer", "batch_size": 4} | changes.pop("setting", {})
    times = step_s * (1 + spread * rng.normal(size=30))
    values = {
        "contender": Contender(label=label, model=label, **changes.pop("contender", {})),
        "setting": Setting(**setting),
        "unit": "images",
        "counts": counts(),
        "warm_up": WarmUp(steps=10, seconds=3, settled=True),
        "memory": Memory(peak_bytes=600_000_000, idle_bytes=500_000_000),
        "blocks": [
            Block(round=i, steps=1, wall_s=t, others_cores=0.01)
            for i, t in enumerate(times.tolist())
        ],
        "latency_s": [0.02] * 120,
    }
    return Measurement(**(values | changes))


def session(*found: Measurement, **changes) -> Session:
    values = {
        "id": "20260101-000000-0000",
        "key": "k",
        "quick": False,
        "rounds": 30,
        "started": "2026-01-01T00:00:00Z",
        "ended": "2026-01-01T00:01:00Z",
        "before": Machine(usable_cores=2, load_1min=0.1, governor="performance"),
        "after": Machine(usable_cores=2),
        "measurements": found,
        "provenance": PROVENANCE.model_copy(update={"environment": "e" * 16, "sources": {}}),
    }
    return Session(**(values | changes))


def cells(table, label):
    row = next(row for row in table.rows if row.label == label)
    return dict(zip([column.id for column in table.columns], row.cells, strict=True))


def test_the_fastest_is_bold_and_ratios_are_paired():
    table = speed.speeds(session(measurement("fast"), measurement("slow!", 0.2)))[0]
    fast, slow = cells(table, "fast"), cells(table, "slow!")
    assert fast["throughput"].best
    assert not slow["throughput"].best
    assert fast["throughput"].value == pytest.approx(40, rel=0.02)
    assert slow["ratio"].low < 2 < slow["ratio"].high
    assert fast["own"].value == 100_000_000
    assert fast["p99"].value == 0.02


def test_an_unlike_setting_or_unit_has_a_table_of_its_own():
    unlike = [
        measurement("mode", setting={"mode": "train"}),
        measurement("batch", setting={"batch_size": 8}),
        measurement("precision", setting={"precision": "bf16"}),
        measurement("compiled", setting={"compile": True}),
        measurement("devices", setting={"devices": 2}),
        measurement("tokens", unit="tokens", per_example=128),
    ]
    tables = speed.speeds(session(measurement("plain"), *unlike))
    assert [[row.label for row in table.rows] for table in tables] == [
        ["plain"],
        *([m.contender.label] for m in unlike),
    ]
    assert len({table.title + table.columns[0].unit for table in tables}) == 7
    assert not any(cell.best for table in tables for row in table.rows for cell in row.cells)


def test_what_failed_or_is_noisy_is_seen():
    failed = measurement(
        "big", blocks=[], failure=MeasurementFailure(kind="out-of-memory", message="no 64 GB")
    )
    restless = WarmUp(steps=9, seconds=60, settled=False)
    noisy = measurement("noisy", spread=0.12, warm_up=restless)
    table = speed.speeds(
        session(measurement("a"), failed, noisy, measurement("worse", spread=0.5))
    )[0]
    assert cells(table, "big")["throughput"].state == "out of memory"
    notes = {note.mark: note.text for note in table.notes}
    said = {row.label: " / ".join(notes[mark] for mark in row.cells[0].notes) for row in table.rows}
    assert said["a"] == ""
    assert "no 64 GB" in said["big"]
    assert "over 10 %" in said["noisy"]
    assert "warm-up ended" in said["noisy"]
    assert "not ranked" in said["worse"]
    assert "governor performance" in " ".join(notes.values())


def test_all_renderers_take_the_tables(capsys):
    found = speed.tables(session(measurement("a"), measurement("<b>|*", 0.2)))
    text = markdown.tables(found)
    assert "\\<b\\>\\|\\*" in text
    assert all(line.count(" | ") > 5 for line in text.splitlines() if line.startswith("| a"))
    from rich.console import Console

    Console(width=80).print(terminal.tables(found, ["a sentence"]))
    assert all(len(line) <= 80 for line in capsys.readouterr().out.splitlines())


def growing(family: str, power: float, flops) -> list[Measurement]:
    sizes = (64, 128, 256, 512)
    return [
        measurement(
            f"{family}, image_size {size}",
            step_s=1e-6 * ((size // 16) ** 2) ** power,
            counts=counts(flops((size // 16) ** 2), (size // 16) ** 2),
            contender={"args": {"image_size": size}, "family": family},
        ).model_copy(
            update={
                "contender": Contender(
                    label=f"{family}, image_size {size}",
                    model=family,
                    family=family,
                    args={"image_size": size},
                )
            }
        )
        for size in sizes
    ]


def test_exponents_stand_beside_what_is_claimed():
    found = [
        *growing("mixer", 1.0, lambda s: 7 * s + 5),
        *growing("gmlp", 2.0, lambda s: s * s + 9 * s),
    ]
    varied = session(*found, varied="image_size")
    table = scaling.table(varied)
    assert [(row.label, row.cells[3].value) for row in table.rows] == [
        ("mixer", 1),
        ("gmlp", 2),
        ("mixer", 2),
        ("gmlp", 4),
    ]
    assert "mixer: degree 1 in S" in table.notes[1].text
    assert "gmlp: degree 2 in S" in table.notes[1].text
    sentences = scaling.findings(varied)
    assert len(sentences) == 4
    assert all("holds the claimed" in sentence for sentence in sentences)
    files = dict(draw_speed.scalings(varied, ("svg", "png")))
    assert set(files) == {
        f"cost-{axis}-infer.{kind}" for axis in ("S", "image-size") for kind in ("svg", "png")
    }
    assert files["cost-S-infer.png"].startswith(b"\x89PNG")


def test_the_pareto_front_holds_what_none_beats_in_both():
    points = [(1.0, 0.9), (2.0, 0.8), (3.0, 0.85), (4.0, 0.5), (0.5, 0.9)]
    assert draw_speed.front(points) == [(4.0, 0.5), (3.0, 0.85), (1.0, 0.9)]
    losses = [(1.0, 0.1), (2.0, 0.2), (3.0, 0.15)]
    assert draw_speed.front(losses, sign=-1) == [(3.0, 0.15), (1.0, 0.1)]


PAGE = """\
title: t
question: q
data: [digits, polarity, entailment]
entries:
  A: {model: mlp, args: {width: 16}}
  B: {model: lenet}
  C: {model: bag, args: {width: 16}}
measure: {mode: [infer], batch_size: 8}
seeds: 2
scales:
  smoke: {}
"""


def test_a_page_asks_for_each_model_on_each_of_its_inputs(page):
    study = load(page(PAGE))
    found = contenders(study.runs())
    assert {place: each.label for place, each in found.items()} == {
        ("A", "digits"): "A",
        ("B", "digits"): "B",
        ("C", "polarity"): "C, polarity",
        ("C", "entailment"): "C, entailment",
    }
    assert found["A", "digits"].args["image_size"] == 8
    alone = study.measure.model_copy(update={"data": ["entailment"]})
    assert [c.label for c, _ in asked(study.runs(), alone, "cpu")] == ["C"]
    settings = {setting for _, setting in asked(study.runs(), study.measure, "cpu")}
    assert settings == {Setting(mode="infer", batch_size=8)}


def test_a_study_shows_speeds_and_accuracy_against_throughput(make):
    request, runs = make.study({"mlp": [0.9, 0.91], "lenet": [0.95, 0.96]})
    request = request.model_copy(
        update={
            "measured": session(measurement("mlp"), measurement("lenet", 0.2)),
            "contenders": {"digits": {"mlp": "mlp", "lenet": "lenet"}},
        }
    )
    report = build(request, runs)
    assert {"counts", "speed"} <= {table.id for table in report.tables}
    figure = next(figure for figure in report.figures if figure.kind == "throughput")
    assert figure.speeds["mlp"][1] == pytest.approx(40, rel=0.02)
    drawn = dict(drawing_process.files(figure_data.of_report(report), runs, ["svg"]))[
        f"{figure.name}.svg"
    ].decode()
    assert "Pareto front" in drawn
    assert "images/s/core" in drawn


def test_of_many_entries_the_best_are_told_apart_beside_their_speeds_too(make, canvases):
    names = [f"m{n:02}" for n in range(14)]
    request, runs = make.study({name: [n / 14, n / 14] for n, name in enumerate(names)})
    request = request.model_copy(
        update={
            "measured": session(*(measurement(name, 1 + n / 10) for n, name in enumerate(names))),
            "contenders": {"digits": {name: name for name in names}},
        }
    )
    report = build(request, runs)
    list(drawing_process.files(figure_data.of_report(report), runs, ["svg"]))
    kinds = [figure.kind for figure in report.figures]
    canvas = canvases[kinds.index("throughput")]
    shown = [text.get_text() for text in canvas.legends[0].get_texts()]
    assert shown == [*names[2:], "2 others", "Pareto front"]


def test_core_days_are_of_all_attempts_and_trials(make):
    run = make.run("mlp", "digits", 0, 0.9)
    record = run.record
    threads = record.provenance.model_copy(update={"threads": 4})
    run = run.model_copy(update={"record": record.model_copy(update={"provenance": threads})})
    alone = failed_attempts.core_days([run])
    assert alone == pytest.approx(4 * record.cost.device_h / 24)
    earlier = {"number": 1, "end": "failed", "cause": "c", "log": "l", "device_h": 6.0}
    again = run.model_validate(run.model_dump() | {"earlier": [earlier]})
    assert failed_attempts.core_days([again]) == pytest.approx(alone + 1)
    assert failed_attempts.core_days([run], trials_device_h=12) == pytest.approx(alone + 2)


def test_a_gpus_clock_neighbours_and_missing_meter_stand_under_the_table():
    blocks = [
        Block(round=i, steps=1, wall_s=0.2, device_s=0.1, clock_mhz=1980 - i) for i in range(30)
    ]
    throttled = {"throttled": ["power cap"], "foreign_processes": 2}
    blocks[7] = blocks[7].model_copy(update=throttled)
    memory = Memory(peak_bytes=600_000_000, reserved_bytes=700_000_000)
    gpu = {"setting": {"device": "cuda"}, "memory": memory}
    found = measurement("a", **gpu, blocks=blocks)
    table = speed.speeds(session(found))[0]
    notes = [note.text for note in table.notes]
    assert "2 processes of others used the GPU." in notes
    assert "GPU clock at the end of each block: 1951–1980 MHz." in notes
    assert "The GPU's clock was held down in 1 of 30 blocks: power cap." in notes
    assert any(note.startswith("No energy") for note in notes)
    titles = {column.id: column.title for column in table.columns}
    assert titles["memory"] == "Tensors' memory"
    # On a CPU it is the memory of a process, and no meter is missed.
    on_cpu = speed.speeds(session(measurement("a")))[0]
    assert {column.id: column.title for column in on_cpu.columns}["memory"] == "Process memory"
    assert not any("GPU" in note.text for note in on_cpu.notes)


def test_energy_is_that_of_all_devices_over_the_examples_of_all():
    blocks = [Block(round=i, steps=2, wall_s=0.1, energy_j=80.0) for i in range(30)]
    found = measurement("a", setting={"devices": 2}, blocks=blocks, energy_source="NVML")
    table = speed.speeds(session(found))[0]
    # 2 steps of 4 examples on each of 2 devices
    assert cells(table, "a")["energy"].value == pytest.approx(5.0)
