"""A real SLURM on this machine: munged, slurmctld and two slurmd, as root and without systemd.

    python -m tests.bench.execute.slurm.cluster    brings one up, until Ctrl-C

The nodes are pretended: two daemons on one host, each with two processors to give away. Nothing is
left behind: the daemons die with whoever started them. Accounting there is none, as on many
clusters. Debian: slurm-wlm and munge.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch")
NODES = ("pretend1", "pretend2")
_PR_SET_PDEATHSIG = 1

CONFIGURATION = """\
ClusterName=pretended
SlurmctldHost=localhost
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=20
NodeName=pretend1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2
NodeName=pretend2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2
PartitionName=all Nodes=ALL Default=YES PriorityTier=1 GraceTime=60 State=UP
PartitionName=urgent Nodes=ALL PriorityTier=2 PreemptMode=OFF State=UP
"""


def missing() -> str:
    """What a cluster would need and this machine has not; empty where it can be had."""
    if os.geteuid():
        return "only root can start SLURM"
    absent = [name for name in NEEDED if shutil.which(name) is None]
    return f"SLURM is not installed: there is no {absent[0]}" if absent else ""


@contextmanager
def running() -> Iterator[Path]:
    """Bring a cluster up; yields its configuration, to be named by SLURM_CONF."""
    # Not below a folder of pytest's: munge wants its socket reachable for all, by a short path.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)
    daemons: list[subprocess.Popen[bytes]] = []
    configuration = folder / "slurm.conf"
    try:
        with _free_ports(3) as ports:
            configuration.write_text(CONFIGURATION.format(folder=folder, ports=ports))
        (folder / "state").mkdir()
        (folder / "munge.key").write_bytes(os.urandom(256))
        (folder / "munge.key").chmod(0o400)
        socket_ = folder / "munge.socket"
        daemons.append(
            _start(
                folder, "munged", "--foreground", f"--key-file={folder}/munge.key",
                f"--socket={socket_}", f"--pid-file={folder}/munged.pid",
                f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed",
            )
        )  # fmt: skip
        _wait(socket_.exists, "munged")
        daemons.append(_start(folder, "slurmctld", "-D", "-f", str(configuration)))
        daemons += [
            _start(folder, "slurmd", "-D", "-N", node, "-f", str(configuration)) for node in NODES
        ]
        _wait(lambda: _idle(configuration) == len(NODES), "slurmctld")
        yield configuration
    finally:
        _ask(configuration, "scancel", "--full", f"--user={os.geteuid()}")
        with suppress(AssertionError):
            _wait(lambda: not _ask(configuration, "squeue", "--noheader"), "the queue", 10)
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            with suppress(subprocess.TimeoutExpired):
                daemon.wait(5)
            daemon.kill()
            daemon.wait()
        for pid in steps(folder):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)


def steps(folder: Path) -> list[int]:
    """The processes of the cluster's jobs, the daemons that watch over them among them."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            with suppress(OSError):
                environment = (process / "environ").read_bytes()
                watches = (process / "comm").read_text(encoding="utf-8") == "slurmstepd\n"
                ours = str(folder).encode() in environment
                if ours and (watches or b"SLURM_JOB_ID=" in environment):
                    found.append(int(process.name))
    return found


def _start(folder: Path, *words: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    log = (folder / f"{words[0]}.out").open("ab")
    with log:
        return subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True, preexec_fn=_die_with_parent,
        )  # fmt: skip


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _ask(configuration: Path, *words: str) -> str:
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _idle(configuration: Path) -> int:
    return int(
        _ask(configuration, "sinfo", "--noheader", "--states=idle", "-p", "all", "-o%D") or 0
    )


def _wait(done, what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"{what} does not come up"
        time.sleep(0.1)


@contextmanager
def _free_ports(count: int) -> Iterator[list[int]]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        yield [listening.getsockname()[1] for listening in sockets]
    finally:
        for listening in sockets:
            listening.close()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt), running() as path:
        print(f"export SLURM_CONF={path} MASTER_ADDR=127.0.0.1", flush=True)  # noqa: T201
        signal.pause()
