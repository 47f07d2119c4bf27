"""Tiers of evidence beside the verdicts of sign flips: Welch, equivalence, new examples."""
