"""Validation of a study's page: rules on what may stand together, asked before anything starts.

A rule is data: a name, what it demands, and a function that yields each breach with its place.
Pydantic has checked each value by itself, and `resolved` that every name stands for something.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lightning_bench.bench.spec import canonical_json
from lightning_bench.bench.study import (
    claims,
    compatibility,
    figures,
    looks,
    losses,
    own_metrics,
    randomness,
    ranking,
)
from lightning_bench.bench.study.class_metrics import CLASS_METRICS, shown
from lightning_bench.bench.study.page import Location
from lightning_bench.bench.study.page_errors import PageError
from lightning_bench.bench.study.resolved import ResolvedEntry, with_arguments
from lightning_bench.bench.study.search_cell import space_of
from lightning_bench.bench.study.search_settings import Search
from lightning_bench.bench.study.search_space import BadSpace
from lightning_bench.bench.study.study import Study
from lightning_bench.common.messages import nearest
from lightning_bench.data.dataset import DataSet
from lightning_bench.models.errors import ModelError
from lightning_bench.models.probes import PROBES
from lightning_bench.models.registry import catalogue as model_catalogue


@dataclass(frozen=True)
class PageRule:
    """One demand on a study's page."""

    name: str
    demands: str
    breaches: Callable[[Study], Iterator[PageError]]


def validated(study: Study) -> Study:
    """The study with its entries' arguments resolved; raises the first breach of a rule."""
    study = with_arguments(study)
    for rule in RULES:
        for breach in rule.breaches(study):
            raise breach
    return study


def _place(entry: ResolvedEntry, setting: str) -> Location:
    """Where a setting of an entry's recipe stands: in its own or in the study's."""
    own = setting in entry.page.recipe
    return ("entries", entry.label, "recipe", setting) if own else ("recipe", setting)


def _effect(study: Study) -> Iterator[PageError]:
    for entry in study.resolved.values():
        for _, dataset in entry.data.values():
            for name in compatibility.without_effect(dataset, entry.recipe):
                yield PageError(_place(entry, name), _does_nothing(name, dataset.name))
        for run in entry.lineage:
            for name in compatibility.without_effect(run.dataset, run.stage.recipe):
                at = ("stages", run.name, "recipe", name)
                yield PageError(at, _does_nothing(name, run.dataset.name))


def _own_training(study: Study) -> Iterator[PageError]:
    """What of a recipe nobody reads, where every entry trains itself."""
    if any(entry.variant.form != "lightning" for entry in study.resolved.values()):
        return
    for name in study.recipe.model_dump(exclude_unset=True):
        if name not in compatibility.OF_OWN_TRAINING:
            message = f"{name} means nothing here: every entry trains itself, so say it in its args"
            yield PageError(("recipe", name), message)


def _does_nothing(setting: str, dataset: str) -> str:
    return f"{setting} has no effect on {dataset}"


def _epochs(study: Study) -> Iterator[PageError]:
    for entry in study.resolved.values():
        if study.search is not None and entry.recipe.steps is not None:
            yield PageError(_place(entry, "steps"), "a search counts epochs, not steps")
        if not entry.recipe.epochs and not entry.page.start and not entry.page.weights:
            needs = f"0 epochs train nothing: {entry.label} needs `start` or `weights`"
            yield PageError(_place(entry, "epochs"), needs)
        for run in entry.lineage:
            if not run.stage.recipe.epochs:
                at = ("stages", run.name, "recipe", "epochs")
                yield PageError(at, "0 epochs train nothing to start from")


def _origins(study: Study) -> Iterator[PageError]:
    for entry in study.resolved.values():
        at = ("entries", entry.label)
        yield from _one_origin(at, entry.variant, entry.page.start, entry.page.weights)
        for run in entry.lineage:
            at = ("stages", run.name)
            yield from _one_origin(at, run.variant, run.stage.start, run.stage.weights)


def _one_origin(
    at: Location, variant: model_catalogue.Entry, start: str, weights: str
) -> Iterator[PageError]:
    if start and weights:
        yield PageError(
            (*at, "weights"),
            "start or weights, not both: what it starts from is a stage or published",
        )
    if weights and "weights" in variant.arguments:
        message = f"{variant.name} takes them as args: {{weights: {weights}}}"
        yield PageError((*at, "weights"), message)


def _starts(study: Study) -> Iterator[PageError]:
    for entry in study.resolved.values():
        module, later = entry.variant.module, [dataset for _, dataset in entry.data.values()]
        for run in reversed(entry.lineage):
            at = ("stages", run.name, "data")
            if run.variant.kind not in {"any", run.dataset.kind}:
                yield PageError(
                    at,
                    f"{run.spec.model.name} reads {run.variant.kind}s, "
                    f"but {run.dataset.name} is a data set of {run.dataset.kind}s",
                )
            for dataset in later:
                if problem := compatibility.unfit_start(run.dataset, dataset, module):
                    yield PageError(at, problem)
            module, later = run.variant.module, [run.dataset]


def _networks(study: Study) -> Iterator[PageError]:
    """Networks of the user's own are made and tried with an example of each of their data sets."""
    wanted: dict[str, tuple[str, dict[str, Any]]] = {}
    places: list[tuple[ResolvedEntry, DataSet, str]] = []
    for entry in study.resolved.values():
        for _, dataset in entry.data.values() if entry.variant.form != "variant" else ():
            model = entry.model.name, {**dataset.facts(), **entry.model.args}
            wanted[canonical_json(model)] = model
            places.append((entry, dataset, canonical_json(model)))
    if not wanted:
        return
    try:
        found = dict(zip(wanted, model_catalogue.counts(list(wanted.values())), strict=True))
    except ModelError as error:
        entry = places[0][0]
        raise PageError(("entries", entry.label, "model"), str(error)) from None
    for entry, dataset, key in places:
        if found[key].get("unfit"):
            message = f"on {dataset.name}: {found[key]['error']}"
            yield PageError(("entries", entry.label, "model"), message)
        elif entry.variant.form == "lightning":
            yield from _own_module(study, entry, dataset, found[key])


def _own_module(
    study: Study, entry: ResolvedEntry, dataset: DataSet, tried: Mapping[str, Any]
) -> Iterator[PageError]:
    """What a LightningModule logs, when it is run for a batch, is what the page says of it."""
    at: Location = ("entries", entry.label, "metrics")
    logged, in_test = tried["logged"], tried["logged_in_test"]
    for name, wanted in entry.page.metrics.items():
        if name not in logged:
            hint = nearest(name, logged) or f" (it logs {', '.join(logged) or 'nothing'})"
            yield PageError((*at, name), f"{entry.model.name} logs no {name}{hint}")
        elif not tried["predicts"] and own_metrics.in_test(name, in_test) is None:
            seen = ", ".join(in_test) or "nothing"
            yield PageError((*at, name), f"its test logs no counterpart of {name}, but {seen}")
        elif wanted not in {"max", "min", *dataset.metrics, *study.metrics, "loss"}:
            known = [*dataset.metrics, "max", "min"]
            yield PageError((*at, name), f"{wanted} is no metric here{nearest(wanted, known)}")
    first = dataset.metrics[0]
    columns = {own_metrics.column(name, wanted) for name, wanted in entry.page.metrics.items()}
    if first not in columns and (study.search is not None or not tried["predicts"]):
        example = next((name for name in logged if name.startswith("val")), "val/acc")
        yield PageError(
            ("entries", entry.label),
            f"which of what it logs is {first}? say so, as in `metrics: {{{example}: {first}}}`",
        )
    for key, default in (("accumulate", 1), ("clip_norm", None)):
        if tried["manual"] and getattr(entry.recipe, key) != default:
            yield PageError(_place(entry, key), f"{key} is up to a module that optimises manually")
    for key in ("start", "weights"):
        if getattr(entry.page, key):
            yield PageError(("entries", entry.label, key), "a LightningModule loads its own")
    if study.probes:
        yield PageError(("probes",), "a LightningModule of one's own can't be probed")


def _stages(study: Study) -> Iterator[PageError]:
    used = {run.name for entry in study.resolved.values() for run in entry.lineage}
    for name in sorted(study.stages.keys() - used):
        yield PageError(("stages", name), f"nothing starts from the stage {name!r}")


def _data(study: Study) -> Iterator[PageError]:
    read = {spec.name for entry in study.resolved.values() for spec, _ in entry.data.values()}
    for i, dataset in enumerate(study.datasets.values()):
        if dataset.name not in read:
            yield PageError(("data", i), f"no entry reads {dataset.kind}s")


def _measured(study: Study) -> Iterator[PageError]:
    names = [dataset.name for dataset in study.datasets.values()]
    for i, name in enumerate(study.measure.data if study.measure else []):
        if name not in names:
            hint = nearest(name, names)
            yield PageError(("measure", "data", i), f"{name} is not in the study{hint}")


def _metrics(study: Study) -> Iterator[PageError]:
    known = {name for dataset in study.datasets.values() for name in dataset.metrics}
    for metric in study.epochs_to:
        if metric not in known:
            hint = nearest(metric, known)
            yield PageError(("epochs_to", metric), f"no data set has {metric!r}{hint}")


def _class_metrics(study: Study) -> Iterator[PageError]:
    of_training = {name for dataset in study.datasets.values() for name in dataset.of_training}
    for i, metric in enumerate(study.metrics):
        at = ("metrics", metric if isinstance(study.metrics, dict) else i)
        if metric not in {*CLASS_METRICS, *of_training}:
            if metric.endswith("_train"):  # all others rank, and are looked at there
                hint = nearest(metric, sorted(of_training))
                yield PageError(at, f"there is no metric {metric!r} of training{hint}")
            continue
        if not any(shown([metric], dataset) for dataset in study.datasets.values()):
            yield PageError(at, _no_class_metric(metric, study))
        elif (
            study.predictions == "labels"
            and metric in CLASS_METRICS
            and CLASS_METRICS[metric].of_probabilities
        ):
            yield PageError(at, f"{metric} needs probabilities, but the page keeps labels alone")


def _ranked_by(study: Study) -> Iterator[PageError]:
    for name, dataset in study.datasets.items():
        if study.ranked_by and study.ranked_by not in dataset.reported:
            hint = nearest(study.ranked_by, dataset.reported)
            yield PageError(("ranked_by",), f"{name} has no {study.ranked_by!r}{hint}")


def _no_class_metric(metric: str, study: Study) -> str:
    """Why no data set of a study can have a metric as a further column."""
    classified = [dataset for dataset in study.datasets.values() if dataset.task == "classify"]
    if not classified:
        return f"{metric} is of classes, and no data set here has any"
    if all(metric in dataset.metrics for dataset in classified):
        return f"{metric} is shown as it is"
    return f"{metric} is of more than five classes, and no data set here has so many"


def _margin(study: Study) -> Iterator[PageError]:
    margins = study.margin if isinstance(study.margin, dict) else {"": study.margin}
    known = [*study.datasets, *(dataset.metrics[0] for dataset in study.datasets.values())]
    for name, margin in margins.items():
        if margin <= 0:
            at = ("margin", name) if name else ("margin",)
            yield PageError(at, "a margin of equivalence is a difference, greater than 0")
        if name and name not in known:
            hint = nearest(name, known)
            message = f"{name} is neither a data set of the study nor what one is ranked by{hint}"
            yield PageError(("margin", name), message)


def _spread(study: Study) -> Iterator[PageError]:
    guesses = study.spread if isinstance(study.spread, dict) else {"": study.spread}
    for title, guess in guesses.items():
        at = ("spread", title) if title else ("spread",)
        if title and title not in study.datasets:
            hint = nearest(title, study.datasets)
            yield PageError(at, f"{title} is not in the study{hint}")
        elif guess <= 0:
            yield PageError(at, "a spread is a standard deviation, greater than 0")


def _probes(study: Study) -> Iterator[PageError]:
    for name in study.probes:
        if name not in PROBES:
            yield PageError(("probes",), f"there is no probe {name!r}{nearest(name, PROBES)}")


def _splits(study: Study) -> Iterator[PageError]:
    """Drawn splits: alike for all entries, and nothing that was trained on another one's test."""
    drawn = dict(zip(study.datasets, study.data, strict=True))
    for entry in study.resolved.values():
        for title, (spec, dataset) in entry.data.items():
            if spec.split != drawn[title].split:
                at = ("entries", entry.label, "data")
                message = f"the split of {spec.name} is the study's: all entries need the same"
                yield PageError(at, message)
            for run in entry.lineage:
                if _same_source(run.dataset, dataset) and {run.dataset.split, spec.split} != {
                    "fixed"
                }:
                    yield PageError(
                        ("entries", entry.label, "start"),
                        f"the stage {run.name!r} trains on one split of {dataset.name}; where the "
                        "seed draws splits, its training examples are test or validation examples "
                        "of other seeds: give it other data, or leave the split fixed",
                    )


def _same_source(one: DataSet, other: DataSet) -> bool:
    """Whether two data sets are made of the same training examples."""
    made_of = [(of.repository, of.source, of.files.get("train")) for of in (one, other)]
    return one.name == other.name or (made_of[0] == made_of[1] and one.kind == other.kind)


def _repeated(study: Study) -> Iterator[PageError]:
    search = study.search
    if search is None:
        return
    if search.repeat is not None and search.repeat != len(study.seeds):
        yield PageError(
            ("search", "repeat"),
            f"{search.repeat} searches and {len(study.seeds)} seeds: each search's values are run "
            f"with one seed of its own, so seeds: {search.repeat}",
        )
    for i, dataset in enumerate(study.datasets.values()):
        if dataset.split == "seed" and search.repeat is None:
            yield PageError(
                ("data", i, "split"),
                f"the trials of one search would train on test examples that other seeds draw of "
                f"{dataset.name}: search: {{repeat: {len(study.seeds)}}} gives each seed its own",
            )


def _variance(study: Study) -> Iterator[PageError]:
    if not study.variance:
        return
    if study.search is not None:
        message = "variance is of one configuration: take the page that the search chose"
        yield PageError(("variance",), message)
    if len(study.seeds) < 2:
        yield PageError(("seeds",), "the spread over seeds needs several of them, better ten")
    known = {
        source
        for entry in study.resolved.values()
        for spec, dataset in entry.data.values()
        for source in randomness.sources(entry.spec(spec), entry.variant, dataset)
    }
    for source in [] if study.variance == "all" else study.variance:
        if source not in known:
            message = f"no entry's seed decides {randomness.TITLES[source]} here"
            yield PageError(("variance",), message)


def _stand_ins(study: Study) -> Iterator[PageError]:
    for label, entry in study.entries.items():
        if entry.stands_for and entry.published:
            yield PageError(
                ("entries", label, "published"),
                f"{label} stands for {entry.stands_for}, and reproduces no printed row",
            )


def _searched(study: Study) -> Iterator[PageError]:
    for label, entry in study.entries.items():
        if entry.space and study.search is None:
            at = ("entries", label, "space")
            yield PageError(at, "a space needs a `search:` in the page, with its trials")


def _fresh_seeds(study: Study) -> Iterator[PageError]:
    searches = study.search.repeats() if study.search else []
    tried = {seed for search in searches for seed in search.seeds}
    for seed in sorted(tried & set(study.seeds)):
        yield PageError(
            ("search", "seeds"),
            f"seed {seed} is one of the final runs', which must be fresh; "
            "leave search.seeds out, or give others",
        )


def _spaces(study: Study) -> Iterator[PageError]:
    search, used = study.search, set[str]()
    if search is None:
        return
    for entry in study.resolved.values():
        try:
            used |= space_of(search, entry).parameters.keys()
        except BadSpace as error:
            yield PageError(_place_in_space(error.key, entry, search), f"{entry.label}: {error}")
    for key, parameter in search.space.items():
        if parameter and key.removeprefix("recipe.") not in used:
            message = f"{key} is no hyperparameter of any entry here, or does nothing"
            yield PageError(("search", "space", key), message)


def _place_in_space(key: str, entry: ResolvedEntry, search: Search) -> Location:
    """Where a key of a space stands, by either of its names."""
    for name in (key, f"recipe.{key}"):
        if name in entry.page.space:
            return ("entries", entry.label, "space", name)
        if name in search.space:
            return ("search", "space", name)
    return ("entries", entry.label)


RULES = (
    PageRule("effect", "every setting of a recipe does something on its data", _effect),
    PageRule("own training", "modules that train themselves read their recipe", _own_training),
    PageRule("epochs", "what is not trained starts from weights", _epochs),
    PageRule("origins", "a model starts from one stage or from one set of weights", _origins),
    PageRule("starts", "a stage's weights mean the same on the data of what follows", _starts),
    PageRule("ranking", "of every metric it is known whether more is better", ranking.breaches),
    PageRule("networks", "a network of one's own fits the data", _networks),
    PageRule("data", "every data set is read by an entry", _data),
    PageRule("measured", "speed is measured on data sets of the study", _measured),
    PageRule("metrics", "`epochs_to` names metrics of the study's data sets", _metrics),
    PageRule("ranked by", "`ranked_by` is a metric that every data set shows", _ranked_by),
    PageRule(
        "losses",
        "a loss is for its task, and own callables are there",
        losses.breaches,
    ),
    PageRule("class metrics", "`metrics` can be computed on a data set", _class_metrics),
    PageRule("probes", "every probe is known", _probes),
    PageRule("margin", "a margin is positive, of a data set or of a primary metric", _margin),
    PageRule("stages", "an entry starts from every stage", _stages),
    PageRule("splits", "splits that seeds draw are alike for all, and leak into none", _splits),
    PageRule("repeated", "every search of a repeated one has a seed of its own", _repeated),
    PageRule("variance", "what is to be varied alone is varied at all", _variance),
    PageRule("stand-ins", "what stands for another network reproduces no print", _stand_ins),
    PageRule("searched", "only what is searched has a space", _searched),
    PageRule("fresh seeds", "no final run has a seed that chose its settings", _fresh_seeds),
    PageRule("claims", "claims are of two entries that meet, each named once", claims.breaches),
    PageRule("looks", "every look can show something with what it spends", looks.breaches),
    PageRule("spread", "a guessed spread is of a data set of the study", _spread),
    PageRule("figures", "every figure has the axes of its kind, which exist", figures.breaches),
    PageRule("spaces", "every parameter can be drawn and matters to an entry", _spaces),
)
