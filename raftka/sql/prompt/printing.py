"""Answers on a terminal or in a file: a table, one line a column, JSON, CSV. Knows no Spark."""

import csv
import io
import json
import sys
from collections.abc import Iterator, Sequence

from raftka.cli.output import has_colours, printable
from raftka.json_values import Json
from raftka.sql.client import Rows

FORMATS = ("table", "json", "csv")
PAGE = 1000  # rows whose cells get one width


def print_rows(rows: Rows, output: str, *, is_vertical: bool = False) -> int:
    """Print an answer as its rows come; return their number. `output`: one of FORMATS. Raises
    SqlError.
    """
    names = [printable(each) for each in rows.names]
    batches = iter(rows.take, [])
    if is_vertical:
        return _print_vertical(names, batches)
    if output == "json":
        return _print_json(names, batches)
    if output == "csv":
        return _print_csv(names, batches)
    return _print_table(names, batches)


def _print_table(names: Sequence[str], batches: Iterator[list[list[Json]]]) -> int:
    """Columns become wider where a later row needs it: printed lines stay as they are."""
    style = "\033[1m{}\033[0m" if has_colours(sys.stdout) else "{}"
    widths = [0] * len(names)
    count = 0
    for batch in batches:
        for begin in range(0, len(batch), PAGE):
            rows = batch[begin : begin + PAGE]
            cells = [[_cell(value) for value in row] for row in rows]
            lines = [names, *cells] if not count else cells
            widths = [
                max(width, *map(len, each)) for width, *each in zip(widths, *lines, strict=True)
            ]
            aligns = [
                ">" if all(map(_is_number, each)) else "<" for each in zip(*rows, strict=True)
            ]
            for line in lines:
                padded = (
                    f"{cell:{align}{width}}"
                    for cell, align, width in zip(line, aligns, widths, strict=True)
                )
                text = "  ".join(padded).rstrip()
                print(style.format(text) if line is names else text)
            count += len(rows)
        sys.stdout.flush()
    if names and not count:
        print(style.format("  ".join(names)))
    return count


def _is_number(value: Json) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _cell(value: Json) -> str:
    return "-" if value is None else printable(str(_shown(value)))


def _shown(value: Json) -> Json:
    """Return a value as a cell: a list or an object is JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _print_vertical(names: Sequence[str], batches: Iterator[list[list[Json]]]) -> int:
    width = max(map(len, names), default=0)
    count = 0
    for batch in batches:
        for row in batch:
            count += 1
            print(f"--- row {count}")
            for name, value in zip(names, row, strict=True):
                print(f"{name.rjust(width)}: {_cell(value)}")
        sys.stdout.flush()
    return count


def _print_json(names: Sequence[str], batches: Iterator[list[list[Json]]]) -> int:
    count = 0
    for batch in batches:
        for row in batch:
            print(json.dumps(dict(zip(names, row, strict=True))))
        count += len(batch)
        sys.stdout.flush()
    return count


def _print_csv(names: Sequence[str], batches: Iterator[list[list[Json]]]) -> int:
    """A terminal gets no control characters: they come from others, and it would act on them."""
    is_safe = not sys.stdout.isatty()
    count = 0
    print(_csv_line(names), end="")
    for batch in batches:
        for row in batch:
            line = _csv_line([_shown(value) for value in row])
            print(line if is_safe else f"{printable(line[:-1])}\n", end="")
        count += len(batch)
        sys.stdout.flush()
    return count


def _csv_line(cells: Sequence[Json]) -> str:
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerow(cells)
    return made.getvalue()
