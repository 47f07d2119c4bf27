"""Several data sets at once: one scale for all, mean ranks, probability of improvement."""
