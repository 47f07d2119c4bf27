"""Cluster resources that a page or the command line asks for each run."""

from typing import Annotated, Any

from pydantic import Field, field_validator

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.spec import Settings


class Cluster(Settings):
    """Resources of a run's job. None is left to the cluster."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    nodes: Annotated[int, Field(ge=1, description="share the run's devices equally")] = 1
    gpus: Annotated[
        str | None, Field(pattern=r"^([\w.-]+:)?\d+$", description="of a node: 4, or a100:4")
    ] = None
    memory_gb: Annotated[float, Field(gt=0, description="of a node")] | None = None
    hours: Annotated[float, Field(gt=0, description="the job's time limit")] | None = None
    grace_s: Annotated[int, Field(ge=10, description="checkpoint so long before the limit")] = 120
    extra: Annotated[list[str], Field(description="further options of sbatch")] = []
    setup: Annotated[list[str], Field(description="shell lines before: module load cuda")] = []

    @field_validator("extra", "setup", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        """`extra: --exclusive` is short for a list of one."""
        return [value] if isinstance(value, str) else value

    @field_validator("gpus", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        """`gpus: 4` is a number on the page."""
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    def devices(self, given: int | None) -> int:
        """The devices of a run, those of all nodes where the number is not given."""
        there = self.nodes * int(self.gpus.rpartition(":")[2]) if self.gpus else None
        devices = given or there or self.nodes
        if there not in (None, devices):
            raise UserError(
                f"cluster: {self.nodes} × {self.gpus} GPUs are not the {devices} of --devices"
            )
        if devices % self.nodes:
            raise UserError(f"cluster: {self.nodes} nodes can't share {devices} devices equally")
        return devices
