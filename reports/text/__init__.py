"""Sentences of a report: findings, comparisons, provenance, and formatted numbers."""
