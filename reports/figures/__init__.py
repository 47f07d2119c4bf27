"""Figures: what is drawn from, how it looks, and the process that draws."""
