"""Confluent's framing of keys and values: a zero byte, four bytes of a schema id, the payload.

The payload of Protobuf begins with the indexes of a message in the file of its schema: the place of
the outermost message, the place of the next one within it, and so on.
"""

from raftka.wire.errors import ProtocolError
from raftka.wire.records import signed

MAGIC = 0
HEADER_BYTES = 5
MAX_INDEXES = 100  # messages within messages

Indexes = tuple[int, ...]


class NotFramed(ValueError):
    """The bytes have no frame. The text is the end of a sentence about them."""


def schema_id_of(content: bytes) -> int:
    """Return the id of the schema that a key or value is written with. Raise NotFramed."""
    if len(content) < HEADER_BYTES or content[0] != MAGIC:
        raise NotFramed("does not begin with a zero byte and a schema id")
    return int.from_bytes(content[1:HEADER_BYTES], signed=True)


def message_indexes(content: bytes, position: int) -> tuple[Indexes, int]:
    """Return the indexes of a Protobuf message that stand at a position, and the position of the
    message behind them. Raise NotFramed.

    One byte of zero means the first message of the file.
    """
    try:
        count, position = signed(content, position, 32)
        if not 0 <= count <= MAX_INDEXES:
            raise NotFramed(f"{count} message indexes")
        indexes = []
        for _ in range(count):
            index, position = signed(content, position, 32)
            indexes.append(index)
    except (IndexError, ProtocolError) as error:
        raise NotFramed("no message indexes behind its schema id") from error
    return tuple(indexes) or (0,), position
