"""Reports: from a study's plan and records to statistics, tables, figures and pages, without torch.

`from_plan` reads the runs and `request` holds what is asked of them; `build`, which is pure, makes
them into a `report`, whose schema is report.json. Its parts come from `statistics` (samples,
paired tests, rankings), `tables` (one module a table), `text` (findings, comparisons, provenance,
formatted numbers) and `figures` (captions, then drawing in processes of its own). `render` writes
the report as Markdown, LaTeX, HTML, CSV, Parquet or for the terminal. `published` holds printed
tables as YAML, `SCHEMA.md` the columns of CSV and Parquet. `inputs_digest` tells whether a report
on disk is current.
"""
