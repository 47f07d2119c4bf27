"""Compatibility of recipes, data sets, weights and devices, asked before anything is trained."""

from lightning_bench.bench.spec import Precision, Recipe
from lightning_bench.data.dataset import MASKED, DataSet

#: Settings of a recipe that change images.
OF_IMAGES = {"crop", "flip", "resized_crop", "randaugment", "erasing", "mixup", "cutmix"}
#: Modules of models whose weights belong to one number of patches or tokens.
_OF_ONE_LENGTH = {
    "lightning_bench.models.gmlp",
    "lightning_bench.models.gmlp_text",
    "lightning_bench.models.mixer",
}

#: What of a recipe counts for a LightningModule of the user's own: the rest is in its own code.
OF_OWN_TRAINING = {
    "epochs", "steps", "batch_size", "precision", "accumulate", "clip_norm",
    *(OF_IMAGES - {"mixup", "cutmix"}),
}  # fmt: skip


def without_effect(dataset: DataSet, recipe: Recipe) -> list[str]:
    """Settings that would do nothing on this data set, or beside the others: a mistaken claim."""
    given = recipe.model_dump(exclude_defaults=True)
    useless = given.keys() & (OF_IMAGES if dataset.kind != "image" else {"whole_words"})
    if dataset.user_code:  # its examples are made by its own code; batches can be mixed
        useless |= given.keys() & (OF_IMAGES - {"mixup", "cutmix"})
    if dataset.task in {"regress", "multilabel"}:  # what is mixed are classes
        useless |= given.keys() & {"mixup", "cutmix"}
    if dataset.task not in MASKED:
        useless |= given.keys() & {"whole_words"}
    if dataset.task != "classify" or recipe.loss not in {"", "cross-entropy"}:
        useless |= given.keys() & {"label_smoothing"}
    if recipe.precision != "fp16":
        useless |= given.keys() & {"loss_scale"}
    return sorted(useless)


def unfit_start(before: DataSet, after: DataSet, module: str) -> str:
    """Why weights trained on one data set can't serve a model on another; empty where they can."""
    if before.kind != after.kind:
        return f"{before.name} is of {before.kind}s, {after.name} of {after.kind}s"
    if before.channels != after.channels:
        return (
            f"the images of {before.name} have {before.channels} channels, "
            f"those of {after.name} {after.channels}"
        )
    # Vocabularies that are a data set's own are not another's, whatever their size.
    own = before.tokenizer.startswith("train:") or before.tokenizer == "words"
    texts = [(of.repository, of.source, of.files.get("train")) for of in (before, after)]
    if before.tokenizer != after.tokenizer or (own and texts[0] != texts[1]):
        return (
            f"{before.name} is read with a vocabulary of its own ({before.tokenizer}), "
            f"{after.name} with another ({after.tokenizer}): "
            "a token would mean two things; set the same `tokenizer` for both"
        )
    for name in ("image_size", "length"):
        one, other = getattr(before, name), getattr(after, name)
        if one != other and module in _OF_ONE_LENGTH:
            return (
                f"{before.name} has {name.replace('_', ' ')} {one}, {after.name} {other}: the "
                "spatial matrices of Mixer and gMLP belong to one and can't be resized; "
                f"set the same `{name}` for both"
            )
    return ""


def unfit_precision(precision: Precision, device: str) -> str:
    """Why nothing can be computed in a precision on a device; empty where it can."""
    if device == "cpu" and precision in {"tf32", "fp16"}:
        return f"precision {precision} needs a GPU; a CPU computes in fp32 or bf16"
    if device != "cuda" and precision == "tf32":
        return f"precision tf32 is of NVIDIA's GPUs, not of {device}; take fp32"
    return ""


def unfit_devices(recipe: Recipe, *, device: str, devices: int, strategy: str) -> str:
    """Why a recipe can't be trained on such devices; empty where it can."""
    parts = devices * recipe.accumulate
    if recipe.batch_size < parts:
        shared = f"{devices} devices" if devices > 1 else "one device"
        return (
            f"a batch of {recipe.batch_size} is too small for {shared} in "
            f"{recipe.accumulate} part{'s' if recipe.accumulate > 1 else ''} each: "
            f"batch_size must be {parts} at least"
        )
    if problem := unfit_precision(recipe.precision, device):
        return problem
    if strategy == "fsdp" and recipe.precision == "fp16":
        return "strategy fsdp is for fp32 and bf16, not fp16"
    if strategy == "fsdp" and devices == 1:
        return "strategy fsdp shards a model over several devices, and this is one: see --devices"
    return ""
