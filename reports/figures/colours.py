"""The two colours of figures that a page knows, kept apart from what draws with them."""

# Text and axes are drawn in this ink, which a page may replace by its own colour.
INK = "#1f2328"
# A file stands on paper of its own, for readers with a dark page.
PAPER = "#ffffff"
