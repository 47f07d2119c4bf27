"""Metrics that a page ranks by, in place of its data sets' own, and whether more of each is better.

`metrics: [F1Score(average=macro), AUROC]` or `metrics: {my_metrics:cost: min, AUROC: max}`: the
first that a data set can have ranks. A list of nothing but class metrics (`nll`, `ece`, …) only
adds columns, since every record has these. `metrics: {score: max}` ranks LightningModules of one's
own by what they log, where each entry says what that is: `metrics: {val/score: score}`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from lightning_bench.bench.study.class_metrics import CLASS_METRICS
from lightning_bench.bench.study.page_errors import PageError
from lightning_bench.data.dataset import HIGHER_IS_BETTER, DataSet
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import user_code
from lightning_bench.models.tasks.metric_names import parse

if TYPE_CHECKING:
    from lightning_bench.bench.study.study import Study

Direction = Literal["max", "min"]
#: A page's `metrics:`.
Metrics = list[str] | dict[str, Direction | None]


def ranking(metrics: Metrics) -> dict[str, Direction | None]:
    """The metrics that are computed by name, with what the page says of them, the first first."""
    stated = metrics if isinstance(metrics, dict) else dict.fromkeys(metrics)
    return {name: direction for name, direction in stated.items() if not _is_column(name)}


def logged(metrics: Metrics) -> frozenset[str]:
    """Those that nobody computes, so that entries are to log them: of names that aren't known."""
    stated = ranking(metrics).items()
    return frozenset(n for n, direction in stated if direction and ":" not in n and _problem(n))


def _is_column(name: str) -> bool:
    """Whether a metric is in every record, so that naming it adds a column and no more."""
    return name in CLASS_METRICS or name.endswith("_train")


def chosen(metrics: Metrics, dataset: DataSet) -> tuple[str, ...]:
    """Those that a data set's task can have; none where its own stay."""
    own = logged(metrics)
    return tuple(n for n in ranking(metrics) if n in own or dataset.task in _tasks(n))


def computed(metrics: Metrics, dataset: DataSet) -> tuple[str, ...]:
    """Those that are computed of the test's predictions."""
    return tuple(name for name in chosen(metrics, dataset) if name not in logged(metrics))


def _tasks(name: str) -> frozenset[str]:
    try:
        return parse(name).tasks
    except ModelError:  # told by `breaches`
        return frozenset()


def ranked(metrics: Metrics, dataset: DataSet) -> DataSet:
    """The data set, ranked by the page's metrics where it can have any."""
    wanted = chosen(metrics, dataset)
    return replace(dataset, metrics=wanted) if wanted else dataset


def higher_is_better(metrics: Metrics) -> dict[str, bool]:
    """Whether more is better, of each metric that the page ranks by."""
    found = {}
    own = logged(metrics)
    for name, direction in ranking(metrics).items():
        known = None if name in own else parse(name).higher_is_better
        found[name] = direction != "min" if direction or known is None else known
    return found


def more_is_better(metrics: Metrics, metric: str) -> bool:
    """Whether more of a data set's first metric is better."""
    return _directions([metric], higher_is_better(metrics))[metric]


def _directions(names: Iterable[str], stated: Mapping[str, bool]) -> dict[str, bool]:
    known = {**HIGHER_IS_BETTER, **stated}
    return {n: known[n] if n in known else parse(n).higher_is_better is not False for n in names}


def shares(study: "Study") -> list[str]:
    """The metrics by name that tables print in per cent."""
    shown = {name for dataset in study.datasets.values() for name in dataset.metrics}
    shown -= HIGHER_IS_BETTER.keys() | logged(study.metrics)
    return sorted(name for name in shown if parse(name).is_share)


def breaches(study: "Study") -> Iterator[PageError]:
    """What is wrong with a page's `metrics:`."""
    stated = study.metrics
    listed = list(stated)
    places = {
        name: ("metrics", name if isinstance(stated, dict) else i) for i, name in enumerate(listed)
    }
    for name, at in places.items():
        if listed.count(name) > 1:
            yield PageError(at, f"{name} is given twice")
            return
    own = logged(stated)
    if own:
        unlogged = sorted(
            own - {name for e in study.entries.values() for name in e.metrics.values()}
        )
        for name in unlogged:  # nobody logs it: a name misspelt
            yield PageError(places[name], _problem(name))
            return
        yield from _of_entries(study, own)
    unknown = [(n, p) for n in ranking(stated) if n not in own and (p := _problem(n))]
    for name, problem in unknown:
        yield PageError(places[name], problem)
    if unknown:
        return
    if ranking(stated) and _is_column(listed[0]):
        message = f"{listed[0]} is of the test alone and can't rank: put it behind what ranks"
        yield PageError(places[listed[0]], message)
    for name, at in places.items():
        if name.endswith("_train") or name in own:
            continue
        direction = stated[name] if isinstance(stated, dict) else None
        of_classes = CLASS_METRICS.get(name)
        known = of_classes.higher_is_better if of_classes else parse(name).higher_is_better
        if known is None and direction is None:
            message = f"{name}: say whether more of it is better, as in metrics: {{{name}: max}}"
            yield PageError(at, message)
        if known is not None and direction and (direction == "max") != known:
            yield PageError(at, f"of {name}, {'more' if known else 'less'} is better")
        tasks = frozenset() if of_classes else parse(name).tasks
        if tasks and not any(dataset.task in tasks for dataset in study.datasets.values()):
            yield PageError(at, f"{name} is for {' or '.join(sorted(tasks))}, which no data set is")


def _of_entries(study: "Study", own: frozenset[str]) -> Iterator[PageError]:
    """Entries that don't log what ranks."""
    for label, entry in study.entries.items():
        for name in sorted(own - set(entry.metrics.values())):
            message = (
                f"the page ranks by {name}, which {entry.model} is to log: "
                f"say what that is, as in metrics: {{val/{name}: {name}}}"
            )
            yield PageError(("entries", label), message)


def _problem(name: str) -> str:
    """Why there is no such metric to rank by; empty where there is."""
    try:
        metric = parse(name)
        if metric.own:
            user_code.locate(metric.name)
    except ModelError as error:
        return str(error)
    return ""


def directions(study: "Study") -> Mapping[str, bool]:
    """Of all that a study's tables show by name, whether more is better."""
    known = {name: metric.higher_is_better for name, metric in CLASS_METRICS.items()}
    shown = [name for dataset in study.datasets.values() for name in dataset.metrics]
    stated = higher_is_better(study.metrics)
    return {**known, **HIGHER_IS_BETTER, **stated, **_directions(shown, stated)}
