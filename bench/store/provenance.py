"""Provenance of results: hardware, packages, code revision, command line. Never a secret."""

import json
import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path

import lightning_bench
from lightning_bench.bench.store.record import Environment, Gpu, Provenance

#: Variables that decide threads, kernels or precision. Only these are ever recorded, and those that
#: begin as _PREFIXES do.
_SETTINGS = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_ORDER",
    "KMP_AFFINITY",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
)
_PREFIXES = ("NCCL_", "TORCH_NCCL_")
#: The variables that say which GPUs a process may use; the first one that is set counts.
VISIBLE = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


def environment(
    gpus: Sequence[str], *, driver: str = "", libraries: Mapping[str, str] | None = None
) -> Environment:
    """This machine and what is installed on it; the caller, who knows torch, tells of the GPUs.

    Which of them a run may use is the run's own: runs in different slots share an environment.
    """
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        cpu=cpu_model(),
        cores=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        gpus=list(gpus),
        packages=packages(),
        settings={
            name: value
            for name, value in sorted(os.environ.items())
            if name in _SETTINGS or name.startswith(_PREFIXES)
        },
        driver=driver,
        libraries=dict(libraries or {}),
    )


def collect(
    *,
    sources: Mapping[str, str],
    command: list[str],
    environment: str | None,
    device: str,
    devices: int,
    threads: int,
    strategy: str | None = None,
    compiled: bool = False,
    gpus: Sequence[Gpu] = (),
    hosts: Sequence[str] = (),
    sharing: int = 1,
) -> Provenance:
    """The provenance of a result that this process computes, on this host and maybe on others."""
    commit, dirty = revision()
    return Provenance(
        environment=environment,
        sources=dict(sources),
        command=command,
        bench_version=lightning_bench.__version__,
        git_revision=commit,
        git_dirty=dirty,
        host=host(),
        device=device,
        devices=devices,
        threads=threads,
        strategy=strategy,
        compiled=compiled,
        device_kind=" + ".join(dict.fromkeys(gpu.name for gpu in gpus)),
        gpus=list(gpus),
        visible_devices=visible_devices() or "" if device == "cuda" else "",
        hosts=[] if len(set(hosts)) == 1 else list(hosts),
        sharing=sharing,
    )


def host() -> str:
    """This host's name, on a cluster the one by which SLURM's commands know it."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def visible_devices() -> str | None:
    """The GPUs that the environment lets this process use; None where it does not say."""
    return next((os.environ[name] for name in VISIBLE if name in os.environ), None)


def now() -> str:
    """This moment in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@cache
def packages() -> dict[str, str]:
    """Every installed distribution and its version."""
    versions = {
        d.metadata["Name"]: d.version for d in metadata.distributions() if d.metadata["Name"]
    }
    return dict(sorted(versions.items(), key=lambda item: item[0].lower()))


@cache
def revision() -> tuple[str | None, bool | None]:
    """The git revision that this bench was run or installed from, and whether it was dirty."""
    folder = Path(lightning_bench.__file__).parent
    head = _git(folder, "rev-parse", "HEAD")
    if head:
        return head, bool(_git(folder, "status", "--porcelain", "--untracked-files=no"))
    try:
        origin = metadata.distribution("lightning-bench").read_text("direct_url.json")
    except metadata.PackageNotFoundError:  # an unpacked archive, neither installed nor a checkout
        return None, None
    commit = json.loads(origin or "{}").get("vcs_info", {}).get("commit_id")
    return commit, None if commit is None else False


def command_line() -> list[str]:
    """The command as typed, with any password inside an address left out."""
    return [re.sub(r"(://[^:/@\s]+):[^@\s]+@", r"\1:***@", word) for word in sys.argv]


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints, or None outside a checkout of ours or without git."""
    try:
        # A virtual environment inside somebody's checkout is not our source.
        if "site-packages" in folder.parts:
            return None
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def cpu_model() -> str:
    """The processor's model, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
