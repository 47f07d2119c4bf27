"""Rehearsal: every distinct run of studies at its true shapes, for two steps on a few examples."""
