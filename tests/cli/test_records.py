"""`raftka produce` and `raftka consume` without a broker: lines to records and back, and where to
begin.
"""

import io
import json
import os
import threading

import pytest

from raftka.cli.output import CommandFailed
from raftka.cli.records.consume import Printer
from raftka.cli.records.produce import KEYLESS, _input, _lines, _place, _Told
from raftka.client.blocking.reader import FetchedRecord
from raftka.client.json_lines import Line


def lines(text: bytes, source: str = "text", separator: str | None = None) -> list[Line]:
    return list(_lines(io.BytesIO(text), source, separator))


def test_a_line_is_a_value() -> None:
    assert lines(b"one\n\nthree") == [
        Line(None, b"one", [], None),
        Line(None, b"", [], None),
        Line(None, b"three", [], None),
    ]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ('{"value": {"base65": "eA=="}}', "line 1 is not a record in JSON: 'base64'"),
        ('{"value": "x", "partition": "1"}', "line 1 .*its partition '1' is no number"),
        ('{"value": "x", "headers": [["h"]]}', "line 1 .*a header is a list of its name and its"),
        ('{"value": "x", "headers": ["hv"]}', 'line 1 .*value, not "hv"'),
        ('{"value": true}', "line 1 .*true is no text: write it with quotes"),
        ('{"key": 1.10, "value": "x"}', "line 1 .*1.1 is no text"),
        ('{"left_out": {"lost": 3}}', 'line 1 .*what the export has left out: {"lost": 3}; remove'),
        ('{"value": "x", "headers": [["h", [1]]]}', r"line 1 .*\[1\] is no text"),
    ],
)
def test_a_line_that_is_no_record_is_refused_by_its_number(row: str, why: str) -> None:
    with pytest.raises(CommandFailed, match=why):
        lines(row.encode(), "json")


def test_a_separator_parts_key_and_value() -> None:
    assert lines(b"k:v:w\n", separator=":") == [Line(b"k", b"v:w", [], None)]

    with pytest.raises(CommandFailed, match="line 2"):
        lines(b"k:v\nnone\n", separator=":")


@pytest.mark.parametrize(
    "record",
    [
        FetchedRecord(
            topic="t",
            partition=3,
            offset=7,
            timestamp=1,
            key=b"k",
            value=b"v",
            headers=[("h", b"1"), ("n", None)],
        ),
        FetchedRecord(
            topic="t", partition=0, offset=0, timestamp=1, key=None, value=None, headers=[]
        ),
        FetchedRecord(
            topic="t",
            partition=0,
            offset=0,
            timestamp=1,
            key=b"\xff\x00",
            value="naïve\n".encode(),
            headers=[("b", b"\xfe")],
        ),
    ],
)
def test_what_consume_prints_produce_reads(
    record: FetchedRecord, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    Printer(keys=False, output="json").print_all([record])

    printed = capsysbinary.readouterr().out
    assert lines(printed, "json") == [
        Line(record.key, record.value, list(record.headers), record.partition)
    ]
    assert json.loads(printed)["offset"] == record.offset


@pytest.mark.parametrize(
    "text", [b"no json\n", b"[1]\n", b'{"key": {"base64": "?"}}\n', b'{"headers": 7}\n']
)
def test_what_is_no_record_is_refused_with_its_line(text: bytes) -> None:
    with pytest.raises(CommandFailed, match="line 1 is not a record"):
        lines(text, "json")


def test_what_has_come_is_sent_before_more_is_waited_for() -> None:
    """Somebody types, or a program writes a line now and then."""
    here, there = os.pipe()
    idle, seen = threading.Event(), list[tuple[str, object]]()

    def on_idle(read: int) -> None:
        seen.append(("idle", read))
        idle.set()

    def follow() -> None:
        for line in _input(here, on_idle):
            seen.append(("line", line))

    reader = threading.Thread(target=follow)
    reader.start()
    for text in (b"one\ntw", b"o\n", b"three"):
        assert idle.wait(10)
        idle.clear()
        os.write(there, text)
    assert idle.wait(10)
    os.close(there)
    reader.join(10)
    os.close(here)

    assert [line for kind, line in seen if kind == "line"] == [b"one", b"two", b"three"]
    assert [read for kind, read in seen if kind == "idle"][:4] == [0, 6, 8, 13]


def test_written_offsets_are_printed_in_the_order_of_the_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = _Told("t", "json")
    for partition in (1, 0, 1):
        told.sent(("t", partition))
    told.written(("t", 0), 7, 1)
    assert capsys.readouterr().out == ""
    told.written(("t", 1), 3, 2)

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["partition"], row["offset"]) for row in rows] == [(1, 3), (0, 7), (1, 4)]


def test_which_partition_a_line_goes_to() -> None:
    keyed, bare = Line(b"k", b"v", [], None), Line(None, b"v", [], None)

    assert _place(keyed, 2, 3, 0) == _place(Line(b"k", b"v", [], 2), None, 3, 0) == 2
    assert len({_place(keyed, None, 3, number) for number in range(9)}) == 1
    assert [
        _place(bare, None, 3, number)
        for number in (0, KEYLESS - 1, KEYLESS, 2 * KEYLESS, 3 * KEYLESS)
    ] == [0, 0, 1, 2, 0]
