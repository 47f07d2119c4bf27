"""Renderers: Markdown, LaTeX, HTML, CSV, Parquet and the terminal."""
