"""The line on what the seeds of a study vary, and what is the same for all of them."""

from lightning_bench.bench.spec import Source
from lightning_bench.bench.study.randomness import TITLES
from lightning_bench.reports.request import Request
from lightning_bench.reports.text.numbers import joined

_NAMED = 3  # entries that are listed by name


def line(request: Request) -> str:
    """`Seeds vary: …. The same for all: ….`; empty where nothing is trained."""
    entries = request.randomness
    if not any(entries.values()):
        return ""
    varied = [_varied(request, source) for source in TITLES]
    varied += ["tuning (each seed has a search of its own)"] * _repeated(request)
    return f"Seeds vary: {', '.join(filter(None, varied))}. The same for all: {_same(request)}."


def _varied(request: Request, source: Source) -> str:
    """A source with what it is, and whose, where it is not everybody's; empty if nobody has it."""
    having = [entry for entry, sources in request.randomness.items() if source in sources]
    if not having:
        return ""
    every = [request.randomness[entry][source] for entry in having]
    details = list(dict.fromkeys(word for words in every for word in words))
    trained = [entry for entry, sources in request.randomness.items() if sources]
    alike = all(words == every[0] for words in every)
    notes = [joined(details)] if details else []
    if len(having) < len(trained):
        few = len(having) <= _NAMED
        notes.append(
            f"{joined(having)} alone" if few else f"{len(having)} of {len(trained)} entries"
        )
    elif not alike:
        notes.append("not the same of every entry")
    return TITLES[source] + (f" ({'; '.join(notes)})" if notes else "")


def _repeated(request: Request) -> bool:
    return any(ledger.repeat is not None for ledger in request.searches)


def _same(request: Request) -> str:
    """What no seed changes."""
    drawn = [spec.split for spec in request.study.data]
    same = []
    if "fixed" in drawn:
        same.append("split" if set(drawn) == {"fixed"} else "split where nobody draws it")
    if "validation" in drawn:
        same.append("test split")
    if any(entry.start or entry.weights for entry in request.entries.values()):
        same.append("the weights they start from")
    tuned = "tuning" if request.searches else "hyperparameters"
    same.append("space and budget of the searches" if _repeated(request) else tuned)
    return ", ".join(same)
