"""Output and failures of commands: a table or JSON on standard output, one plain line on standard
error. Knows no command.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TextIO

from raftka.cli.columns import COLUMNS, colour_of
from raftka.json_values import Json

P = ParamSpec("P")

FAILED, PARTIAL, INTERRUPTED = 1, 3, 130  # exit codes; click's for wrong usage is 2
_lacks = ContextVar("lacks", default=False)  # the command's answer lacks what a broker has not said


class CommandFailed(Exception):
    """The text is for the user."""


def show(
    rows: Iterable[Mapping[str, Json]], columns: Sequence[str], output: str, *, own: bool = False
) -> None:
    """`rows` as a table of these columns, or as JSON, one object a line: the names of columns are
    the keys.

    `own`: the columns are those of the data, not of the command line. Raises KeyError for a column
    that is neither.
    """
    if unknown := [name for name in columns if not own and name not in COLUMNS]:
        raise KeyError(f"{unknown[0]} is no column of raftka/cli/columns.py")
    if output == "json":
        for row in rows:
            print(json.dumps({**dict.fromkeys(columns), **row}, default=str))
        return
    rows = list(rows)
    if not rows:
        return
    is_coloured = has_colours(sys.stdout)
    aligned = [_aligned(name, rows) for name in columns]
    lines = zip(*aligned, strict=True)
    header = "  ".join(next(lines)).rstrip()
    if len(columns) > 1:
        print(_styled(header, "bold" if is_coloured else None))
    for row, cells in zip(rows, lines, strict=True):
        colours = [colour_of(name, row) if is_coloured else None for name in columns]
        # the last column needs no padding
        texts = [*cells[:-1], cells[-1].rstrip()]
        print("  ".join(map(_styled, texts, colours)))


def _aligned(name: str, rows: Sequence[Mapping[str, Json]]) -> list[str]:
    """Return the cells of a column, its name the first, all of one width: numbers at the right."""
    values = [row.get(name) for row in rows]
    cells = [name, *map(_cell, values)]
    width = max(map(len, cells))
    is_number = all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        for value in values
    ) and any(value is not None for value in values)
    return [cell.rjust(width) if is_number else cell.ljust(width) for cell in cells]


def _cell(value: Json) -> str:
    if isinstance(value, list | tuple):
        return printable(",".join(map(str, value))) or "-"
    return "-" if value is None else printable(str(value))


def printable(text: str) -> str:
    """Return the text with control characters as \\xNN: names come from others, and a terminal acts
    on them.
    """
    return text if text.isprintable() else text.translate(CONTROLS)


def has_colours(stream: TextIO) -> bool:
    """Return whether `stream` is a terminal with colours, which NO_COLOR does not forbid."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
STYLES = {"bold": "1", "red": "31", "green": "32", "yellow": "33"}


def _styled(text: str, style: str | None) -> str:
    return text if style is None else f"\033[{STYLES[style]}m{text}\033[0m"


def command(verb: Callable[P, None]) -> Callable[P, int]:
    """Makes the exit code: a failure is one line on standard error and 1; an answer that lacks what
    a broker has not said is 3.
    """

    @wraps(verb)
    def framed(*args: P.args, **kwargs: P.kwargs) -> int:
        from raftka.client.blocking.connection import ClientError
        from raftka.wire.errors import KafkaError

        _lacks.set(False)
        try:
            verb(*args, **kwargs)
        except KeyboardInterrupt:
            return INTERRUPTED
        except BrokenPipeError:  # who read us has enough
            sys.stdout = None  # nothing left to flush at exit
        except (CommandFailed, ClientError, KafkaError, OSError) as error:
            return fail(str(error), FAILED)
        return PARTIAL if _lacks.get() else 0

    return framed


def check_fields(row: object, known: Sequence[str], where: str) -> None:
    """Raise CommandFailed for a field of a JSON object that would be dropped."""
    unknown = [str(name) for name in row if name not in known] if isinstance(row, dict) else []
    if unknown:
        raise CommandFailed(
            f"{where}: there is no field {unknown[0]}; there are {', '.join(known)}"
        )


def warn(text: str) -> None:
    _say(f"warning: {text}", "yellow")


def warn_of_lack(text: str) -> None:
    """Warn that the command's answer is not complete: its exit code says so, too."""
    _lacks.set(True)
    warn(text)


def fail(text: str, code: int) -> int:
    """Say what failed; returns the exit code."""
    _say(text, "red")
    return code


def _say(text: str, style: str) -> None:
    text = "\n".join(map(printable, text.split("\n")))
    print(
        f"{_styled('raftka:', style if has_colours(sys.stderr) else None)} {text}", file=sys.stderr
    )
