"""What the names of a study's entries stand for: models, data sets, stages, looked up once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import JsonValue, ValidationError

from lightning_bench.bench.spec import DataSpec, ModelSpec, Recipe, RunSpec
from lightning_bench.bench.study import ranking
from lightning_bench.bench.study.compatibility import OF_OWN_TRAINING
from lightning_bench.bench.study.inputs import dataset_at, dataset_of, preprocessed
from lightning_bench.bench.study.page_errors import PageError, page_error
from lightning_bench.bench.study.stages import StageRun, lineage, origin
from lightning_bench.common.messages import nearest
from lightning_bench.data.dataset import DataSet
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import catalogue as model_catalogue
from lightning_bench.models.registry import user_code
from lightning_bench.models.registry.arguments import missing, needs

if TYPE_CHECKING:
    from lightning_bench.bench.study.study import Entry, Study

#: Models of images that read rows of numbers, too.
OF_ROWS = ("mlp",)


@dataclass(frozen=True)
class ResolvedEntry:
    """An entry with its model's catalogue entry, its recipe, its data and its stages' runs."""

    label: str
    page: "Entry"  # what the page says of it
    model: ModelSpec
    variant: model_catalogue.Entry
    recipe: Recipe
    data: dict[str, tuple[DataSpec, DataSet]]  # that it reads, by the study's titles of them
    lineage: list[StageRun]  # that it starts from, in the order of training
    probes: tuple[str, ...]
    metrics: ranking.Metrics
    callbacks: tuple[str, ...] = ()

    def spec(self, data: DataSpec, seed: int = 0) -> RunSpec:
        """Its run on this data with this seed."""
        return RunSpec(
            model=self.model,
            data=data,
            recipe=self.recipe,
            seed=seed,
            start=self.lineage[-1].spec if self.lineage else None,
            weights=self.page.weights,
            probes=self.probes,
            metrics=ranking.computed(self.metrics, dataset_of(data)),
            callbacks=self.callbacks,
        )

    def shown_stage(self, data: DataSpec) -> RunSpec | None:
        """The run of a stage that is itself the entry's result on this data."""
        for run in reversed(self.lineage):
            # A title is none of what is trained on.
            if run.stage.shown and run.spec.data.model_dump() == data.model_dump():
                return run.spec
        return None


def resolve(study: "Study") -> dict[str, ResolvedEntry]:
    """All entries by their labels; a name that stands for nothing is a PageError."""
    resolved = {}
    for label, entry in study.entries.items():
        at = ("entries", label)
        variant = _variant(entry.model, label)
        model = ModelSpec(name=entry.model, args=entry.args, metrics=entry.metrics)
        before = lineage(study.stages, entry.start, model, label, at)
        recipe = _recipe(study, label, variant.form)
        weights = origin(entry.weights, before, model)
        trained = recipe.epochs > 0
        resolved[label] = ResolvedEntry(
            label=label,
            page=entry,
            model=model,
            variant=variant,
            recipe=recipe,
            data={
                title: (spec, ranking.ranked(study.metrics, dataset))
                for title, (spec, dataset) in _as_wanted(
                    _read(study, label, variant.kind), weights, trained=trained
                ).items()
            },
            metrics=study.metrics,
            callbacks=tuple(study.callbacks),
            lineage=before,
            probes=tuple(study.probes),
        )
    return resolved


def with_arguments(study: "Study") -> "Study":
    """The study whose entries hold all arguments of their models that differ from the defaults."""
    model_catalogue.describe_together([entry.model for entry in study.entries.values()])
    entries = {
        label: entry.model_copy(update={"args": _arguments(study, label)})
        for label, entry in study.entries.items()
    }
    return study.model_copy(update={"entries": entries, "args": {}})


def _variant(model: str, label: str) -> model_catalogue.Entry:
    try:
        return model_catalogue.find(model)
    except ModelError as error:
        raise PageError(("entries", label, "model"), str(error)) from None


def _recipe(study: "Study", label: str, form: str) -> Recipe:
    """The study's recipe with the entry's own settings laid over it."""
    shared = study.recipe.model_dump(exclude_unset=True)
    if form == "lightning":
        shared = {k: v for k, v in shared.items() if k in OF_OWN_TRAINING}
        for name in study.entries[label].recipe.keys() - OF_OWN_TRAINING:
            raise PageError(
                ("entries", label, "recipe", name),
                f"{name} means nothing here: {study.entries[label].model} trains itself, "
                "so say it in its args",
            )
    try:
        return Recipe.model_validate(shared | study.entries[label].recipe)
    except ValidationError as error:
        raise page_error(error, Recipe, ("entries", label, "recipe")) from None


def _read(study: "Study", label: str, kind: str) -> dict[str, tuple[DataSpec, DataSet]]:
    """The data sets that an entry's model can read, of all or of those that the entry names."""
    entry = study.entries[label]
    names = [spec.name for spec in study.data]
    own: dict[str, tuple[DataSpec, DataSet]] = {}
    for i, spec in enumerate(entry.data):
        at = ("entries", label, "data", i)
        if names.count(spec.name) != 1:
            which = "twice" if spec.name in names else "not"
            hint = "" if spec.name in names else nearest(spec.name, names)
            raise PageError(at, f"{spec.name} is {which} in the study{hint}")
        own.setdefault(spec.name, (spec, dataset_at(spec, at)))
    met = {
        title: own.get(spec.name, (spec, dataset))
        for (title, dataset), spec in zip(study.datasets.items(), study.data, strict=True)
        if spec.name in own or not own
    }
    read = {title: pair for title, pair in met.items() if _reads(entry.model, kind, pair[1])}
    if not read:
        _, other = next(iter(met.values()))
        raise PageError(
            ("entries", label, "model"),
            f"{entry.model} reads {kind}s, but {other.name} is a data set of {_things(other)}",
        )
    return read


def _reads(model: str, kind: str, dataset: DataSet) -> bool:
    """Whether a model reads a data set; rows of numbers those that flatten what they read."""
    own = kind in {"any", "image"} and user_code.is_user_model(model)
    if dataset.kind == "table":
        return model in OF_ROWS or own
    return kind in {"any", dataset.kind}


def _things(dataset: DataSet) -> str:
    known = ", ".join(OF_ROWS)
    return f"numbers, which {known} read" if dataset.kind == "table" else f"{dataset.kind}s"


def _as_wanted(
    read: dict[str, tuple[DataSpec, DataSet]], weights: str, *, trained: bool
) -> dict[str, tuple[DataSpec, DataSet]]:
    """The data sets with the preprocessing that published weights bring, whatever the page says."""
    wanted = {
        title: preprocessed(spec, weights, trained=trained) for title, (spec, _) in read.items()
    }
    return {title: (spec, dataset_of(spec)) for title, spec in wanted.items()}


def _arguments(study: "Study", label: str) -> dict[str, JsonValue]:
    """The arguments that an entry shares with all, and its own, without those at their defaults."""
    entry = study.entries[label]
    variant = _variant(entry.model, label)
    _, dataset = next(iter(_read(study, label, variant.kind).values()))
    args: dict[str, JsonValue] = {}
    for name, value in (*study.args.items(), *entry.args.items()):
        at = ("entries", label, "args", name) if name in entry.args else ("args", name)
        if name in dataset.facts() and variant.form == "variant":
            raise PageError(at, f"{name!r} comes from the data set")
        args.pop(name, None)  # an entry's own at its default outweighs a shared one
        try:
            args |= model_catalogue.check_arguments(variant, {name: value})
        except ModelError as error:
            raise PageError(at, str(error)) from None
    if lacking := missing(variant.arguments, args):
        raise PageError(("entries", label, "args"), f"{entry.model}{needs(lacking)}")
    return args
