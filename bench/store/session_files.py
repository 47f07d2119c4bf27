"""Files of measurement sessions: one each in the store's `measurements`, never overwritten."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import ValidationError

from lightning_bench.bench.spec import canonical_json
from lightning_bench.bench.store.measurements import SCHEMA_VERSION, Contender, Session, Setting
from lightning_bench.bench.store.store import Damaged, Store, seal, unseal
from lightning_bench.common.files import read_regular, write_atomically


def folder(store: Store) -> Path:
    """The folder of all sessions."""
    return store.root / "measurements"


def keep(store: Store, session: Session) -> Path:
    """Write a session's file and return its path."""
    path = folder(store) / f"{session.id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, seal(session.model_dump_json().encode()))
    return path


def read(path: Path) -> Session:
    """Read and verify a session; Damaged says what is wrong with it."""
    try:
        session = Session.model_validate_json(unseal(read_regular(path)))
    except ValidationError as error:
        raise Damaged(f"not a session of measurements: {error.errors()[0]['msg']}") from None
    if session.schema_version != SCHEMA_VERSION:
        raise Damaged(f"schema {session.schema_version}, this bench reads {SCHEMA_VERSION}")
    return session


def newest(store: Store, key: str) -> Session | None:
    """The newest whole session of this key."""
    return next((session for session in _newest_first(store) if session.key == key), None)


def _newest_first(store: Store) -> Iterator[Session]:
    # An id begins with the time, so that names sort by age.
    for path in sorted(folder(store).glob("[0-9]*.json"), reverse=True):
        try:
            yield read(path)
        except (Damaged, OSError):
            continue  # it will be measured again


def key_of(
    asked: Iterable[tuple[Contender, Setting]], sources: Mapping[str, str], *, quick: bool
) -> str:
    """A hash of what is to be measured and of the code that it is."""
    plain = [[contender.model_dump(), setting.model_dump()] for contender, setting in asked]
    text = canonical_json([SCHEMA_VERSION, plain, dict(sources), quick])
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def new_id(started: str) -> str:
    """A name for a session that began at this time (UTC, ISO 8601), like `20261118-153012-3fa2`."""
    digits = "".join(character for character in started if character.isdigit())
    return f"{digits[:8]}-{digits[8:14]}-{os.urandom(2).hex()}"
