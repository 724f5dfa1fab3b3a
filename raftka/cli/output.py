"""Output and failures of commands: a table or JSON on standard output, one plain line on standard
error. Knows no command.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec

from raftka.json_values import Json

P = ParamSpec("P")


class CommandFailed(Exception):
    """The text is for the user."""


def show(rows: Iterable[Mapping[str, Json]], columns: Sequence[str], output: str) -> None:
    """`rows` as a table of these columns, or as JSON, one object a line."""
    if output == "json":
        for row in rows:
            print(json.dumps(row, default=str))
        return
    rows = list(rows)
    if not rows:
        return
    cells = [list(columns), *([_cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells if len(columns) > 1 else cells[1:]:
        print(
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        )


def _cell(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return "-" if value is None else str(value)


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error where that is a terminal and a `total` is known; call with how much
    is done.
    """
    if not total or not sys.stderr.isatty():
        yield lambda done: None
        return
    import click

    with click.progressbar(length=total, label=label, file=sys.stderr) as bar:
        yield lambda done: bar.update(done - bar.pos)


def command(verb: Callable[P, None]) -> Callable[P, int]:
    """Makes the exit code: what goes wrong is one line on standard error and 1."""

    @wraps(verb)
    def framed(*args: P.args, **kwargs: P.kwargs) -> int:
        from raftka.client.blocking.connection import ClientError
        from raftka.wire.errors import KafkaError

        try:
            verb(*args, **kwargs)
        except KeyboardInterrupt:
            return 130
        except BrokenPipeError:  # who read us has enough
            sys.stdout = None  # nothing left to flush at exit
        except (CommandFailed, ClientError, KafkaError, OSError) as error:
            print(f"raftka: {error}", file=sys.stderr)
            return 1
        return 0

    return framed


def check_fields(row: Any, known: Sequence[str], where: str) -> None:
    """Raise CommandFailed for a field of a JSON object that would be dropped."""
    unknown = [str(name) for name in row if name not in known] if isinstance(row, dict) else []
    if unknown:
        raise CommandFailed(
            f"{where}: there is no field {unknown[0]}; there are {', '.join(known)}"
        )


def warn(text: str) -> None:
    print(f"raftka: warning: {text}", file=sys.stderr)


def fail(text: str, code: int) -> int:
    """For commands whose exit codes say more than 1; returns the code."""
    print(f"raftka: {text}", file=sys.stderr)
    return code
