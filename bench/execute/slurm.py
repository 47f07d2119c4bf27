"""SLURM: each run is a batch job; its ranks are started by srun, and it starts again by itself.

    jobs/<key>/log.txt          in the store: what the run's jobs printed
    jobs/<key>/order-<n>.json   the job spec of attempt n
    jobs/<key>/verdict-<n>.txt  how its first rank says that it has ended

A job's comment names the run, its attempt and the store, so that any parent finds it in the queue:
no run is sent twice. A job that has left a record is over, though the queue may still show it, and
a retry gets one of its own. The batch step, on the job's first node, asks the ranks to stop before
the time is up, and has the job queued again when they have left a checkpoint; the next attempt goes
on from there.

SLURM's own commands do it all. What follows jobs through accounting, as submitit does, never hears
of the end of a killed job on a cluster without.
"""

import getpass
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Literal

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute import devices
from lightning_bench.bench.execute.job import (
    EXIT_CODES,
    WORKER,
    Device,
    DeviceType,
    JobSpec,
    Verdict,
    read_job_spec,
    write_job_spec,
)
from lightning_bench.bench.execute.launcher import Ending, Job
from lightning_bench.bench.store.store import Attempt, Store
from lightning_bench.bench.study.cluster import Cluster
from lightning_bench.common.files import locked
from lightning_bench.common.processes import end_now

_POLL_S = 1.0
#: The queue is asked no more often than this.
_LOOK_S = 5.0
#: A job that the queue thinks is running, though nobody holds its run any more, is dead by then.
_SILENT_S = 30.0
#: The ranks that are left when one has ended, with a record or without, have so long.
_PARTING_S = 60
_ANSWER_S = 60
_STOPPED, _TAKEN = EXIT_CODES["stopped"], EXIT_CODES["taken"]
_MARK = "lightning-bench"
#: With -P, since what lies in the working directory is no library.
_THIS_MODULE = (sys.executable, "-P", "-m", "lightning_bench.bench.execute.slurm")

_OVER = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "TIMEOUT",
}  # fmt: skip


@dataclass(frozen=True)
class Queued:
    """A job of ours, as the queue tells it."""

    id: str
    study: str
    key: str
    attempt: int  # that it was sent for
    state: str
    reason: str
    began: str  # its present start, if it runs

    @property
    def over(self) -> bool:
        """Whether it will never run again."""
        return self.state in _OVER

    @property
    def words(self) -> str:
        """Job, state and what it waits for."""
        waits = f" ({self.reason})" if self.reason not in {"", "None"} else ""
        return f"job {self.id} {self.state.lower().replace('_', ' ')}{waits}"

    def cancel(self) -> None:
        """End it now."""
        subprocess.run(["scancel", self.id], check=False, timeout=_ANSWER_S)


def queued(store: Store) -> list[Queued]:
    """Our jobs for runs of a store, the over ones too while the queue remembers; newest last."""
    if not (store.root / "jobs").is_dir():
        return []
    listed = _call(
        "squeue", "--noheader", "--states=all", f"--user={getpass.getuser()}",
        "--format=%i|%j|%T|%r|%S|%k",
    )  # fmt: skip
    jobs = []
    for line in listed.splitlines():
        number, study, state, reason, began, comment = line.split("|", 5)
        mark, key, attempt, root = ([*comment.split(" ", 3), "", "", ""])[:4]
        if mark == _MARK and root == str(store.root.resolve()):
            jobs.append(Queued(number, study, key, int(attempt), state, reason, began))
    return sorted(jobs, key=lambda job: int(job.id))


def device_of(device: Device, cluster: Cluster) -> DeviceType:
    """What `auto` means on the cluster's nodes: a GPU where the page or `extra` asks for some."""
    if device != "auto":
        return device
    asks = any(re.match(r"--(gpus|gres=\S*gpu|tres-per-task=\S*gpu)", w) for w in cluster.extra)
    return "cuda" if cluster.gpus or asks else "cpu"


class Slurm:
    """Sends runs to the queue, at most so many at a time."""

    outlives = True

    def __init__(self, slots: int, store: Store, cluster: Cluster, study: str) -> None:
        self.slots, self.store, self.cluster, self.study = slots, store, cluster, study
        self.jobs: dict[str, Queued] = {}
        self._asked = -math.inf
        (store.root / "jobs").mkdir(exist_ok=True)
        self.look()

    def start(self, job_spec: JobSpec, slot: int) -> "SlurmJob":
        """Send an attempt to the queue, unless a job for its run is there."""
        del slot
        folder = self.store.root / "jobs" / job_spec.spec.key
        folder.mkdir(exist_ok=True)
        with locked(folder.parent / ".lock"):
            self.look()
            for job in self.jobs.values():
                if job.key == job_spec.spec.key and not job.over and not self._recorded(job):
                    return SlurmJob(job.id, self, job_spec)
            number = self._send(job_spec, folder)
            self.look()
        return SlurmJob(number, self, job_spec)

    def _recorded(self, job: Queued) -> bool:
        """Whether an attempt that a job was sent for, or queued again for, has left a record."""
        newest = self.store.latest(job.key, job.attempt)
        attempts = range(job.attempt, newest + 1)
        return any(
            self.store.folder(job.key, number).is_dir()
            and self.store.read(job.key, number).state == "recorded"
            for number in attempts
        )

    def wait(self, jobs: Iterable[Job]) -> None:
        """Let a moment pass, and ask the queue now and then."""
        del jobs
        time.sleep(_POLL_S)
        if time.monotonic() - self._asked >= _LOOK_S:
            self.look()

    def close(self) -> None:
        """The queue needs nobody."""

    def look(self) -> None:
        """Ask the queue; where it does not answer, what it last said stands."""
        try:
            self.jobs = {job.id: job for job in queued(self.store)}
        except UserError:
            if self._asked == -math.inf:
                raise
        self._asked = time.monotonic()

    def _send(self, job_spec: JobSpec, folder: Path) -> str:
        path = folder / f"order-{job_spec.attempt}.json"
        write_job_spec(job_spec, path)
        words = [*_THIS_MODULE, "batch", str(path)]
        lines = ["#!/bin/sh", *self.cluster.setup, f"exec {shlex.join(words)}", ""]
        answer = _call(
            "sbatch", *options(self.cluster, job_spec),
            "--parsable", "--requeue", "--open-mode=append", f"--output={folder / 'log.txt'}",
            f"--job-name={self.study}",
            f"--comment={_MARK} {job_spec.spec.key} {job_spec.attempt} {job_spec.store}",
            text="\n".join(lines),
        )  # fmt: skip
        # A federation adds the cluster's name.
        return answer.strip().partition(";")[0]


@dataclass
class SlurmJob:
    """A run's job in the queue, through however many starts."""

    id: str
    launcher: Slurm
    job_spec: JobSpec
    _held: str = field(default="", init=False)  # the start in which the run was seen held
    _silent: float = field(default=math.inf, init=False)  # since when it is not

    @property
    def state(self) -> str:
        """What the queue says, unless it simply runs."""
        job = self.launcher.jobs.get(self.id)
        return "" if job is None or job.state == "RUNNING" else job.words

    def ended(self) -> Ending | None:
        """How it ended; None while the queue has it and it has left no record."""
        attempt = self._attempt()
        if attempt and attempt.record:
            return Ending("ended")
        job = self.launcher.jobs.get(self.id)
        if job is None:
            return Ending("ended", f"was lost: the queue has forgotten job {self.id}")
        if job.over:
            return self._judge(job)
        if self._is_dead(job, attempt):
            self.kill()
            return Ending("ended", f"died in job {self.id} without a word")
        return None

    def stop(self) -> None:
        """Ask it to leave a checkpoint and end; without a start it has nothing to leave."""
        attempt = self._attempt()
        if attempt and attempt.state == "running":
            self.launcher.store.request(attempt.folder, "stop")
        else:
            self.kill()

    def kill(self) -> None:
        """End it now."""
        subprocess.run(["scancel", self.id], check=False, timeout=_ANSWER_S)

    def _attempt(self) -> Attempt | None:
        store, key = self.launcher.store, self.job_spec.spec.key
        number = store.latest(key, self.job_spec.attempt)
        return store.read(key, number) if store.folder(key, number).is_dir() else None

    def _judge(self, job: Queued) -> Ending:
        code, killed_by = exit_code(self.id)
        how = f"was lost with job {self.id} ({job.state.lower().replace('_', ' ')}"
        how += f", exit code {code}" if code else f", signal {killed_by}" if killed_by else ""
        how += f"; see also jobs/{job.key}/log.txt)"
        kind: Literal["ended", "taken", "stopped", "out-of-memory"] = "ended"
        if job.state == "CANCELLED" or code == _STOPPED:
            kind = "stopped"
        elif code == _TAKEN:
            kind = "taken"
        elif job.state == "OUT_OF_MEMORY":
            kind = "out-of-memory"
        return Ending(kind, how)

    def _is_dead(self, job: Queued, attempt: Attempt | None) -> bool:
        """Whether the run was held since the job began, and long is no more.

        Never held: it is starting, or locks are not seen across this cluster's hosts.
        """
        if job.state != "RUNNING":
            return False
        if attempt and attempt.state == "running":
            self._held, self._silent = job.began, time.monotonic()
        return self._held == job.began and time.monotonic() - self._silent > _SILENT_S


def options(cluster: Cluster, job_spec: JobSpec) -> list[str]:
    """The options of sbatch for a job spec on a cluster."""
    tasks = job_spec.devices // cluster.nodes
    wanted = {
        "nodes": cluster.nodes,
        "ntasks-per-node": tasks,
        "cpus-per-task": job_spec.threads,
        "signal": f"B:USR1@{cluster.grace_s}",
        "gpus-per-node": cluster.gpus,
        "partition": cluster.partition,
        "account": cluster.account,
        "qos": cluster.qos,
        "constraint": cluster.constraint,
        "time": None if cluster.hours is None else math.ceil(60 * cluster.hours),
        "mem": None if cluster.memory_gb is None else f"{math.ceil(1024 * cluster.memory_gb)}M",
    }
    words = [f"--{name}={value}" for name, value in wanted.items() if value is not None]
    return words + list(cluster.extra)


def exit_code(job: str) -> tuple[int, int]:
    """The exit code of a job that is over, and what killed it; 0 where nothing is known."""
    try:
        shown = _call("scontrol", "--oneliner", "show", "job", job)
    except UserError:
        return 0, 0
    codes = re.search(r"\bExitCode=(\d+):(\d+)", shown)
    return (int(codes[1]), int(codes[2])) if codes else (0, 0)


def _call(*words: str, text: str | None = None) -> str:
    """What a command of SLURM prints; UserError with its first complaint where it fails."""
    # Started from inside a job, sbatch would take that job's settings for ours.
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SLURM_") or name == "SLURM_CONF" or words[0] != "sbatch"
    }
    try:
        done = subprocess.run(
            words, input=text, env=environment, capture_output=True, text=True, timeout=_ANSWER_S
        )
    except FileNotFoundError:
        raise UserError(f"--launcher slurm: there is no {words[0]} on this host") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"{words[0]} did not answer within {_ANSWER_S} s") from None
    if done.returncode:
        complaint = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]
        raise UserError(f"{words[0]}: {complaint.removeprefix(f'{words[0]}: error: ')}")
    return done.stdout


def batch(path: Path) -> int:
    """The job's batch step: start the ranks, pass signals on, and be queued again if need be."""
    job_spec = read_job_spec(path)
    key, store, job = job_spec.spec.key, Store(job_spec.store), os.environ["SLURM_JOB_ID"]
    newest = store.scan([key]).get(key)
    if newest and newest.number >= job_spec.attempt:
        if newest.state == "recorded":
            return 0
        if newest.state == "running":
            return _TAKEN
        job_spec = replace(job_spec, attempt=newest.number + 1)
        path = path.with_name(f"order-{job_spec.attempt}.json")
        write_job_spec(job_spec, path)

    def answer(number: int, frame: FrameType | None) -> None:
        del number, frame
        # To the ranks alone: it leaves a checkpoint there.
        subprocess.run(["scancel", "--signal=TERM", job], check=False)

    signal.signal(signal.SIGUSR1, answer)
    signal.signal(signal.SIGTERM, answer)
    _verdict_file(path).unlink(missing_ok=True)  # of an earlier start, which claimed nothing
    # Not at once when a rank ends: the first one then still writes the record or the checkpoint.
    ranks = subprocess.Popen(
        [
            "srun", "--kill-on-bad-exit=0", f"--wait={_PARTING_S}",
            f"--cpus-per-task={job_spec.threads}",
            *_THIS_MODULE, "rank", str(path),
        ]
    )  # fmt: skip
    code = ranks.wait()
    if code == 128 + signal.SIGTERM:  # just begun, a rank has no answer to it yet
        code = _STOPPED
    elif code in EXIT_CODES.values() and code != EXIT_CODES[_verdict(path)]:
        code = 1  # it is a model's
    asked = store.requested(store.folder(key, job_spec.attempt)) == "stop"
    # A job that is being cancelled would be queued again, too.
    if code == _STOPPED and not asked and _state(job) == "RUNNING":
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _call("scontrol", "requeue", job)
        time.sleep(_PARTING_S)  # SLURM ends this step
    return code


def _state(job: str) -> str:
    return _call("squeue", "--noheader", f"--jobs={job}", "--format=%T").strip()


def rank(path: Path) -> int:
    """One rank of the job, started by srun."""
    # The imports take seconds.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_STOPPED))
    try:
        job_spec = read_job_spec(path)
        if job_spec.device == "cuda":
            devices.prepare_environment()
        worker = import_module(WORKER)
    except SystemExit:
        verdict: Verdict = "stopped"
    else:
        verdict = worker.main(job_spec, worker.Rank.of_slurm())
    # The first rank speaks for all.
    if os.environ.get("SLURM_PROCID", "0") == "0":
        _verdict_file(path).write_text(verdict, encoding="ascii")
        return EXIT_CODES[verdict]
    return 0 if verdict == "stopped" else EXIT_CODES[verdict]


def _verdict_file(order: Path) -> Path:
    return order.with_name(order.name.replace("order-", "verdict-")).with_suffix(".txt")


def _verdict(order: Path) -> Verdict:
    """The verdict of the first rank; where it gave none, what it would be with a record."""
    try:
        text = _verdict_file(order).read_text(encoding="ascii")
    except OSError:
        return "recorded"
    return next((verdict for verdict in EXIT_CODES if verdict == text), "recorded")


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        # It may still be in a process group, which it is not to wait for.
        end_now(rank(Path(sys.argv[2])))
    sys.exit(batch(Path(sys.argv[2])))
