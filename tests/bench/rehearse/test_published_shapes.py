"""ViT-B/16, Mixer-B/16 and BiT at their published shapes train and test on images of 224 pixels.

On the CPU, two steps each, on CIFAR-10 and Pets; without the data at hand with made-up images.
"""

import json
from pathlib import Path

import pytest

from tests.commands import bench

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
    done = bench(*words, cwd=tmp_path, timeout_s=1500)
    rows = json.loads(done.stdout)
    assert {(row["entry"], row["dataset"]) for row in rows} == {
        (entry, dataset)
        for entry in ("ViT-B/16", "Mixer-B/16", "BiT-R50x1")
        for dataset in ("cifar10", "pets")
    }
    assert {(row["status"], row["on"]) for row in rows} == {("ok", "cpu")}, done.stdout
    assert done.returncode == 0
