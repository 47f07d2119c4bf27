"""Any folder of images: `CLASS/…`, `SPLIT/CLASS/…`, or tar files as WebDataset makes them."""

from pathlib import Path

from lightning_bench.data.catalogue.dataset import DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.data.sources import locations
from lightning_bench.data.sources.readers import Folders, Rows, Shards, is_image

_SPLITS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
}


def describe(path: str) -> DataSet:
    """The entry of a folder, with the classes that it has; looks at names, opens no image."""
    found = rows(path)
    train = found["train"]
    carved = [split for split in ("test", "val") if split not in found]
    splits: dict[str, int] = {}
    labels: tuple[str, ...] = ()
    if isinstance(train, Folders):
        labels = train.classes
        classes = len(labels)
        counts = {split: len(source.files) for split, source in found.items()}
        counts |= dict.fromkeys(carved, counts["train"] // 10)
        counts["train"] -= sum(counts[split] for split in carved)
        splits = {split: counts[split] for split in ("train", "val", "test")}
    else:
        classes = int(train.labels("cls").max()) + 1
    how = f"; a tenth of train each for {' and '.join(carved)}, by class, seed 0" if carved else ""
    return DataSet(
        name=f"folder:{path}",
        title=f"The images in {path}",
        kind="image",
        classes=classes,
        labels=labels,
        channels=3,
        image_size=64,
        metrics=("accuracy",),
        splits=splits,
        policy=f"the folder's own splits{how}",
        source=path,
        columns=("image",),
        label="cls",
        licence="yours to know",
        citation="",
    )


def rows(path: str) -> dict[str, Rows]:
    """The splits of a folder."""
    root = place(path)
    if not root.is_dir():
        raise DataError(f"there is no folder {root}")
    inside = {p.name.lower(): p for p in sorted(root.iterdir()) if p.is_dir()}
    splits = {_SPLITS[name]: p for name, p in inside.items() if name in _SPLITS}
    if "train" not in splits:
        splits = {"train": root}
    classes = _classes(splits["train"])
    return {split: _split(f"folder:{path}/{split}", p, classes) for split, p in splits.items()}


def place(path: str) -> Path:
    """Where a path leads: relative ones start at the data mirror, else at the working directory."""
    return (locations.data_mirror() or Path()) / Path(path).expanduser()


def _classes(root: Path) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in root.iterdir() if path.is_dir()))


def _split(where: str, root: Path, classes: tuple[str, ...]) -> Rows:
    shards = sorted(root.glob("*.tar"))
    if shards:
        return Shards(where, shards)
    strangers = sorted(set(_classes(root)) - set(classes))
    if strangers:
        raise DataError(f"{where}: the class {strangers[0]!r} is not one of train's")
    files = [path for name in classes for path in sorted((root / name).iterdir()) if is_image(path)]
    if not files:
        raise DataError(f"{where} is empty: no images in folders, and no tar files")
    return Folders(where, files, classes)
