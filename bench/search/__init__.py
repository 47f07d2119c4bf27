"""Search: the same tuning budget for every entry, and a ledger of what was spent.

What may be tuned is in `bench.study` (`search_space`, `search_settings`, `search_cell`), and what a
trial leaves is `bench.store.trial`; `ledger` reads it, without Optuna. `optuna_study` wraps one
Optuna study (`optuna_storage`, `samplers`), and `tuner` is the parent's loop over all of them.
"""
