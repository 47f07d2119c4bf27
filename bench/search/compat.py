"""Optuna beyond its public interface, in one place: trials that are addressed by their numbers.

`Study.ask` hands out trials in an order of its own, each to whoever asked. Here a number is claimed
in the store (`ledger`), and whoever holds the claim, after a crash another process, goes on with
that trial. So it is found by its number, set running and made an `optuna.Trial`, all of which
Optuna can do but doesn't promise: tests/bench/search/test_compat.py fails where that changes.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import optuna
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage


class NumberedTrials:
    """The trials of one Optuna study by their numbers."""

    def __init__(self, study: "optuna.Study", storage: "BaseStorage") -> None:
        self._study, self._storage = study, storage
        self._study_id = storage.get_study_id_from_name(study.study_name)

    def __len__(self) -> int:
        """How many trials the study has, without reading them."""
        return self._storage.get_n_trials(self._study_id)

    def state(self, number: int) -> "optuna.trial.TrialState":
        """What the storage says of a trial."""
        return self._storage.get_trial(self._id(number)).state

    def running(self, number: int, sampler: "BaseSampler") -> "optuna.Trial":
        """A trial that is not over, running from now on; the sampler draws what it lacks."""
        import optuna

        if self.state(number) is optuna.trial.TrialState.WAITING:
            self._storage.set_trial_state_values(self._id(number), optuna.trial.TrialState.RUNNING)
        self._study.sampler = sampler
        return optuna.Trial(self._study, self._id(number))

    def _id(self, number: int) -> int:
        return self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
