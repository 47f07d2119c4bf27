"""Weights & Biases: a run for each run, with the key as its id, and one for the report."""

import json
import netrc
import os
from pathlib import Path
from typing import Any, Literal

import wandb

from lightning_bench.bench.tracking.compat import private_settings
from lightning_bench.bench.tracking.events import (
    Began,
    Event,
    Finished,
    Progressed,
    Reported,
    curve_values,
    final_values,
)
from lightning_bench.common.files import read_regular

PROJECT = "lightning-bench"
Mode = Literal["online", "offline"]


def mode() -> Mode:
    """Online where there are credentials and nobody asked otherwise; never a prompt."""
    if os.environ.get("WANDB_MODE", "online") in {"offline", "dryrun", "disabled"}:
        return "offline"
    return "online" if has_credentials() else "offline"


def has_credentials() -> bool:
    """Whether an API key is at hand, in the environment or in the user's netrc."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai").split("//")[-1].split("/")[0]
    try:
        return netrc.netrc().authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


class WeightsAndBiases:
    """Writes to a W&B project, or to files below the store that can be sent later.

    A run's id is its key: sent again, or run again after an interruption, it is the same run.
    """

    def __init__(self, store: Path, study: str, scale: str, mode: Mode) -> None:
        self.folder, self.study, self.scale, self.mode = store, study, scale, mode
        self.open: dict[str, Any] = {}
        self.sent = 0
        (store / "wandb").mkdir(parents=True, exist_ok=True)
        # Artifacts are staged in the user's home otherwise.
        for variable in ("WANDB_DATA_DIR", "WANDB_CACHE_DIR", "WANDB_ARTIFACT_DIR"):
            os.environ.setdefault(variable, str((store / "wandb" / "staging").resolve()))

    def take(self, event: Event) -> None:
        """Show an event."""
        match event:
            case Began():
                self._leave(event.key)
                self.open[event.key] = self._init(
                    event.key, event.name, "train", event.config, event.tags
                )
                self.open[event.key].define_metric("*", step_metric="epoch")
            case Progressed():
                if run := self.open.get(event.key):
                    run.log({"epoch": event.epoch.epoch, **curve_values(event.epoch)})
            case Finished():
                self._finish(event)
            case Reported():
                self._report(event.folder)

    def close(self) -> str:
        """Finish all open runs; say where they are, and how those offline are sent."""
        for key in list(self.open):
            self._leave(key)
        if self.mode == "online":
            return (
                f"Weights & Biases: {self.sent} runs sent to project {PROJECT}, group {self.study}"
            )
        return (
            f"Weights & Biases: {self.sent} runs written offline to {self.folder}/wandb; with "
            f"credentials (wandb login), bench sync {self.study} sends them"
        )

    def _init(
        self, id_: str, name: str, job: str, config: dict[str, Any], tags: tuple[str, ...] = ()
    ) -> Any:
        return wandb.init(
            project=PROJECT,
            id=id_,
            name=name,
            group=f"{self.study}-{self.scale}",
            job_type=job,
            config=config,
            tags=[tag[:64] for tag in tags],
            dir=self.folder,
            mode=self.mode,
            resume="allow",
            reinit="create_new",
            settings=private_settings(),
        )

    def _finish(self, event: Finished) -> None:
        run = self.open.pop(event.key, None)
        if run is None:
            return
        record = event.record
        run.summary.update(final_values(record))
        run.summary["status"] = record.status
        if record.failure:
            run.summary["failure"] = f"{record.failure.kind}: {record.failure.message}"
        run.config.update({"provenance": record.provenance.model_dump(mode="json")})
        run.finish(exit_code=0 if record.status == "done" else 1)
        self.sent += 1

    def _report(self, folder: Path) -> None:
        report = json.loads(read_regular(folder / "report.json"))
        run = self._init(
            f"report-{folder.name.replace('+', '-')}", report["title"], "report",
            {"study": self.study, "scale": self.scale, "inputs": report["inputs"]},
        )  # fmt: skip
        run.log({f"tables/{table['id']}": _as_wandb(table) for table in report["tables"]})
        images = sorted((folder / "figures").glob("*.png"))
        run.log({f"figures/{path.stem}": wandb.Image(str(path)) for path in images})
        artifact = wandb.Artifact(f"report-{self.study}-{self.scale}", type="report")
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()):
            artifact.add_file(str(path), name=path.relative_to(folder).as_posix())
        run.log_artifact(artifact)
        run.finish()

    def _leave(self, key: str) -> None:
        """Finish a run that has left no record (yet)."""
        if run := self.open.pop(key, None):
            run.finish(exit_code=1)


def _as_wandb(table: dict[str, Any]) -> Any:
    """The table in the form of W&B: numbers unrounded, uncertainty in columns of its own."""
    columns: list[str | int] = ["entry", "group", "source"]
    for column in table["columns"]:
        name = " ".join(part for part in (column["title"], column["metric"]) if part)
        columns += [name, f"{name}: low", f"{name}: high", f"{name}: n"]
    wandb_table = wandb.Table(columns=columns)
    for row in table["rows"]:
        cells: list[Any] = []
        for cell in row["cells"]:
            cells += [cell["value"], cell["low"], cell["high"], cell["n"]]
        wandb_table.add_data(row["label"], row["group"], row["source"], *cells)
    return wandb_table
