"""The chosen hyperparameters of a study's searches as a page that `bench run` takes; pure."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import yaml

from lightning_bench.bench.store.trial import Ledger
from lightning_bench.bench.study.search_space import ARGS, Values, with_arguments, with_settings

if TYPE_CHECKING:
    from lightning_bench.bench.study.study import Study


def pages(study: "Study", ledgers: Iterable[Ledger], repeat: int | None = None) -> dict[str, str]:
    """The page of each data set by its name, with the chosen values as the entries' own.

    A page a data set, since values are chosen for each, and for each search of a repeated one. Its
    runs are the study's final runs, with the same keys.
    """
    chosen: dict[str, dict[str, Values]] = {}
    seed: int | None = None
    for ledger in ledgers:
        if ledger.chosen is not None and ledger.repeat == repeat:
            chosen.setdefault(ledger.dataset, {})[ledger.entry] = ledger.chosen
            seed = ledger.final_seed
    return {dataset: _page(study, dataset, values, seed) for dataset, values in chosen.items()}


def _page(study: "Study", dataset: str, chosen: dict[str, Values], seed: int | None) -> str:
    page = study.model_dump(
        mode="json",
        exclude_defaults=True,
        exclude={
            *("name", "scale", "command", "search", "entries"),
            *("data", "averages", "margin", "published"),
        },
    )
    if seed is not None:
        page["seeds"] = [seed]
    spec = dict(zip(study.datasets, study.data, strict=True))[dataset]
    title = {"title": spec.title} if spec.title else {}
    page["data"] = [spec.model_dump(mode="json", exclude_defaults=True) | title]
    if margin := study.margin_on(dataset, study.datasets[dataset].metrics[0]):
        page["margin"] = margin
    page["entries"] = {}
    for label, values in chosen.items():
        entry = study.entries[label]
        plain = entry.model_dump(mode="json", exclude_defaults=True, exclude={"space"})
        if "data" in plain:
            plain["data"] = [own for own in plain["data"] if own["name"] == spec.name]
        recipe = {k: v for k, v in values.items() if not k.startswith(ARGS)}
        # An entry's mapping takes the place of the study's, and so has all of it.
        shared = {**study.recipe.model_dump(mode="json", exclude_unset=True), **entry.recipe}
        nested = {name.partition(".")[0] for name in recipe if "." in name}
        own = entry.recipe | {name: shared[name] for name in nested}
        plain |= {"args": with_arguments(entry.args, values), "recipe": with_settings(own, recipe)}
        page["entries"][label] = {key: value for key, value in plain.items() if value}
    page["scales"] = {study.scale: {}}
    header = (
        f"# What the searches of {study.name} ({study.scale}) chose on {dataset}.\n"
        "#\n"
        "#   bench run THIS-PAGE.yaml\n"
        "#\n"
        "# In the same store the runs are those of the study, and are not run again.\n"
    )
    text: str = yaml.safe_dump(page, sort_keys=False, allow_unicode=True, width=100)
    return header + text
