"""Search settings: budget, sampler and pruner, as a study's page gives them."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from lightning_bench.bench.spec import Settings
from lightning_bench.bench.study.search_space import Parameter

SamplerName = Literal["tpe", "random", "gp", "cmaes", "grid"]
PrunerName = Literal["none", "median", "asha", "hyperband"]
#: What a second objective may be; the less the better.
CostName = Literal["parameters", "train_us_per_example"]

#: The first seed of trials: far from those that final runs are given.
TRIAL_SEED = 1_000_000
MOST_TRIAL_SEEDS = 1000


class Search(Settings):
    """The budget of every entry on every data set, and how it is spent.

    `trials` is a total, over all workers and resumptions; no new trial begins once `device_h`
    device-hours are spent. Pruned, failed and retried trials count. Where the search is repeated,
    each repetition has a sampler and trial seeds of its own, and this budget.
    """

    trials: Annotated[int, Field(ge=1, description="for each entry on each data set, in total")]
    device_h: Annotated[
        float | None, Field(gt=0, description="from which on no trial begins, likewise")
    ] = None
    seed: Annotated[int, Field(ge=0, lt=2**31, description="of the sampler")] = 0
    seeds: Annotated[list[int], Field(min_length=1, description="of a trial's own runs")] = [
        TRIAL_SEED
    ]
    sampler: SamplerName = "tpe"
    pruner: PrunerName = "median"
    cost: Annotated[CostName | None, Field(description="a second objective")] = None
    cost_at_most: Annotated[
        float | None, Field(gt=0, description="of the chosen trial; else the best scores decide")
    ] = None
    repeat: Annotated[
        int | None,
        Field(
            ge=1, le=10_000, description="searches, each with the whole budget and one final seed"
        ),
    ] = None
    space: dict[str, Parameter | None] = {}

    @field_validator("seeds", mode="before")
    @classmethod
    def _count_or_list(cls, value: Any) -> Any:
        """`seeds: 2` is short for two seeds that no final run has."""
        if isinstance(value, int) and not isinstance(value, bool):
            if value > MOST_TRIAL_SEEDS:
                raise ValueError(f"at most {MOST_TRIAL_SEEDS:,} seeds of a trial")
            return [TRIAL_SEED + i for i in range(value)]
        return value

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("a seed is given twice")
        if self.cost_at_most is not None and self.cost is None:
            raise ValueError("cost_at_most needs a cost: parameters or train_us_per_example")
        if self.cost and self.pruner != "none":
            raise ValueError(
                "with a cost there are two objectives, and pruners know only one: none"
            )
        if self.cost and self.sampler == "cmaes":
            raise ValueError("with a cost there are two objectives, and cmaes knows only one")
        return self

    def repeats(self) -> "list[Search]":
        """The searches that are asked for: repetition r with sampler seed and trial seeds r on.

        The first is the search without any repetition, whose trials it goes on with.
        """
        spread = max(self.seeds) - min(self.seeds) + 1
        return [
            self.model_copy(
                update={
                    "repeat": None,
                    "seed": self.seed + r,
                    "seeds": [seed + r * spread for seed in self.seeds],
                }
            )
            for r in range(self.repeat or 1)
        ]
