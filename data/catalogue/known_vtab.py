"""The 19 tasks of VTAB-1k (Zhai et al., 2019), in the benchmark's own three groups and order.

The benchmark trains on the first 800 and validates on the first 200 examples of splits in the
order of TensorFlow Datasets. The hub's copies keep that order only by chance, so the 1,000 are
drawn here, by class and with seed 0: the same on every machine, but not the official ones.
"""

from lightning_bench.data.dataset import DataSet

#: Commits of the hub's repositories, where public documents name them; `bench prepare` pins the
#: others on the day that it fetches them.
_REVISIONS = {
    "clip-benchmark/wds_vtab-pcam": "502695fe1a141108650e3c5b91c8b5e0ff84ed49",
    "clip-benchmark/wds_vtab-clevr_count_all": "8b5dce4d5393a04fb58b9261b22a881b02e379b1",
    "clip-benchmark/wds_vtab-clevr_closest_object_distance": (
        "ec9c04224a95836ca0344a6000ec8d8bc8a6d4f2"
    ),
    "dpdl-benchmark/sun397": "7e6af6a2499ad708618be868e1471eac0aca1168",
}

#: Group, task, title, hub name, classes, examples of the test split.
_TASKS = (
    ("natural", "caltech101", "Caltech-101", "caltech101", 102, 6_085),
    ("natural", "cifar100", "CIFAR-100", "cifar100", 100, 10_000),
    ("natural", "dtd", "Describable Textures", "dtd", 47, 1_880),
    ("natural", "flowers102", "Flowers-102", "flowers", 102, 6_149),
    ("natural", "pets", "Oxford-IIIT Pets", "pets", 37, 3_669),
    ("natural", "sun397", "SUN397", "sun397", 397, 21_750),
    ("natural", "svhn", "SVHN", "svhn", 10, 26_032),
    ("specialized", "camelyon", "Patch Camelyon", "pcam", 2, 32_768),
    ("specialized", "eurosat", "EuroSAT", "eurosat", 10, 5_400),
    ("specialized", "resisc45", "Resisc45", "resisc45", 45, 6_300),
    (
        "specialized",
        "retinopathy",
        "Diabetic Retinopathy",
        "diabetic_retinopathy",
        5,
        42_670,
    ),
    ("structured", "clevr-count", "Clevr, count", "clevr_count_all", 8, 15_000),
    (
        "structured",
        "clevr-distance",
        "Clevr, distance",
        "clevr_closest_object_distance",
        6,
        15_000,
    ),
    ("structured", "dmlab", "DMLab", "dmlab", 6, 22_735),
    ("structured", "kitti", "KITTI, distance", "kitti_closest_vehicle_distance", 4, 711),
    (
        "structured",
        "dsprites-location",
        "dSprites, x position",
        "dsprites_label_x_position",
        16,
        73_728,
    ),
    (
        "structured",
        "dsprites-orientation",
        "dSprites, orientation",
        "dsprites_label_orientation",
        16,
        73_728,
    ),
    (
        "structured",
        "smallnorb-azimuth",
        "SmallNORB, azimuth",
        "smallnorb_label_azimuth",
        18,
        12_150,
    ),
    (
        "structured",
        "smallnorb-elevation",
        "SmallNORB, elevation",
        "smallnorb_label_elevation",
        9,
        12_150,
    ),
)


def _task(group: str, task: str, title: str, hub: str, classes: int, test: int) -> DataSet:
    # The collection of the other 18 has no training split of SUN397.
    parquet = hub == "sun397"
    repository = "dpdl-benchmark/sun397" if parquet else f"clip-benchmark/wds_vtab-{hub}"
    pattern = "data/{}-*.parquet" if parquet else "{}/*.tar"
    return DataSet(
        name=f"vtab-{task}",
        title=f"VTAB-1k ({group}): {title}",
        kind="image",
        classes=classes,
        channels=3,
        image_size=64,
        metrics=("accuracy",),
        splits={"train": 800, "val": 200, "test": test},
        policy="800 of train to train on and 200 to validate, drawn by class with seed 0 (not the "
        "official 1,000, which the hub's copy doesn't tell); all of the official test",
        source="hub",
        repository=repository,
        revision=_REVISIONS.get(repository),
        files={split: pattern.format(split) for split in ("train", "test")},
        columns=("image" if parquet else "webp",),
        label="label" if parquet else "cls",
        drawn=True,
        licence="that of the original data set",
        citation="Zhai et al., 2019, arXiv:1910.04867",
    )


DATA_SETS = tuple(_task(*facts) for facts in _TASKS)
