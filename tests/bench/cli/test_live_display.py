"""The lines that `bench run` prints of its runs."""

from io import StringIO

from rich.console import Console

from lightning_bench.bench.cli.live_display import RunDisplay
from lightning_bench.bench.plan.plan import PlannedRun
from lightning_bench.bench.study.study import Run
from tests.factory import SPEC, record


def test_a_run_that_could_not_go_on_from_its_checkpoint_is_told_of() -> None:
    planned = PlannedRun(Run("A", "digits", SPEC), "missing", "", 1.0, None, {})
    told = StringIO()
    display = RunDisplay(Console(file=told, width=200), [planned], 1, quiet=True)
    display.finished(planned, record())
    assert not told.getvalue()
    display.finished(planned, record(afresh="attempt 1 was made with other devices"))
    assert told.getvalue() == (
        "afresh  A · digits · seed 0  attempt 1 was made with other devices\n"
    )


def test_a_run_is_told_with_the_metrics_of_its_data_set_alone() -> None:
    planned = PlannedRun(Run("A", "digits", SPEC), "missing", "", 1.0, None, {})
    told = StringIO()
    metrics = {"macro_f1": 0.5, "nll": 0.3, "accuracy": 0.75, "accuracy_shift1": 0.7, "ece": 0.1}
    with RunDisplay(Console(file=told, width=200), [planned], 1) as display:
        display.finished(planned, record(metrics=metrics))
    assert told.getvalue().startswith(
        "[1/1] A · digits · seed 0  accuracy 0.7500  accuracy_shift1 0.7000  "
    )
