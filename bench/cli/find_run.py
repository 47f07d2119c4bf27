"""Find a run in the store by the beginning of its key, or by words of its name."""

import json
import re
from typing import TYPE_CHECKING

from lightning_bench.bench.errors import UserError
from lightning_bench.common.files import read_regular
from lightning_bench.common.messages import nearest

if TYPE_CHECKING:
    from lightning_bench.bench.plan.plan import Plan
    from lightning_bench.bench.store.store import Store

_SHOWN = 4


def find(store: "Store", text: str, plan: "Plan | None" = None) -> str:
    """The key of the one run that `text` names; a UserError with the nearest where it isn't one.

    Words are of a run's name, `model/data/seed` or, of a run in a plan, `entry/data/seed`, in any
    order and separated by slashes, commas or spaces: `lenet/0`, `"ResNet digits 3"`.
    """
    names = _names(store, plan)
    if not names:
        raise UserError(f"{store.root} has no run yet; bench run starts a study")
    keys = [key for key in names if len(text) >= 4 and key.startswith(text.lower())]
    if not keys:
        wanted = _words(text)
        keys = [key for key, name in names.items() if wanted and wanted <= _words(name)]
    if len(keys) == 1:
        return keys[0]
    if not keys:
        raise UserError(f"no run is called {text!r}{nearest(text, set(names.values()))}")
    some = ", ".join(f"{key[:8]} ({names[key]})" for key in sorted(keys)[:_SHOWN])
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    raise UserError(f"{text!r} matches {len(keys)} runs: {some}{more}; give more words, or a key")


def _names(store: "Store", plan: "Plan | None") -> dict[str, str]:
    """What each run is called: by the plan's entries where there is one, else by its model."""
    attempts = dict(store.attempts())
    if plan is not None:
        return {
            planned.key: f"{planned.run.title}/{planned.run.dataset}/{planned.run.spec.seed}"
            for planned in plan.all
            if planned.key in attempts
        }
    names = {}
    for key, number in attempts.items():
        try:
            spec = json.loads(read_regular(store.folder(key, number) / "spec.json"))
            names[key] = f"{spec['model']['name']}/{spec['data']['name']}/{spec.get('seed', 0)}"
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            names[key] = key
    return names


def _words(text: str) -> set[str]:
    return {word for word in re.split(r"[/,\s]+", text.lower()) if word}
