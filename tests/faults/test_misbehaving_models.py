"""Models that misbehave: each is told for what it is, once, and harms no other run."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lightning_bench.bench.store.record import Record
from lightning_bench.bench.store.store import Store
from tests.bench.misbehaving import WAYS
from tests.commands import TESTS_IMPORTABLE, bench

pytestmark = pytest.mark.slow

PAGE = """\
title: Trouble
question: Does one harm another?
data: [digits]
recipe: {epochs: 1, lr: 3e-3}
seeds: 1
scales: {smoke: {}}
entries:
  Good: {model: mlp, args: {width: 16}}
"""
#: What the record says of each way; those that are left out end well.
FAILURES = {
    "exit 75": ("code", "the run's process exited with code 75"),
    "exit 76": ("code", "the run's process exited with code 76"),
    "sys.exit": ("code", "SystemExit: 0"),
    "crash": ("code", "the run's process was killed by SIGSEGV"),
    "base exception": ("code", "_NoException: not even an Exception"),
    "interrupt": ("code", "KeyboardInterrupt:"),
    "unprintable": ("code", "_Unprintable: its message can't be printed"),
    "surrogate": ("code", "ValueError: \\udcff is no text"),
    "long": ("code", "ValueError: xxxxxxxx"),
    "no file": ("code", "FileNotFoundError: [Errno 2] No such file or directory"),
    "words": ("code", "ValueError: gloo: connection reset; out of memory of last year"),
    "record": ("code", "ValueError: in place of the record"),
    "GIL": ("stalled", "no step for 20 s (after "),
    "sleep": ("stalled", "no step for 20 s (after "),
    "SIGSTOP": ("stalled", "no step for 20 s (after "),
}


def study(folder: Path, model: str, ways: list[str], *words: str) -> dict[str, Record]:
    """Run a study of a good model and of these; the records of their only attempts."""
    entries = [f"  {way}: {{model: {model}, args: {{way: {way}}}}}\n" for way in ways]
    (folder / "trouble.yaml").write_text(PAGE + "".join(entries), encoding="utf-8")
    done = bench("run", "trouble.yaml", *words, cwd=folder, env=TESTS_IMPORTABLE, timeout_s=400)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    store = Store(folder / "bench-store")
    records = [store.read(key, number).record for key, number in store.attempts()]
    found = {str(r.spec.model.args.get("way", "Good")): r for r in records if r}
    assert len(found) == len(records) == len(ways) + 1  # one attempt each
    assert found["Good"].status == "done"
    return found


def test_each_is_told_for_what_it_is_and_harms_no_other(tmp_path: Path) -> None:
    found = study(tmp_path, "tests.bench.misbehaving:goes_wrong", list(WAYS), "--stall", "20s")
    for way, record in found.items():
        kind, says = FAILURES.get(way, ("", ""))
        failure = record.failure
        assert (failure.kind if failure else "") == kind, (way, failure)
        if failure:
            assert failure.message.startswith(says), (way, failure)
            log = tmp_path / "bench-store" / failure.log
            assert not log.exists() or log.stat().st_size < 10**6, way
            if way in {"GIL", "sleep"}:
                assert "stacks of its threads are in its log" in failure.message
                assert "in go_wrong" in log.read_text(encoding="utf-8")
            if way == "SIGSTOP":
                assert "stopped by a signal" in failure.message
    flooded = found["flood"]
    log = tmp_path / "bench-store" / "runs" / f"{flooded.key}.{flooded.attempt}" / "log.txt"
    assert log.stat().st_size < 200 * 10**6
    text = log.read_text(encoding="utf-8")
    assert "MiB of this log are cut" in text
    assert "the flood is over" in text
    assert b"sleep\x00611\x00" not in set(_command_lines())


def _command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes()


def test_a_rank_that_stands_still_is_told_by_its_number(tmp_path: Path) -> None:
    words = ("--devices", "2", "--stall", "10s", "--set", "recipe.batch_size=60")
    page = PAGE.replace("  Good: {model: mlp, args: {width: 16}}\n", "")
    model = "tests.bench.misbehaving:second_goes_wrong"
    entry = f"  Stops: {{model: {model}, args: {{way: SIGSTOP}}}}\n"
    (tmp_path / "trouble.yaml").write_text(page + entry, encoding="utf-8")
    done = bench("run", "trouble.yaml", *words, cwd=tmp_path, env=TESTS_IMPORTABLE, timeout_s=400)
    assert done.returncode == 3, done.stdout + done.stderr
    store = Store(tmp_path / "bench-store")
    records = [store.read(key, number).record for key, number in store.attempts()]
    assert len(records) == 3  # it may have been the network
    for record in records:
        assert record
        assert record.failure
        assert record.failure.kind == "infrastructure"
        assert record.failure.message.startswith("no step for 10 s in rank 1 (after ")


def test_a_run_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    (tmp_path / "long.yaml").write_text(
        PAGE.replace("epochs: 1", "epochs: 100000") + "time_limit: 15s\n", encoding="utf-8"
    )
    done = bench("run", "long.yaml", cwd=tmp_path)
    assert done.returncode == 3, done.stdout + done.stderr
    (attempt,) = Store(tmp_path / "bench-store").scan().values()
    assert attempt.record
    assert attempt.record.failure
    assert attempt.record.failure.kind == "time-limit"
    assert attempt.record.failure.message == "took longer than the time limit of 15 s"
