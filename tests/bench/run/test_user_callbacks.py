"""A page's own Lightning callbacks: made by name, refused where they'd do what the harness does."""

from pathlib import Path

import pytest
from pytorch_lightning.callbacks import Timer

from lightning_bench.bench.plan import source_digests
from lightning_bench.bench.run import user_callbacks
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry import user_code
from lightning_bench.models.tasks import own_callable
from tests import factory

OWN = """
import pytorch_lightning as pl
from pytorch_lightning.callbacks import EarlyStopping, Timer

class Count(pl.Callback):
    def __init__(self, every): self.every, self.n = every, 0
    def state_dict(self): return {"n": self.n}
    def load_state_dict(self, state): self.n = state["n"]

class Stop(EarlyStopping):
    def __init__(self): super().__init__("val_loss")

class Plain: pass
"""


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_watch.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(user_code._PAGE_FOLDER, raising=False)  # of a page read before
    own_callable.import_with(user_code.import_module)


def test_a_callback_gets_its_arguments_and_its_state_again() -> None:
    (one,) = user_callbacks.make(["own_watch.py:Count(every=3)"])
    assert one.every == 3  # type: ignore[attr-defined]
    one.n = 7  # type: ignore[attr-defined]
    (again,) = user_callbacks.make(["own_watch.py:Count(every=3)"])
    user_callbacks.restore([again], user_callbacks.states([one]))
    assert again.n == 7  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Stop", "is a EarlyStopping: all entries train for the recipe's epochs"),
        ("Plain", "gives a Plain, not a Lightning callback"),
        ("Count", "missing 1 required positional argument: 'every'"),
        ("Cont", "nothing to call by this name"),
    ],
)
def test_what_the_harness_does_itself_is_refused(name: str, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        user_callbacks.make([f"own_watch.py:{name}"])
    assert Timer.__name__ in user_callbacks.REFUSED


def test_what_a_run_calls_makes_it_stale_and_a_plain_run_has_its_old_key() -> None:
    plain = factory.spec()
    own = plain.model_copy(update={"callbacks": ("own_watch.py:Count(every=1)",)})
    recipe = plain.recipe.model_copy(update={"optimizer": "own_watch.py:Plain"})
    stepped = plain.model_copy(update={"recipe": recipe})
    assert len({plain.key, own.key, stepped.key}) == 3
    for spec in (own, stepped):
        assert "./own_watch.py" in source_digests.of_run(spec)
        assert "./own_watch.py" not in source_digests.of_run(plain)
