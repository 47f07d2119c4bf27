"""The store: records, trials, measurement sessions, predictions and provenance on disk."""
