"""Sources of randomness of a run: what its seed decides, by its spec; pure, and without torch."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lightning_bench.bench.spec import RunSpec, Source
from lightning_bench.data.dataset import MASKED, DataSet
from lightning_bench.models.registry import catalogue as model_catalogue

if TYPE_CHECKING:
    from lightning_bench.bench.study.study import Study

#: In words, in the order in which they are told.
TITLES: Mapping[Source, str] = {
    "weights": "initial weights",
    "order": "data order",
    "augmentation": "augmentation",
    "dropout": "dropout",
    "shots": "few-shot draws",
    "split": "split",
}
#: Settings of a recipe that draw numbers for each batch, with their words.
_AUGMENTATIONS = {
    "crop": "crop",
    "flip": "flip",
    "resized_crop": "resized crop",
    "randaugment": "RandAugment",
    "erasing": "erasing",
    "mixup": "mixup",
    "cutmix": "CutMix",
}
#: Arguments of models, ours and timm's, that are the rate of some dropout.
_RATES = ("dropout", "drop_path", "drop_rate", "drop_path_rate", "attn_drop_rate")


def sources(
    spec: RunSpec, variant: model_catalogue.Entry, dataset: DataSet
) -> dict[Source, list[str]]:
    """The sources of randomness of a run, each with what it is there, in words."""
    found: dict[Source, list[str]] = {}
    if spec.recipe.epochs:
        found["weights"] = ["new layers"] if spec.start or spec.weights else []
        found["order"] = []
        if augmentations := augmentations_of(spec, dataset):
            found["augmentation"] = augmentations
        if has_dropout(spec, variant):
            found["dropout"] = []
        if dataset.shots:
            found["shots"] = []
    if drawn := drawn_splits(dataset):
        found["split"] = drawn
    return found


def of_entries(study: "Study") -> dict[str, dict[Source, list[str]]]:
    """What the seeds of each entry vary on any of its data sets; splits with their data sets."""
    found: dict[str, dict[Source, list[str]]] = {}
    for entry in study.resolved.values() if study.seeds else ():
        mine: dict[Source, list[str]] = found.setdefault(entry.label, {})
        for title, (spec, dataset) in entry.data.items():
            if entry.shown_stage(spec) is not None:
                continue
            for source, words in sources(entry.spec(spec), entry.variant, dataset).items():
                known = mine.setdefault(source, [])
                if source == "split":
                    of = f" of {title}" if len(study.data) > 1 else ""
                    words = [f"{' and '.join(words)}{of}"]
                known += [word for word in words if word not in known]
    return found


def augmentations_of(spec: RunSpec, dataset: DataSet) -> list[str]:
    """What is drawn for each batch: the recipe's augmentations, and the words that are masked."""
    masks = ["masks"] if dataset.task in MASKED else []
    masks += ["the data's own"] if dataset.user_draws else []
    return masks + [word for name, word in _AUGMENTATIONS.items() if getattr(spec.recipe, name)]


def drawn_splits(dataset: DataSet) -> list[str]:
    """The splits that the run's seed draws, in words."""
    titles = {"test": "test", "val": "validation"}
    return [title for name, title in titles.items() if name in dataset.drawn_by_seed]


def has_dropout(spec: RunSpec, variant: model_catalogue.Entry) -> bool:
    """Whether the model drops anything in training, as far as its arguments tell.

    The models of transformers have it in their own configurations.
    """
    known = {name: argument.default for name, argument in variant.arguments.items()}
    rates = {name: value for name, value in (known | spec.model.args).items() if name in _RATES}
    return any(rates.values()) or spec.model.name.startswith("hf/")
