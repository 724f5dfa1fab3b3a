"""Each line of a broker's output has its id."""

import io
import json
from typing import IO, cast

import pytest

from raftka.broker.telemetry.event_log import Events
from raftka.cluster.fork_server import Labelled


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_without_the_brokers_id_get_it() -> None:
    stream = io.StringIO()
    labelled = Labelled(stream, "11")

    print("Traceback (most recent call last):\n  File x", file=labelled)
    labelled.write("half a li")
    labelled.flush()
    labelled.write("ne\nand no end")
    labelled.finish()

    assert stream.getvalue() == (
        "node=11 Traceback (most recent call last):\nnode=11   File x\nnode=11 half a line\n"
        "node=11 and no end\n"
    )


@pytest.mark.parametrize("fields", [{}, {"more": 1}])
def test_json_lines_stay_json(fields: dict[str, object]) -> None:
    stream = io.StringIO()
    Events(cast("IO[str]", Labelled(stream, "1")), lambda: 0, node=1).info("started", **fields)

    assert json.loads(stream.getvalue())["node"] == 1


def test_a_line_of_another_node_is_labelled() -> None:
    stream = io.StringIO()
    Labelled(stream, "1").write('{"node": 11}\n x node=11 y\n')

    assert stream.getvalue() == 'node=1 {"node": 11}\nnode=1  x node=11 y\n'


def test_lines_on_a_terminal_stay_as_they_are() -> None:
    stream = Terminal()
    labelled = Labelled(stream, "11")
    Events(cast("IO[str]", labelled), lambda: 0, node=11).info("started")

    assert labelled.isatty()
    assert stream.getvalue() == "00:00:00.000 info    started node=11\n"
