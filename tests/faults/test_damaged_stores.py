"""The matrix of damages: one file of a finished store hurt, of every kind and in every way.

Each damage is done to a run of its own, so that one walk through the commands tells of them all:
none ends in a traceback or waits, `bench check` names what must not stay, and one `bench run`
leaves the table of before.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lightning_bench.bench.store.store import Store, seal, unseal
from tests.commands import bench
from tests.factory import study_page

pytestmark = pytest.mark.slow

Damage = Callable[[Path], None]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes() or b" ")  # a lock has none
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def replace(make: Callable[[Path], object]) -> Damage:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


#: In the place of any file.
ANYWHERE: dict[str, Damage] = {
    "a flipped bit": flip,
    "cut": cut,
    "empty": lambda path: path.write_bytes(b"") and None,
    "zeros": zeros,
    "grown": grow,
    "random bytes": lambda path: path.write_bytes(os.urandom(300)) and None,
    "deleted": lambda path: path.unlink(),
    "a folder": replace(Path.mkdir),
    "a link to itself": replace(lambda path: path.symlink_to(path.name)),
    "a dangling link": replace(lambda path: path.symlink_to("nowhere")),
    "a pipe": replace(os.mkfifo),
}


def reseal(change: Callable[[bytes], bytes]) -> Damage:
    """Change a record and give it a right checksum, as somebody does who wants to."""
    return lambda path: path.write_bytes(seal(change(unseal(path.read_bytes())))) and None


def _with(**changes: object) -> Damage:
    def change(payload: bytes) -> bytes:
        record = json.loads(payload)
        for name, value in changes.items():
            within = record
            *parents, last = name.split("__")
            for parent in parents:
                within = within[parent]
            within[last] = value
        return json.dumps(record, separators=(",", ":")).encode()

    return reseal(change)


RESEALED: dict[str, Damage] = {
    "an empty list": reseal(lambda _: b"[]"),
    "null": reseal(lambda _: b"null"),
    "nothing": reseal(lambda _: b""),
    "100,000 brackets": reseal(lambda _: b"[" * 100_000),
    "half of its JSON": reseal(lambda payload: payload[: len(payload) // 2]),
    "another schema": _with(schema_version=99),
    "5 examples scored": _with(scored=5),
    "another run's key": _with(key="f" * 20),
    "accuracy 0.999": _with(metrics__accuracy=0.999),
    "accuracy 7.5": _with(metrics__accuracy=7.5),
    "one parameter": _with(cost__parameters=1),
    "no predictions": _with(predictions=None),
    "attempt 9": _with(attempt=9),
}
#: Files whose loss makes a run worthless.
NEEDED = ("record.json", "predictions.npz")
#: Files that a run which has ended does not need, and damages that a look at them would meet.
UNNEEDED = ("spec.json", "lock", "curve.jsonl", "log.txt")
AT_A_LOOK = ("random bytes", "deleted", "a folder", "a pipe")
DAMAGES = [(file, how) for file in NEEDED for how in ANYWHERE]
DAMAGES += [(file, how) for file in UNNEEDED for how in AT_A_LOOK]
#: Resealed records that still are records: `bench check` names them, and nobody else can.
NAMED = {
    "another schema": "schema",
    "5 examples scored": "counts",
    "accuracy 0.999": "predictions",
    "accuracy 7.5": "predictions",
    "one parameter": "sizes",
    "no predictions": "predictions",
}
#: What somebody may put beside the attempts' folders, and nobody has to look at.
BESIDE: dict[str, Damage] = {
    "abc.\u00b2": Path.mkdir,
    "ffffffffffffffffffff.900000000": Path.mkdir,
    "ffffffffffffffffffff.01": Path.mkdir,
    "a pipe": os.mkfifo,
    ".half-made": Path.mkdir,
}


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished store with a run for each damage."""
    folder = tmp_path_factory.mktemp("calm")
    page = study_page(
        entries={"MLP": {"model": "mlp", "args": {"width": 4}}},
        recipe={"epochs": 1, "batch_size": 512},
        seeds=len(DAMAGES) + len(RESEALED) + 2,
    )
    (folder / "page.yaml").write_text(page, encoding="utf-8")
    told(folder, "run")
    return folder


def told(folder: Path, command: str, *options: str, code: int = 0) -> str:
    """What a command prints of the page, which it ends with this code and no traceback."""
    done = bench(command, "page.yaml", *options, cwd=folder, timeout_s=240)
    assert done.returncode == code, (command, done.stdout, done.stderr)
    assert "Traceback" not in done.stdout + done.stderr, (command, done.stderr)
    return done.stdout


def metrics(folder: Path) -> dict[int, tuple[dict[str, float], str | None]]:
    """What each seed came to: its metrics, and the digest of its predictions."""
    attempts = Store(folder / "bench-store").scan().values()
    records = [attempt.record for attempt in attempts if attempt.record]
    return {record.spec.seed: (record.metrics, record.predictions) for record in records}


def breaches(folder: Path) -> dict[str, list[str]]:
    """The rules that are broken, with their breaches."""
    rules = json.loads(told(folder, "check", "--format", "json", code=3))
    return {rule["name"]: rule["breaches"] for rule in rules if not rule["kept"]}


def test_no_damage_is_silent_nor_lasts(calm: Path, tmp_path: Path) -> None:
    folder = tmp_path / "hurt"
    shutil.copytree(calm, folder)
    store = folder / "bench-store"
    runs = sorted((store / "runs").iterdir())
    hurt: dict[str, int] = {}

    def take(what: str) -> Path:
        run = runs.pop()
        hurt[what] = json.loads((run / "spec.json").read_bytes())["seed"]
        return run

    for file, how in DAMAGES:
        ANYWHERE[how](take(f"{file}: {how}") / file)
    for how, damage in RESEALED.items():
        damage(take(f"resealed: {how}") / "record.json")
    run = take("folder: a file")
    shutil.rmtree(run)
    run.write_bytes(b"")
    run = take("folder: a link")
    outside = run.rename(tmp_path / "outside")
    run.symlink_to(outside)
    before = sorted(path.name for path in outside.iterdir())
    for name, put in BESIDE.items():
        put(store / "runs" / name)
    os.utime(store / "runs" / ".half-made", (0, 0))
    (environment,) = (store / "environments").iterdir()
    environment.write_bytes(environment.read_bytes().replace(b"digits", b"").replace(b"1", b"7"))
    next((store / "examples").iterdir()).write_bytes(b"half")
    report = store / "reports" / "page-smoke"
    (report / "report.html").write_bytes(b"garbage")
    (report / "report.tex").unlink()
    (report / "report.tex").mkdir()

    for command in ("plan", "status", "report"):
        told(folder, command)
    named = breaches(folder)
    missing = "\n".join(named["done"])
    for what, seed in hurt.items():
        file, _, how = what.partition(": ")
        lost = file in (*NEEDED, "folder") or (file == "resealed" and how not in NAMED)
        assert (f"seed {seed} is missing" in missing) == lost, what
        if how in NAMED:
            assert any(f"seed {seed}" in breach for breach in named[NAMED[how]]), what
    assert named["environments"]

    told(folder, "run")
    named = breaches(folder)
    assert named.keys() - {"revisions"} == set(NAMED.values())
    seeds = {hurt[f"resealed: {how}"] for how in NAMED}
    expected, found = metrics(calm), metrics(folder)
    assert found.keys() == expected.keys()
    assert {seed for seed in found if found[seed] != expected[seed]} <= seeds
    assert sorted(path.name for path in outside.iterdir()) == before, "a link was followed"
    assert not (store / "runs" / ".half-made").exists()
    assert (report / "report.html").read_bytes() != b"garbage"
    assert (report / "report.tex").is_file()
    print(f"{len(hurt)} damages, each to a run of its own, and {len(BESIDE) + 4} beside them")  # noqa: T201
