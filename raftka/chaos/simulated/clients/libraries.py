"""Times as client libraries write them: the largest timestamp in a batch's header, and records
without a time. Knows no connection.
"""

from random import Random
from struct import pack_into

from raftka.wire.records import BATCH_HEADER, seal

LARGEST_POSITION = 35  # of the largest timestamp in a header
RIGHT = "right"
MINUS_ONE = "-1"  # sarama up to 1.45.0
BELOW = "below"  # less than the base timestamp
TIMELESS = "timeless"  # no record has a time
MIXED = "mixed"  # several libraries write to one topic
HEADERS = (RIGHT, RIGHT, MINUS_ONE, BELOW)  # of producers whose records have times
LIBRARIES = (RIGHT, MINUS_ONE, BELOW, TIMELESS, TIMELESS, TIMELESS, MIXED)


def one_of(library: str, chance: Random) -> str:
    """The library of the next batch."""
    return chance.choice((RIGHT, MINUS_ONE, BELOW, TIMELESS)) if library == MIXED else library


def as_written_by(library: str, batch: bytearray) -> bytearray:
    """The batch, changed in place, with the largest timestamp that the library writes."""
    if library in (MINUS_ONE, BELOW):
        base_timestamp = BATCH_HEADER.unpack_from(batch)[7]
        pack_into(">q", batch, LARGEST_POSITION, -1 if library == MINUS_ONE else base_timestamp - 1)
        seal(batch)
    return batch
