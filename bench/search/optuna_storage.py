"""Optuna's storage: a journal beside the runs, or a PostgreSQL database.

The truth is in the store (`ledger`); this is the samplers' history of trials, shared by all
parents, open to `optuna-dashboard`, and filled again from the store if it is lost.
"""

import errno
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lightning_bench.bench.errors import UserError
from lightning_bench.common.messages import first_line, nearest

if TYPE_CHECKING:
    from optuna.storages import BaseStorage, RDBStorage

JOURNAL = "journal.log"
#: How long a database may be away, while it restarts, before a search gives up.
PATIENCE_S = 120.0
_PAUSE_S = 0.25
#: Any number, as long as all parents take the same.
_LOCK = int.from_bytes(b"bench")

T = TypeVar("T")


def check(url: str | None) -> None:
    """Raise a UserError unless this is a storage that several parents can share."""
    if url is None:
        return
    scheme, separator, _ = url.partition("://")
    if scheme.partition("+")[0] == "sqlite":
        raise UserError(
            "--storage sqlite: SQLite hands one trial to two workers; leave --storage out (a "
            "journal in the store), or give postgresql://…"
        )
    if not separator or scheme not in {"postgresql", "postgresql+psycopg"}:
        # Of the address only the scheme is shown: the rest may hold a password.
        shown = scheme if separator else "without ://"
        raise UserError(f"--storage {shown}: {nearest(scheme, ['postgresql'])[2:]}://…")


def connect(url: str | None, folder: Path) -> "BaseStorage":
    """Open the storage, making it where it is new; one that can't be reached is a UserError."""
    import optuna

    from lightning_bench.bench.search.optuna_journal import Journal

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    check(url)
    if url is not None:
        return _database(url)
    folder.mkdir(parents=True, exist_ok=True)
    return optuna.storages.JournalStorage(Journal(folder / JOURNAL))


def _database(url: str) -> "BaseStorage":
    import optuna
    import sqlalchemy
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise UserError(
            "--storage postgresql needs psycopg: pip install 'lightning-bench[postgres]'"
        ) from None
    try:
        address = sqlalchemy.make_url(url).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError):
        raise UserError("--storage postgresql: not an address of user@host:port/database") from None
    full = address.render_as_string(hide_password=False)
    options = {"pool_pre_ping": True, "connect_args": {"connect_timeout": 5}}
    try:
        storage = _make_tables_in_turn(full, options)
    except (SQLAlchemyError, optuna.exceptions.OptunaError) as error:
        cause = getattr(error, "orig", None) or error.__cause__ or error
        reason = (str(cause).strip().splitlines() or [type(cause).__name__])[0]
        raise UserError(f"--storage {address.render_as_string()} can't be used: {reason}") from None
    return optuna.storages.get_storage(storage)


def _make_tables_in_turn(url: str, options: dict[str, Any]) -> "RDBStorage":
    """The storage in a database; parents that find a new one at once make its tables in turn."""
    import optuna
    import sqlalchemy

    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, **options)
    with engine.connect() as lock:
        # PostgreSQL gives it back when this connection ends, however that happens.
        lock.execute(sqlalchemy.text(f"select pg_advisory_lock({_LOCK})"))
        return optuna.storages.RDBStorage(url, engine_kwargs=options)


def retry_until_back(work: Callable[[], T]) -> T:
    """Do what may be done twice; while the database is away, retry until it is back."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return work()
        except (StorageInternalError, SQLAlchemyError) as error:
            if time.monotonic() > deadline:
                reason = first_line(error)
                away = f"the search's storage has been away for {PATIENCE_S:g} s ({reason})"
                raise ConnectionError(errno.ECONNABORTED, away) from error
        time.sleep(_PAUSE_S)
