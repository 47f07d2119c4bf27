"""`bench describe`: all that is known of one study, model or data set."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lightning_bench.bench.cli.options import AnyName, OutputFormat, Scale, echo_json

if TYPE_CHECKING:
    from lightning_bench.bench.study.study import Study


def describe_command(name: AnyName, scale: Scale = None, output: OutputFormat = "table") -> None:
    """Describe a study, a model or a data set."""
    facts = _facts(name, scale)
    if output == "json":
        echo_json([facts])
        return
    from rich.table import Table

    from lightning_bench.bench.cli.console import Console

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in facts.items():
        for i, line in enumerate(_lines(value)):
            table.add_row(key.replace("_", " ") if i == 0 else "", line)
    Console().print(table)


def _facts(name: str, scale: str | None) -> dict[str, Any]:
    from lightning_bench import studies
    from lightning_bench.bench.errors import UserError
    from lightning_bench.bench.study import class_metrics
    from lightning_bench.common.messages import nearest
    from lightning_bench.data import catalogue as data_catalogue
    from lightning_bench.models.errors import ModelError
    from lightning_bench.models.registry import catalogue as model_catalogue
    from lightning_bench.models.registry import user_code

    if name in studies.pages() or name.endswith((".yaml", ".yml")):
        return _study(name, scale)
    if name in data_catalogue.entries() or name.startswith(("folder:", "text:")):
        dataset = data_catalogue.find(name)
        facts = {"name": name, "what": "data set", **_applicable(asdict(dataset))}
        further = _class_metrics(class_metrics.shown(class_metrics.CLASS_METRICS, dataset))
        return facts | ({"further_metrics": further} if further else {})
    try:
        entry = model_catalogue.find(name)
    except ModelError:
        if user_code.is_user_model(name) or name.endswith(".py"):
            raise
        known = {*studies.pages(), *model_catalogue.entries(), *data_catalogue.entries()}
        raise UserError(
            f"nothing is called {name!r}{nearest(name, known)} (bench list shows all)"
        ) from None
    facts = {
        "name": name,
        "what": "model",
        "summary": entry.summary,
        "reads": entry.kind,
        "parameters": entry.parameters,
        "flops": entry.flops,
        "module": entry.module,
        "arguments": {a.name: _argument(a) for a in entry.arguments.values()},
    }
    return {key: value for key, value in facts.items() if value is not None}


def _study(name: str, scale: str | None) -> dict[str, Any]:
    from lightning_bench.bench.study import claims, looks
    from lightning_bench.bench.study.load import find, load, scales
    from lightning_bench.bench.study.ranking import ranking

    path = find(name)
    loaded = load(name, scale)
    return {
        "name": loaded.name,
        "what": "study",
        "title": loaded.title,
        "question": loaded.question,
        "page": str(path),
        "scales": scales(path),
        "scale": loaded.scale,
        "data": list(loaded.datasets),
        "entries": {
            label: " ".join([e.model, *(f"{k}={v}" for k, v in e.args.items())])
            for label, e in loaded.entries.items()
        },
        **({"starts": origins} if (origins := loaded.origins()) else {}),
        **({"metrics": metrics} if (metrics := _class_metrics(loaded.metrics)) else {}),
        **({"ranked by": list(by)} if (by := ranking(loaded.metrics)) else {}),
        "predictions": loaded.predictions,
        "seeds": loaded.seeds,
        "seeds vary": _vary(loaded),
        **({"search": search} if (search := _search(loaded)) else {}),
        **({"looks": looks.planned(loaded).removeprefix("looks: ")} if loaded.looks else {}),
        **({"claims": claims.describe(loaded)} if loaded.claims else {}),
        "runs": len(loaded.before()) + len(loaded.runs()),
        "recipe": loaded.recipe.model_dump(),
    }


def _class_metrics(names: Iterable[str]) -> dict[str, str]:
    """Metrics that a page's `metrics:` may name, and what they are."""
    from lightning_bench.bench.study.class_metrics import CLASS_METRICS

    return {name: CLASS_METRICS[name].title for name in names if name in CLASS_METRICS}


def _vary(study: "Study") -> list[str]:
    """What the seeds vary of any entry."""
    from lightning_bench.bench.study.randomness import TITLES, of_entries

    found = {source for sources in of_entries(study).values() for source in sources}
    return [title for source, title in TITLES.items() if source in found]


def _search(study: "Study") -> str:
    """What a study's search spends, in words."""
    search = study.search
    if search is None:
        return ""
    trials = f"{search.trials} trials of each entry on each data set, by {search.sampler}"
    if search.repeat is None:
        return f"{trials}; what it chooses is run with every seed"
    return f"{search.repeat} times {trials}; what each search chooses is run with one seed"


def _argument(argument: Any) -> str:
    choices = f", one of {', '.join(map(str, argument.choices))}" if argument.choices else ""
    default = "no default" if argument.required else f"default {argument.default}"
    filled = f", from the data's {argument.fact}" if argument.fact else ""
    return f"{argument.kind}, {default}{choices}{filled}"


def _applicable(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that apply: what is empty or zero is of the other kinds of data."""
    return {key: value for key, value in facts.items() if value and key != "name"}


def _lines(value: Any) -> list[str]:
    match value:
        case dict():
            return [f"{key}: {_lines(item)[0]}" for key, item in value.items()] or [""]
        case list() | tuple():
            return [", ".join(str(item) for item in value)]
        case int() if not isinstance(value, bool):
            return [f"{value:,}"]
    return [str(value)]
