"""DataSet: what is known of a data set before it is loaded, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Task = Literal["classify", "multilabel", "regress", "masked-lm", "pretrain"]

#: Which of the splits that are carved out of the training examples go by the run's seed: none, all,
#: or the validation split alone.
SplitBy = Literal["fixed", "seed", "validation"]

#: Tasks that fill in masked words.
MASKED = {"masked-lm", "pretrain"}

#: Whether more of a metric is better. Metrics of a second test split end in its name.
HIGHER_IS_BETTER: Mapping[str, bool] = {
    "accuracy": True,
    "accuracy_mismatched": True,
    "accuracy_real": True,
    "f1": True,
    "f1_mismatched": True,
    "matthews": True,
    "pearson": True,
    "spearman": True,
    "masked_accuracy": True,
    "nsp_accuracy": True,
    "perplexity": False,
    "loss": False,
    "loss_mismatched": False,
}

#: More bytes than this are not decoded and kept, but decoded as they are read.
IN_MEMORY_BYTES = 8 * 2**30


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Plain facts. `files` are patterns in the repository, by split: train, val, test, more tests.

    Where `files` has no val (or test), it is carved out of train as `splits` says. `splits`
    counts rows; it is empty where nobody can know (folders, the interpreter's own documents).
    """

    name: str
    title: str
    kind: Literal["image", "text", "table"]
    metrics: tuple[str, ...]  # the first one ranks
    splits: Mapping[str, int]
    policy: str
    source: str
    licence: str
    citation: str
    task: Task = "classify"
    classes: int = 0
    labels: tuple[str, ...] = ()
    repository: str | None = None
    revision: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()  # what the model reads, in order
    label: str = "label"
    carves: tuple[str, ...] | None = None  # splits made of train, where no `files` tell
    drawn: bool = False  # train and val are drawn from a larger train, the rest is left
    download_bytes: int = 0
    # images
    channels: int = 0
    image_size: int = 0
    mean: tuple[float, ...] = ()  # otherwise measured on the training split
    std: tuple[float, ...] = ()
    crop: float = 1.0  # the part of the shorter side that evaluation sees
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"
    relabelled: str | None = None  # repository and file of other labels for the test, or for `real`
    # text
    tokenizer: str = ""
    vocab_size: int = 0
    length: int = 0
    train_tokens: int = 0  # of the training split, about: for estimates of time alone
    # tables of one's own, and of the hub
    label_columns: tuple[str, ...] = ()  # one, or several labels or numbers of each example
    split_column: str = ""  # which says of each row the split that it is of
    features: tuple[str, ...] = ()  # numbers that a row is: columns, and words of columns
    # data of the user's own code
    user_code: bool = False  # `source` names the callable that gives them
    user_arguments: str = ""  # what it is called with, as JSON
    user_draws: bool = False  # its training examples are others each epoch
    # what a run asks for
    split: SplitBy = "fixed"  # what the run's seed draws of `carved`
    shots: int | None = None  # training examples a class, drawn by the run's seed
    shifts: int = 0  # further tests on images moved right by 1 to so many pixels

    @property
    def module(self) -> str:
        """The module of the data module that loads it; its `make` makes one."""
        if self.user_code:
            return "lightning_bench.data.modules.user_data_module"
        if self.kind == "image":
            return (
                "lightning_bench.data.modules.streamed_images"
                if self.streamed
                else "lightning_bench.data.modules.image_data"
            )
        if self.kind == "table":
            return "lightning_bench.data.modules.table_data"
        raw = self.task in MASKED or self.name.endswith("-nsp")
        return (
            "lightning_bench.data.modules.corpus"
            if raw
            else "lightning_bench.data.modules.text_data"
        )

    @property
    def carved(self) -> tuple[str, ...]:
        """The splits that are no official ones, but carved out of the training examples."""
        if self.carves is not None:
            return self.carves
        return tuple(split for split in ("test", "val") if self.files and split not in self.files)

    @property
    def drawn_by_seed(self) -> tuple[str, ...]:
        """The splits that the run's seed draws; what is left is the training split."""
        if self.split == "fixed":
            return ()
        return (*(self.carved if self.split == "seed" else ("val",)), "train")

    def carving_seed(self, split: str, seed: int) -> int:
        """The seed that a split is carved with: the run's where it is to draw it, else 0."""
        return seed if split in self.drawn_by_seed else 0

    @property
    def tests(self) -> tuple[str, ...]:
        """The test splits; the metrics of the first carry no suffix."""
        found = tuple(split for split in self.splits if split not in {"train", "val"}) or ("test",)
        return (*found, *(f"shift{pixels}" for pixels in range(1, self.shifts + 1)))

    @property
    def reported(self) -> tuple[str, ...]:
        """The metrics that tables show: the test's, the first of other labels and of shifts."""
        shifted = (f"{self.metrics[0]}_shift{pixels}" for pixels in range(1, self.shifts + 1))
        real = (f"{self.metrics[0]}_real",) if self.relabelled_split == "real" else ()
        return (*self.metrics, *real, *shifted)

    @property
    def of_training(self) -> tuple[str, ...]:
        """The metrics on training examples, which every record has of what was trained."""
        return tuple(f"{metric}_train" for metric in (*self.metrics, "loss"))

    @property
    def relabelled_split(self) -> str:
        """The test split with other labels: `real`, of the test's images, or the test itself."""
        return ("real" if "real" in self.splits else "test") if self.relabelled else ""

    def serves(self, split: str, stage: str | None) -> bool:
        """Whether a stage sees a split: "fit" sees no test split, None sees all."""
        return stage != "fit" or split in {"train", "val"}

    def made_of(self, split: str) -> tuple[str, int]:
        """The split whose examples these are, and by how many pixels they are moved right."""
        if self.shifts and split.startswith("shift"):
            return self.tests[0], int(split.removeprefix("shift"))
        return ("test" if split == self.relabelled_split else split), 0

    @property
    def streamed(self) -> bool:
        """Whether its images are too large together to be kept decoded."""
        if self.user_code:
            return False
        pixels = self.channels * self.image_size**2
        return sum(self.splits.values()) * pixels > IN_MEMORY_BYTES

    def facts(self) -> dict[str, int]:
        """The model arguments that the data set decides."""
        if self.kind != "text":
            # A row of F numbers is to models F channels of one pixel.
            return {
                "channels": self.channels,
                "image_size": self.image_size,
                "classes": self.classes,
            }
        return {"vocab_size": self.vocab_size, "length": self.length, "classes": self.classes}

    def what_counts(self) -> dict[str, Any]:
        """The facts that can change a result, for telling stale runs."""
        prose = {"title", "policy", "source", "licence", "citation", "carves"}
        sizes = {"download_bytes", "train_tokens"}
        asked = {"split", "shots", "shifts"}  # told by the run's key
        counted = self.__dataclass_fields__.keys() - prose - sizes - asked
        # Younger than the runs and caches that know the others.
        plain: dict[str, Any] = {"crop": 1.0, "interpolation": "bicubic"}
        plain |= {"label_columns": (), "split_column": "", "features": ()}
        plain |= {"user_code": False, "user_arguments": "", "user_draws": False}
        counted -= {name for name, value in plain.items() if getattr(self, name) == value}
        return {name: getattr(self, name) for name in counted}
