"""The error of a statement: a sentence, the line that it is about, and a caret below the place."""

BEFORE, SHOWN = 60, 100  # characters of a long line: before the place, and in all


class StatementError(Exception):
    """A statement that cannot be done. `str` of it is the text for a person."""

    def __init__(self, message: str, text: str = "", at: int | None = None) -> None:
        """`message`: the fault, and the next step. `at`: the place in `text`, in characters;
        None: no place.
        """
        super().__init__(message)
        self.message, self.text, self.at = message, text, at

    def __str__(self) -> str:
        if self.at is None or not self.text.strip():
            return self.message
        at = min(self.at, len(self.text.rstrip()))
        begin = self.text.rfind("\n", 0, at) + 1
        line = self.text[begin:].split("\n", 1)[0].rstrip("\r").replace("\t", " ")
        cut = max(0, at - begin - BEFORE)
        mark = "... " if cut else ""
        shown = mark + line[cut : cut + SHOWN]
        where = f"line {self.text.count(chr(10), 0, at) + 1}: " if "\n" in self.text.strip() else ""
        caret = " " * (len(where) + len(mark) + at - begin - cut) + "^"
        return f"{self.message}\n{where}{shown}\n{caret}"
