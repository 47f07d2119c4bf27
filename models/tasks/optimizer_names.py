"""Optimisers and schedules by name, without torch: ours, timm's, torch's and the user's own."""

from collections.abc import Mapping

from lightning_bench.common.messages import nearest

#: Optimisers with settings of their own in a recipe, and how many numbers each keeps a parameter.
OPTIMIZERS: Mapping[str, int] = {"sgd": 1, "adam": 2, "adamw": 2, "adagrad": 1, "lamb": 2}
#: Schedules after the warm-up; those that take arguments, with these.
SCHEDULES: Mapping[str, frozenset[str]] = {
    "constant": frozenset(),
    "linear": frozenset(),
    "cosine": frozenset(),
    "one-cycle": frozenset({"start", "end"}),
    "trapezoid": frozenset({"cooldown"}),
    "triangle": frozenset(),
    "step": frozenset({"every", "at", "factor"}),
    "inverse-sqrt": frozenset(),
}
#: Optimisers whose step needs a closure, or that need gradients of gradients.
_CLOSURES = {"torch/LBFGS": "asks for the loss again within a step", "timm/adahessian": ""}
#: torch's that take sparse gradients alone.
_SPARSE = {"torch/SparseAdam"}


def optimizer_problem(name: str, arguments: Mapping[str, object]) -> str:
    """What is wrong with an optimiser's name; empty where nothing is, as far as can be told."""
    if name in _CLOSURES:
        why = _CLOSURES[name] or "needs the gradients' own gradients"
        return f"{name} {why}, which a training step here does not give"
    if name in _SPARSE:
        return f"{name} is for sparse gradients alone"
    library, slash, rest = name.partition("/")
    if ":" in name or (slash and library in {"timm", "torch"} and rest):
        return ""
    if name not in OPTIMIZERS:
        return (
            f"there is no optimizer {name!r}{nearest(name, OPTIMIZERS)}; others are timm/NAME, "
            "torch/NAME or your own module:callable"
        )
    if arguments:
        return f"optimizer_args are of timm/NAME, torch/NAME and module:callable, not of {name}"
    return ""


def schedule_problem(name: str, arguments: Mapping[str, object]) -> str:
    """What is wrong with a schedule; empty where nothing is."""
    if ":" in name:
        return ""
    if name not in SCHEDULES:
        return f"there is no schedule {name!r}{nearest(name, SCHEDULES)}; or module:callable"
    for given in arguments:
        if given not in SCHEDULES[name]:
            return f"{name} has no argument {given!r}{nearest(given, SCHEDULES[name])}"
    for given in ("start", "end", "cooldown", "every", "factor"):
        value = arguments.get(given, 0.5)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            return f"{given} of {name} is from 0 to 1, a part of all"
    if name == "step" and not {"every", "at"} & arguments.keys():
        return "step needs schedule_args: {at: 0.5|0.75} or {every: 0.3}, parts of the training"
    if "every" in arguments and not arguments["every"]:
        return "every of step is more than 0"
    return ""
