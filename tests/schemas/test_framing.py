"""Confluent's framing: schema ids, and indexes of Protobuf messages."""

import pytest

from raftka.schemas.framing import HEADER_BYTES, NotFramed, message_indexes, schema_id_of


def test_schema_id_has_four_bytes_behind_a_zero_byte() -> None:
    assert schema_id_of(b"\0\0\0\1\2payload") == 258
    assert schema_id_of(b"\0\xff\xff\xff\xff") == -1


@pytest.mark.parametrize("content", [b"", b"\0\0\0\1", b"\1\0\0\0\1", b'{"a": 1}'])
def test_content_without_a_frame_has_no_schema_id(content: bytes) -> None:
    with pytest.raises(NotFramed, match="does not begin with a zero byte and a schema id"):
        schema_id_of(content)


def test_one_zero_byte_means_the_first_message() -> None:
    assert message_indexes(b"\x00rest", 0) == ((0,), 1)
    assert message_indexes(b"\0\0\0\0\1\x04\x02\x06rest", HEADER_BYTES) == ((1, 3), 8)


@pytest.mark.parametrize("content", [b"", b"\x80", b"\x02", b"\x01", b"\x90\x03", b"\x80" * 9])
def test_bytes_without_indexes_are_refused(content: bytes) -> None:
    """They end early, or their count is negative or too large."""
    with pytest.raises(NotFramed, match="message indexes"):
        message_indexes(content, 0)
