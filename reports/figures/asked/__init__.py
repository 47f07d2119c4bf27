"""Figures that a page asks for: their content from named axes, and how it is drawn."""
