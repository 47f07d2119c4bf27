"""`bench sync`: send what the store holds to a tracker, all of it, again if need be."""

from typing import Annotated

import typer

from lightning_bench.bench.cli import options
from lightning_bench.bench.cli.options import demand_attempts, make_plan, open_study
from lightning_bench.bench.errors import UserError
from lightning_bench.common.messages import nearest


def sync_command(
    name: options.StudyName,
    scale: options.Scale = None,
    settings: options.Settings = None,
    store: options.StoreFolder = options.DEFAULT_STORE,
    to: Annotated[str, typer.Option(help="wandb, tensorboard or csv.")] = "wandb",
    offline: Annotated[
        bool, typer.Option("--offline", help="Write W&B's files, send nothing.")
    ] = False,
) -> None:
    """Send a study's records and report to a tracker; the store stays the only truth."""
    from lightning_bench.bench.tracking import TRACKERS

    if to not in TRACKERS:
        raise UserError(f"unknown tracker {to!r}{nearest(to, TRACKERS)}")
    study, opened = open_study(name, scale, settings, store)
    plan = make_plan(study, opened)
    demand_attempts(plan, opened)
    from lightning_bench.bench.cli import build_report
    from lightning_bench.bench.tracking.events import Reported, Tracker, replay
    from lightning_bench.bench.tracking.mirror import make
    from lightning_bench.reports.render.write import TRACKED

    if to == "wandb":
        from lightning_bench.bench.tracking import weights_and_biases

        if not offline and not weights_and_biases.has_credentials():
            raise UserError("no W&B credentials: wandb login, or set WANDB_API_KEY, or --offline")
        tracker: Tracker = weights_and_biases.WeightsAndBiases(
            opened.root, study.name, study.scale, "offline" if offline else "online"
        )
    else:
        tracker = make(to, opened.root, study.name, study.scale)
    target = build_report.folder(study, opened, settings or [])
    build_report.make(plan, opened, target, TRACKED)
    for event in [*replay(plan), Reported(target)]:
        tracker.take(event)
    typer.echo(tracker.close())
