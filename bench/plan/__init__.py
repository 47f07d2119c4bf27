"""Planning: which runs of a study are done, stale or missing, and the digests that tell."""
