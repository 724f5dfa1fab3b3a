"""A terminal's screen, from the bytes that a program writes to it, and its picture as SVG."""

import html
import re
from typing import NamedTuple

from tests.kit.terminal import COLUMNS, CURSOR, LINES, Terminal

# a control sequence (its parameters and its last letter), a title, another escape, a sign
PART = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[^\[\]]|(.)", re.DOTALL)
WRAPPING = "?7"  # of long lines
BOLD, REVERSED, PLAIN_TEXT = 1, 7, 0
BACKGROUNDS = {*range(40, 49), *range(100, 108)}
WIDTH, HEIGHT, MARGIN = 7.8, 18, 14  # of a letter, of a line, around all: in pixels
PAPER, INK, BAR = "#10161d", "#e6edf3", "#2c3644"


class Letter(NamedTuple):
    sign: str = " "
    is_bold: bool = False
    is_reversed: bool = False


EMPTY = [Letter()] * COLUMNS


class Screen:
    """Of LINES lines, which scroll."""

    def __init__(self) -> None:
        self._lines = [list(EMPTY) for _ in range(LINES)]
        self._line = self._column = 0
        self._style = Letter()
        self._wraps = True

    @property
    def place(self) -> tuple[int, int]:
        """Return line and column of the cursor, from 1."""
        return self._line + 1, self._column + 1

    def write(self, text: str) -> None:
        for match in PART.finditer(text):
            if match[2] is not None:
                self._control(match[2], match[1])
            elif match[3] is not None:
                self._sign(match[3])

    def picture(self) -> str:
        """Return an SVG of the lines; many empty ones together are one."""
        lines: list[list[Letter]] = []
        for line in [*self._lines, EMPTY]:
            if line != EMPTY or lines[-1:] != [EMPTY]:
                lines.append(line)
        lines.pop()
        width, height = 2 * MARGIN + WIDTH * COLUMNS, 2 * MARGIN + HEIGHT * len(lines)
        made = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
            'font-family="monospace" font-size="13">',
            f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>',
        ]
        for number, line in enumerate(lines):
            made += _drawn(line, MARGIN + HEIGHT * number)
        return "\n".join([*made, "</svg>\n"])

    def _sign(self, sign: str) -> None:
        if sign == "\r":
            self._column = 0
        elif sign == "\n":
            self._line += 1
            if self._line == LINES:
                self._line -= 1
                self._lines = [*self._lines[1:], list(EMPTY)]
        elif sign == "\b":
            self._column = max(0, self._column - 1)
        elif sign.isprintable():
            if self._column == COLUMNS:
                if not self._wraps:
                    return
                self.write("\r\n")
            self._lines[self._line][self._column] = self._style._replace(sign=sign)
            self._column += 1

    def _control(self, letter: str, parameters: str) -> None:
        numbers = [int(each) for each in re.findall(r"\d+", parameters)]
        first = numbers[0] if numbers else 0
        match letter:
            case "A" | "B":
                step = max(first, 1) * (1 if letter == "B" else -1)
                self._line = min(max(self._line + step, 0), LINES - 1)
            case "C" | "D":
                step = max(first, 1) * (1 if letter == "C" else -1)
                self._column = min(max(self._column + step, 0), COLUMNS - 1)
            case "H":
                self._line, self._column = max(first, 1) - 1, ([*numbers, 1, 1][1]) - 1
            case "J" | "K":
                self._erase(letter == "J", is_all=first == 2)
            case "h" | "l" if parameters == WRAPPING:
                self._wraps = letter == "h"
            case "m":
                self._set_style(numbers)

    def _erase(self, below: bool, *, is_all: bool) -> None:
        begin = 0 if is_all else self._column
        self._lines[self._line][begin:] = EMPTY[begin:]
        if below:
            for number in range(0 if is_all else self._line + 1, LINES):
                self._lines[number] = list(EMPTY)

    def _set_style(self, numbers: list[int]) -> None:
        if not numbers or numbers[0] == PLAIN_TEXT:
            self._style = Letter()
        if BOLD in numbers:
            self._style = self._style._replace(is_bold=True)
        if REVERSED in numbers or BACKGROUNDS & set(numbers):
            self._style = self._style._replace(is_reversed=True)


def _drawn(line: list[Letter], top: float) -> list[str]:
    """Return the parts of a line, each of one style."""
    made, begin = [], 0
    for end in range(1, COLUMNS + 1):
        style = line[begin]._replace(sign="")
        if end < COLUMNS and line[end]._replace(sign="") == style:
            continue
        text = "".join(each.sign for each in line[begin:end])
        left, width = MARGIN + WIDTH * begin, WIDTH * (end - begin)
        if style.is_reversed:
            made.append(
                f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{HEIGHT}" '
                f'fill="{BAR}"/>'
            )
        if text.strip():
            text = text.rstrip()
            weight = ' font-weight="bold"' if style.is_bold else ""
            made.append(
                f'<text x="{left:.1f}" y="{top + 13}" fill="{INK}" xml:space="preserve" '
                f'textLength="{WIDTH * len(text):.1f}"{weight}>{html.escape(text)}</text>'
            )
        begin = end
    return made


class PicturedTerminal(Terminal):
    """A terminal that says where its cursor is, and that can be drawn."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self.screen = Screen()
        super().__init__(arguments, environment)

    def show(self, data: bytes) -> None:
        before, *behind = data.decode(errors="replace").split(CURSOR.decode())
        self.screen.write(before)
        for each in behind:
            self.type("\x1b[{};{}R".format(*self.screen.place))
            self.screen.write(each)
