"""The ledger of looks: only ever added to, once a look, by however many at a time."""

import multiprocessing
from pathlib import Path

from lightning_bench.bench.store.look_ledger import Claimed, LookLedger, LookTaken


def look(study: str = "s", seeds: int = 6, **changes: object) -> LookTaken:
    known = LookTaken(
        study=study, scale="smoke", entries=["A", "B"], seeds=list(range(seeds)), n=seeds,
        alpha=0.05, method="max-T", named=False, cells={"d": {"A": "a", "B": "b"}},
        family="f", results="r",
    )  # fmt: skip
    return known.model_copy(update=changes)


def test_a_look_is_kept_once_and_lines_never_change(tmp_path: Path) -> None:
    ledger = LookLedger(tmp_path)
    assert ledger.read("s") == []
    claimed = [Claimed(dataset="d", a="A", b="B", p=0.03)]
    assert ledger.add(look(claimed=claimed))
    first = ledger.path.read_bytes()
    assert not ledger.add(look())
    assert ledger.path.read_bytes() == first
    assert ledger.add(look(seeds=9))
    assert ledger.add(look(results="others"))
    assert ledger.add(look("t"))
    assert ledger.path.read_bytes().startswith(first)
    assert [known.n for known in ledger.read("s")] == [6, 9, 6]
    assert ledger.read("s")[0].claimed == claimed
    assert ledger.read("s")[0].taken.endswith("+00:00")


def test_what_is_no_look_is_counted_and_kept(tmp_path: Path) -> None:
    ledger = LookLedger(tmp_path)
    ledger.path.write_text('{"study": "s"}\nhalf a li', encoding="utf-8")
    assert ledger.add(look())
    assert [known.n for known in ledger.read("s")] == [6]
    assert ledger.unreadable == 2
    assert ledger.path.read_text(encoding="utf-8").startswith('{"study": "s"}\nhalf a li\n{')


def _add(store: Path, first: int) -> None:
    for seeds in range(first, first + 20):
        LookLedger(store).add(look(seeds=seeds))


def test_two_processes_lose_no_line_of_each_other(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=_add, args=(tmp_path, first)) for first in (6, 16)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert sorted(known.n for known in LookLedger(tmp_path).read("s")) == list(range(6, 36))


def test_looks_compare_again_where_a_pair_and_a_seed_are_in_both() -> None:
    this = look()
    assert this.compares_again(look(seeds=9, entries=["A", "X"], cells={"e": {"A": "a", "X": "b"}}))
    assert not this.compares_again(look(cells={"d": {"A": "a", "B": "other"}}))
    assert not this.compares_again(look().model_copy(update={"seeds": [6, 7]}))
