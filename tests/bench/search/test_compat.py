"""What is used of Optuna beyond its public interface, and the format of its journal."""

from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from lightning_bench.bench.search.compat import NumberedTrials
from lightning_bench.bench.search.optuna_journal import Journal


def journal(folder: Path) -> JournalStorage:
    return JournalStorage(Journal(folder / "journal.log"))


def study_of(storage: JournalStorage) -> optuna.Study:
    return optuna.create_study(storage=storage, study_name="s", load_if_exists=True)


def test_a_trial_is_begun_and_taken_over_by_its_number(tmp_path: Path) -> None:
    storage = journal(tmp_path)
    study = study_of(storage)
    for _ in range(3):
        study.add_trial(optuna.trial.create_trial(state=TrialState.WAITING))
    trials = NumberedTrials(study, storage)
    begun = trials.running(2, optuna.samplers.RandomSampler(seed=0))
    drawn = begun.suggest_float("lr", 0, 1)
    begun.report(0.5, 1)
    begun.set_user_attr("runs", ["k"])
    assert (len(trials), begun.number) == (3, 2)
    assert [trials.state(number) for number in range(3)] == [
        TrialState.WAITING,
        TrialState.WAITING,
        TrialState.RUNNING,
    ]
    # Another parent goes on with it: what was drawn stays as it is.
    storage = journal(tmp_path)
    study = study_of(storage)
    again = NumberedTrials(study, storage).running(2, optuna.samplers.RandomSampler(seed=1))
    assert again.suggest_float("lr", 0, 1) == drawn
    study.tell(2, 1.0)
    assert study.trials[2].intermediate_values == {1: 0.5}
    assert study.trials[2].user_attrs == {"runs": ["k"]}
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        again.set_user_attr("runs", [])


@pytest.mark.parametrize("ours_writes", [True, False])
def test_the_journal_is_one_of_optuna_s_own(tmp_path: Path, ours_writes: bool) -> None:
    theirs = JournalStorage(JournalFileBackend(str(tmp_path / "journal.log")))
    writer, reader = journal(tmp_path), theirs
    if not ours_writes:
        writer, reader = reader, writer
    study = study_of(writer)
    for value in (1.0, 2.0):
        trial = study.ask()
        trial.suggest_categorical("é", ["a", "b"])
        study.tell(trial, value)
        assert study_of(reader).trials == study.trials
    assert [trial.value for trial in study_of(reader).trials] == [1.0, 2.0]
