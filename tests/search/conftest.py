"""What the tests of searches share: a small study, and a real PostgreSQL."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
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

    def stop(self, how: str = "fast") -> None:
        self._run("pg_ctl", "stop", "-w", "-s", "-m", how)

    def crash(self) -> None:
        """Kill the server as a power cut would."""
        first = (self.folder / "data/postmaster.pid").read_text(encoding="utf-8").split()[0]
        os.kill(int(first), signal.SIGKILL)
        deadline = time.monotonic() + 20
        while self._listens():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def create(self) -> None:
        self._run("initdb", "-A", "trust", "-U", "bench", "--no-sync", "-E", "UTF8", "--locale=C")

    def _options(self) -> str:
        return f"-h 127.0.0.1 -p {self.port} -k {self.folder} -c fsync=off"

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

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
        server.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
