"""Data modules that give every architecture the same data, and the catalogue of data sets."""
