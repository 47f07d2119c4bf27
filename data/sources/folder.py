"""Any folder of images: `CLASS/…`, `SPLIT/CLASS/…`, or tar files as WebDataset makes them."""

from pathlib import Path

from lightning_bench.data.dataset import DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.data.sources import locations
from lightning_bench.data.sources.readers import FolderReader, Reader, TarReader, is_image

#: Names of splits, and what they are called here.
SPLITS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
}


def describe(path: str) -> DataSet:
    """The entry of a folder, with the classes that it has; looks at names, opens no image."""
    readers = splits(path)
    train = readers["train"]
    carved = [split for split in ("test", "val") if split not in readers]
    sizes: dict[str, int] = {}
    labels: tuple[str, ...] = ()
    if isinstance(train, FolderReader):
        labels = train.classes
        classes = len(labels)
        sizes = carved_sizes({split: len(reader.files) for split, reader in readers.items()})
    else:
        counted = {split: reader.labels("cls") for split, reader in readers.items()}
        classes = int(counted["train"].max()) + 1
        found = {split: len(labels) for split, labels in counted.items()}
        sizes = carved_sizes(found)
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
        splits=sizes,
        policy=f"the folder's own splits{how}; more than 8 bits a pixel are scaled to 8",
        source=path,
        columns=("image",),
        label="cls",
        carves=tuple(carved),
        licence="yours to know",
        citation="",
    )


def carved_sizes(found: dict[str, int]) -> dict[str, int]:
    """The sizes of all splits: a tenth of train for each that there isn't."""
    sizes = dict.fromkeys(("train", "val", "test"), found["train"] // 10) | found
    sizes["train"] -= sum(sizes[split] for split in sizes.keys() - found.keys())
    return sizes


def splits(path: str) -> dict[str, Reader]:
    """A reader of each of a folder's splits."""
    root = place(path)
    if not root.is_dir():
        raise DataError(f"there is no folder {root}")
    inside = {p.name.lower(): p for p in sorted(root.iterdir()) if p.is_dir()}
    folders = {SPLITS[name]: p for name, p in inside.items() if name in SPLITS}
    if "train" not in folders:
        folders = {"train": root}
    classes = _classes(folders["train"])
    return {split: _split(f"folder:{path}/{split}", p, classes) for split, p in folders.items()}


def place(path: str) -> Path:
    """Where a path leads: a relative one from the page's folder, if it is there.

    Else it starts at the data mirror, and without one at the working directory.
    """
    relative = Path(path).expanduser()
    beside = locations.page_folder()
    if beside is not None and (beside / relative).exists():
        return beside / relative
    return (locations.data_mirror() or Path()) / relative


def _classes(root: Path) -> tuple[str, ...]:
    return tuple(sorted(path.name for path in root.iterdir() if path.is_dir()))


def _split(where: str, root: Path, classes: tuple[str, ...]) -> Reader:
    shards = sorted(root.glob("*.tar"))
    if shards:
        return TarReader(where, shards)
    strangers = sorted(set(_classes(root)) - set(classes))
    if strangers:
        raise DataError(f"{where}: the class {strangers[0]!r} is not one of train's")
    files = [path for name in classes for path in sorted((root / name).iterdir()) if is_image(path)]
    if not files:
        raise DataError(f"{where} is empty: no images in folders, and no tar files")
    return FolderReader(where, files, classes)
