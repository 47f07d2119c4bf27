"""Layers of the text models: token embedding, encoder states kept on disk, heads."""
