"""ViT-B/16, Mixer-B/16 and BiT at their published shapes train and test on images of 224 pixels.

On the CPU, two steps each, on CIFAR-10 and Pets: real ones where the mirror is at hand.
"""

import json
from pathlib import Path

import pytest

from tests.commands import bench
from tests.mirror import DATA

pytestmark = pytest.mark.slow

PAGE = """title: Published shapes
question: Do they train and test?
data: [{name: cifar10, image_size: 224}, {name: pets, image_size: 224}]
entries:
  ViT-B/16: {model: vit-b16}
  Mixer-B/16: {model: mixer-b16}
  BiT-R50x1: {model: timm/resnetv2_50x1_bit}
recipe: {epochs: 1, batch_size: 2, optimizer: sgd, lr: 3e-3, clip_norm: 1.0, flip: true}
seeds: 1
scales: {full: {}}
"""


def test_published_shapes_train_and_test_on_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "shapes.yaml").write_text(PAGE)
    words = ("rehearse", "shapes.yaml", "--on", "cpu", "--jobs", "1", "--format", "json")
    mirror = {"BENCH_DATA": None if DATA is None else str(DATA), "HF_HUB_OFFLINE": "1"}
    done = bench(*words, cwd=tmp_path, env=mirror, timeout_s=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(done.stdout)
    found = {(row["entry"], row["dataset"]): (row["status"], row["on"]) for row in rows}
    assert found == {
        (entry, dataset): ("ok", "cpu")
        for entry in ("ViT-B/16", "Mixer-B/16", "BiT-R50x1")
        for dataset in ("cifar10", "pets")
    }
    assert {row["real"] for row in rows} == ({"data"} if DATA is not None else {""})
