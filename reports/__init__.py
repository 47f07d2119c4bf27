"""From records to statistics to tables and figures, without torch.

Runs and a request (`table`) become a Report in `build`, which is pure: `samples` sorts the runs,
`ranking` tests them (with `statistics`), `results`, `against`, `across` and `costs` make the
tables, `findings` and `facts` say in words what holds and where it comes from, `captions` names the
figures, `search` and `effort` tell of tuning. `write` puts the report into files, through
`markdown`, `latex`, `html`, `tidy` and `figures`; `terminal` prints it and, like `digest`, needs
nothing heavy.
"""
