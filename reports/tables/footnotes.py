"""Footnotes of a table."""

from lightning_bench.reports.report import Note


class Notes:
    """Collects notes: one letter for each different text."""

    def __init__(self) -> None:
        self.marks: dict[str, str] = {}

    def mark(self, text: str) -> str:
        """The letter of this text, a new one for a new text: a, b, … z, aa, ab, …."""
        if text not in self.marks:
            index, letters = len(self.marks) + 1, ""
            while index:
                index, rest = divmod(index - 1, 26)
                letters = chr(ord("a") + rest) + letters
            self.marks[text] = letters
        return self.marks[text]

    def all(self) -> list[Note]:
        """The notes in the order of their letters."""
        return [Note(mark=mark, text=text) for text, mark in self.marks.items()]
