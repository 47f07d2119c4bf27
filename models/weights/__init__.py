"""Published and pre-trained weights: reading, converting from timm, resetting heads."""
