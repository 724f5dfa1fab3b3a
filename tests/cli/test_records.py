"""`raftka produce` and `raftka consume` without a broker: lines to records and back, and where to begin."""

import io
import json
from types import SimpleNamespace

import pytest

from raftka.cli.output import CommandFailed
from raftka.cli.records import Line, _lines, _position, _print


def lines(text: bytes, source: str = "text", separator: str | None = None) -> list[Line]:
    return list(_lines(io.BytesIO(text), source, separator))


def test_a_line_is_a_value() -> None:
    assert lines(b"one\n\nthree") == [Line(None, b"one", [], None), Line(None, b"", [], None), Line(None, b"three", [], None)]


def test_a_separator_parts_key_and_value() -> None:
    assert lines(b"k:v:w\n", separator=":") == [Line(b"k", b"v:w", [], None)]

    with pytest.raises(CommandFailed, match="line 2"):
        lines(b"k:v\nnone\n", separator=":")


@pytest.mark.parametrize(
    "record",
    [
        SimpleNamespace(topic="t", partition=3, offset=7, timestamp=1, key=b"k", value=b"v", headers=[("h", b"1"), ("n", None)]),
        SimpleNamespace(topic="t", partition=0, offset=0, timestamp=1, key=None, value=None, headers=[]),
        SimpleNamespace(topic="t", partition=0, offset=0, timestamp=1, key=b"\xff\x00", value="naïve\n".encode(), headers=[("b", b"\xfe")]),
    ],
)
def test_what_consume_prints_produce_reads(record: SimpleNamespace, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    _print(record, False, "json")

    printed = capsysbinary.readouterr().out
    assert lines(printed, "json") == [Line(record.key, record.value, record.headers, record.partition)]
    assert json.loads(printed)["offset"] == record.offset


@pytest.mark.parametrize("text", [b"no json\n", b"[1]\n", b'{"key": {"base64": "?"}}\n', b'{"headers": 7}\n'])
def test_what_is_no_record_is_refused_with_its_line(text: bytes) -> None:
    with pytest.raises(CommandFailed, match="line 1 is not a record"):
        lines(text, "json")


@pytest.mark.parametrize(("start", "expected"), [("start", 10), ("end", 50), ("20", 20), ("5", 10), ("99", 50), ("-1", 49), ("-100", 10)])
def test_where_to_begin(start: str, expected: int) -> None:
    assert _position(start, 10, 50) == expected


def test_where_to_begin_is_one_of_a_few_forms() -> None:
    with pytest.raises(CommandFailed, match="--from yesterday"):
        _position("yesterday", 0, 1)
