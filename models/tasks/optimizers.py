"""Optimisers of timm, of torch and the user's own, by name, with arguments."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn, optim

from lightning_bench.common.messages import first_line, nearest
from lightning_bench.models.errors import ModelError
from lightning_bench.models.tasks.own_callable import own_callable

Groups = list[dict[str, Any]]


def make(
    name: str, groups: Groups, *, lr: float, weight_decay: float, arguments: Mapping[str, Any]
) -> optim.Optimizer:
    """The optimiser of a name such as `timm/lion`, `torch/Adamax` or `module:callable`.

    Each group has its own learning rate and weight decay; `arguments` are the optimiser's own.
    """
    try:
        found = _make(name, groups, lr, weight_decay, _lists(arguments))
    except (TypeError, ValueError, RuntimeError, AssertionError, ImportError) as error:
        raise ModelError(f"{name}: {first_line(error)}") from error
    if not isinstance(found, optim.Optimizer):
        raise ModelError(f"{name} gives a {type(found).__name__}, not a torch optimizer")
    return found


def _make(
    name: str, groups: Groups, lr: float, weight_decay: float, arguments: dict[str, Any]
) -> Any:
    library, _, rest = name.partition("/")
    if ":" in name:
        kind = own_callable(name)
        given = {"lr": lr, "weight_decay": weight_decay}
        return kind(groups, **_taken(kind, given), **arguments)
    if library == "torch":
        known = [n for n, v in vars(optim).items() if _is_optimizer(v)]
        if rest not in known:
            raise ModelError(f"torch has no optimizer {rest!r}{nearest(rest, known)}")
        kind = getattr(optim, rest)
        if rest == "Muon":
            _demand_matrices(groups)
        return kind(groups, **_taken(kind, {"lr": lr, "weight_decay": weight_decay}), **arguments)
    from timm.optim import create_optimizer_v2, list_optimizers  # timm takes seconds to import

    there = [str(each) for each in list_optimizers()]
    if rest.removeprefix("lookahead_") not in there:
        raise ModelError(f"timm has no optimizer {rest!r}{nearest(rest, there)}")
    return create_optimizer_v2(groups, opt=rest, lr=lr, weight_decay=weight_decay, **arguments)


def _demand_matrices(groups: Sequence[Mapping[str, Any]]) -> None:
    if any(p.ndim != 2 for group in groups for p in group["params"]):
        raise ModelError(
            "torch/Muon steps matrices alone, and this model has other parameters, too: "
            "timm/muon steps these by AdamW"
        )


def _is_optimizer(value: object) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, optim.Optimizer)
        and value is not optim.Optimizer
    )


def _taken(kind: Any, given: Mapping[str, float]) -> dict[str, float]:
    """Those of the recipe's settings that the optimiser takes."""
    known = inspect.signature(kind).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
    return {name: value for name, value in given.items() if takes_all or name in known}


def _lists(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A page's lists as the pairs that optimisers take, as betas."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in arguments.items()}


def group_of(name: str, patterns: Sequence[Mapping[str, Any]]) -> int | None:
    """The first group whose pattern is in a parameter's name; None where none is."""
    import re

    return next((i for i, g in enumerate(patterns) if re.search(str(g["match"]), name)), None)


def unmatched(model: nn.Module, patterns: Sequence[Mapping[str, Any]]) -> str:
    """The first pattern that no trained parameter's name has; empty where all have some."""
    names = [name for name, p in model.named_parameters() if p.requires_grad]
    used = {group_of(name, patterns) for name in names}
    return next((str(g["match"]) for i, g in enumerate(patterns) if i not in used), "")
