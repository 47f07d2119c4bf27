"""Tables of a report: numbers with intervals, footnotes and columns, before rendering."""
