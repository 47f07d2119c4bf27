"""What the tests of searches share: a small study, and a real PostgreSQL."""

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass
class Postgres:
    """A server of this test's own, on loopback, run by an unprivileged user."""

    binaries: Path
    folder: Path
    port: int
    user: dict[str, int] = field(default_factory=dict)  # whom to be, where we are root

    @property
    def url(self) -> str:
        return f"postgresql://bench@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        self._run("pg_ctl", "start", "-w", "-s", "-l", f"{self.folder}/log", "-o", self._options())

    def stop(self, how: str) -> None:
        """`fast` ends all sessions; `immediate` leaves everything as a crash would."""
        self._run("pg_ctl", "stop", "-w", "-s", "-m", how)

    def create(self) -> None:
        self._run("initdb", "-A", "trust", "-U", "bench", "--no-sync", "-E", "UTF8", "--locale=C")

    def _options(self) -> str:
        return f"-h 127.0.0.1 -p {self.port} -k {self.folder} -c fsync=off"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.binaries / program), "-D", f"{self.folder}/data", *arguments]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, timeout=60, cwd="/", **self.user)  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A running server; the tests that use it skip by name where Debian's package is not there."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("needs Debian's package postgresql")
    pytest.importorskip("psycopg")
    # Not below pytest's own folder, which other users can't enter.
    folder = Path(f"/tmp/bench-postgres-{os.getpid()}")
    folder.mkdir(mode=0o755)
    user = {}
    if os.getuid() == 0:
        nobody = pwd.getpwnam("postgres")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        user = {"user": nobody.pw_uid, "group": nobody.pw_gid}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = Postgres(found[-1].parent, folder, port, user)
    try:
        server.create()
        server.start()
        yield server
    finally:
        with suppress(AssertionError):  # it may never have started
            server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)
