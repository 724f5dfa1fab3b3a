"""The picture of a terminal: the letters that a program leaves on it, and where they stand."""

import re

from bench.terminal_picture import Screen
from tests.kit.terminal import COLUMNS, LINES


def texts(screen: Screen) -> list[str]:
    return re.findall(r">([^<>\n]+)</text>", screen.picture())


def test_lines_are_overwritten_and_erased() -> None:
    screen = Screen()
    screen.write("first\r\nsecond\x1b[1A\x1b[3D\x1b[K!\r\n\x1b[2Cc\b\x1b[0mC")

    assert texts(screen) == ["fir!", "seCond"]
    assert screen.place == (2, 4)
    screen.write("\x1b[1;1H\x1b[J")
    assert texts(screen) == []


def test_styles_are_drawn_and_titles_are_not() -> None:
    screen = Screen()
    screen.write("\x1b]0;title\x07a\x1b[1mb\x1b[0;7m <c> \x1b[m")

    picture = screen.picture()
    assert texts(screen) == ["a", "b", " &lt;c&gt;"]
    assert picture.count('font-weight="bold"') == 1
    assert picture.count("<rect") == 2


def test_a_full_screen_scrolls() -> None:
    screen = Screen()
    screen.write("\r\n".join(map(str, range(LINES + 2))))

    assert (texts(screen)[0], texts(screen)[-1]) == ("2", str(LINES + 1))


def test_long_lines_go_on_below_unless_they_are_cut() -> None:
    screen = Screen()
    screen.write("x" * COLUMNS + "y\x1b[?7l" + "z" * COLUMNS)

    assert texts(screen) == ["x" * COLUMNS, "y" + "z" * (COLUMNS - 1)]


def test_many_empty_lines_are_one() -> None:
    screen = Screen()
    screen.write("a\r\n\r\n\r\n\r\nb")

    assert 'height="82"' in screen.picture()
