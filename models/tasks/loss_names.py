"""Losses by name, the tasks that have them and their arguments; without torch."""

from collections.abc import Mapping

from lightning_bench.common.messages import nearest

#: The tasks that a loss is for, its own first: the loss of a task that no recipe names.
LOSSES: Mapping[str, tuple[str, ...]] = {
    "cross-entropy": ("classify",),
    "binary": ("multilabel", "classify"),
    "focal": ("classify", "multilabel"),
    "mse": ("regress",),
    "mae": ("regress",),
    "huber": ("regress",),
}
ARGUMENTS: Mapping[str, frozenset[str]] = {
    "focal": frozenset({"gamma"}),
    "huber": frozenset({"delta"}),
}
#: Losses that weigh classes, or labels' positives.
WEIGHED = frozenset({"cross-entropy", "binary", "focal"})
_OWN = {"classify": "cross-entropy", "multilabel": "binary", "regress": "mse"}


def of_task(task: str) -> str:
    """The loss of a task where a recipe names none; empty where it can't name any."""
    return _OWN.get(task, "")


def problem(name: str, arguments: Mapping[str, object]) -> str:
    """What is wrong with a loss by itself; empty where nothing is."""
    if ":" in name:
        return ""
    if not name:
        return "loss_args are of a loss: name it" if arguments else ""
    if name not in LOSSES:
        return f"there is no loss {name!r}{nearest(name, LOSSES)}; your own is module:callable"
    known = ARGUMENTS.get(name, frozenset())
    for given in arguments:
        if given not in known:
            return f"the loss {name} has no argument {given!r}{nearest(given, known)}"
    return ""


def unfit(name: str, weights: bool, task: str) -> str:
    """Why a task can't have a loss; empty where it can."""
    if not of_task(task):
        return f"the loss of {task} is its own" if name or weights else ""
    chosen = name or of_task(task)
    if ":" not in chosen and task not in LOSSES[chosen]:
        fit = ", ".join(loss for loss, tasks in LOSSES.items() if task in tasks)
        return f"the loss {chosen} is not for {task}, which has {fit} or your own module:callable"
    if weights and ":" not in chosen and chosen not in WEIGHED:
        return f"class_weights are of classes, and {chosen} has none"
    return ""
