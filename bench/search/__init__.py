"""Search: the same tuning budget for every entry, and a ledger of what was spent.

`space` says what may be tuned and `page` what a study's page may say of it; `trial` is what a trial
leaves in the store, and `ledger` reads it, both without Optuna. `study` wraps one Optuna study
(`storage`, `samplers`), and `tune` is the parent's loop over all of them.
"""
