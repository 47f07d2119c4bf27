"""The 19 tasks of VTAB-1k (Zhai et al., 2019), in the benchmark's own three groups and order."""

from data.dataset import DataSet

#: Group, task, title, hub name, classes, examples of the test split.
_TASKS = (
    ("natural", "caltech101", "Caltech-101", "caltech101", 102, 6_084),
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

DATA_SETS = tuple(
    DataSet(
        name=f"vtab-{task}",
        title=f"VTAB-1k ({group}): {title}",
        kind="image",
        classes=classes,
        channels=3,
        image_size=64,
        metrics=("accuracy",),
        splits={"train": 800, "val": 200, "test": test},
        policy="1,000 of train drawn with seed 0, 800 to train on and 200 to validate; all of test "
        "(the paper takes its 1,000 in the order of TFDS, which the hub's copy doesn't keep)",
        source="hub",
        repository=f"clip-benchmark/wds_vtab-{hub}"
        if hub != "sun397"
        else "clip-benchmark/wds_sun397",
        files={"train": "train/*.tar", "test": "test/*.tar"},
        columns=("image",),
        label="cls",
        drawn=True,
        licence="that of the original data set",
        citation="Zhai et al., 2019, arXiv:1910.04867",
    )
    for group, task, title, hub, classes, test in _TASKS
)
