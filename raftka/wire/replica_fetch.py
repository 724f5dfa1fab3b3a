"""Fetch v17 as brokers of one cluster use it in a session, read and written by a few structs: what
is plain takes a call for each partition.

What is not plain (errors, divergences, forgotten topics, unknown tags, long lists) is left to the
message's compiler, whose bytes these are. One partition, which is most often all there is, has
structs of its own.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from raftka.runtime.interfaces import FileSpan
from raftka.wire.codec import Piece, varint

VERSION = 17
MOST = 200  # partitions of a request: what many cost is spread over turns, the long way

EPOCH = Struct(">i")  # of a session; the last field before the topics
_HEAD = Struct(">iiibii")  # max wait, min bytes, max bytes, isolation level, session, its epoch
# partition, leader epoch, offset, last fetched epoch, log start, max bytes; no tags
_ASKED = Struct(">iiqiqib")
# partition, error, high watermark, last stable offset, log start, no list of aborted ones,
# preferred replica
_ANSWERED = Struct(">ihqqqbi")
_FRAME = Struct(">iib")  # size, correlation id, no tags
_TOP = Struct(">ihi")  # throttle time, error, session
_ID = 16  # bytes of a topic's id
_NONE_FORGOTTEN_NO_RACK = b"\x01\x01"
# one tag, which is the replica's state, its size; broker id, broker epoch, no tags
_STATE = Struct(">bbbiqb")
_STATE_TAG, _STATE_SIZE = 1, 13
_ONE = 2  # a compact length
_ONE_BEGINS = "B16sB"  # one topic, its id, one partition
_ONE_ASKED = Struct(f">{_ONE_BEGINS}iiqiqibb")  # as _ASKED, and no tags of the topic
_ONE_REQUEST = Struct(f">iiibii{_ONE_BEGINS}iiqiqibb2sbbbiqb")
_ONE_ANSWERED = Struct(f">ihi{_ONE_BEGINS}ihqqqbi")
_ONE_FRAME = Struct(f">iibihi{_ONE_BEGINS}ihqqqbi")
_ONE_ENDS = b"\0\0\0"  # no tags of the partition, of its topic, of the answer
_LENGTHS = tuple(varint(length + 1) for length in range(512))


def _length(length: int) -> bytes:
    """Compact, of an array or of bytes."""
    return _LENGTHS[length] if length < 512 else varint(length + 1)


class Asked(NamedTuple):
    """One partition in a follower's request."""

    partition: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start: int
    max_bytes: int


class Answered(NamedTuple):
    """One partition of a plain answer."""

    topic_id: bytes
    partition: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    records: memoryview


class Told(NamedTuple):
    """One partition in a leader's answer."""

    partition: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    spans: Sequence[FileSpan]
    size: int


class Terms(NamedTuple):
    """The common fields of all requests of a session."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    replica: int
    broker_epoch: int


def request_body(
    terms: Terms, session_id: int, session_epoch: int, topics: Mapping[bytes, Sequence[Asked]]
) -> bytes:
    if len(topics) == 1:
        ((topic_id, asked),) = topics.items()
        if len(asked) == 1:
            wait_ms, min_bytes, max_bytes, replica, broker_epoch = terms
            head = (wait_ms, min_bytes, max_bytes, 0, session_id, session_epoch)
            state = (1, _STATE_TAG, _STATE_SIZE, replica, broker_epoch, 0)
            return _ONE_REQUEST.pack(
                *head, _ONE, topic_id, _ONE, *asked[0], 0, 0, _NONE_FORGOTTEN_NO_RACK, *state
            )
    parts = [
        _HEAD.pack(
            terms.max_wait_ms, terms.min_bytes, terms.max_bytes, 0, session_id, session_epoch
        ),
        _length(len(topics)),
    ]
    for topic_id, asked in topics.items():
        parts += (topic_id, _length(len(asked)))
        parts += [_ASKED.pack(*each, 0) for each in asked]
        parts.append(b"\0")
    parts += (
        _NONE_FORGOTTEN_NO_RACK,
        _STATE.pack(1, _STATE_TAG, _STATE_SIZE, terms.replica, terms.broker_epoch, 0),
    )
    return b"".join(parts)


def _count(frame: memoryview, at: int) -> tuple[int, int]:
    """Read a compact length, 0 where there is nothing, and say where it ends."""
    value = frame[at]
    at += 1
    if 0 < value < 128:
        return value - 1, at
    if value:
        value &= 127
        for shift in (7, 14, 21, 28):
            byte = frame[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                break
    return max(0, value - 1), at


def read_topics(frame: memoryview, at: int, end: bytes) -> list[tuple[bytes, Asked]] | None:
    """The partitions of a request whose topics begin at `at`; None unless it ends behind them as
    `end` says and is plain.
    """
    if frame[at + _ONE_ASKED.size :] == end:
        topics, topic_id, partitions, *asked, tags, tags_of_topic = _ONE_ASKED.unpack_from(
            frame, at
        )
        if topics == partitions == _ONE and not tags and not tags_of_topic:
            return [(topic_id, Asked(*asked))]
    found: list[tuple[bytes, Asked]] = []
    try:
        topics, at = _count(frame, at)
        for _ in range(topics):
            topic_id = bytes(frame[at : at + _ID])
            partitions, at = _count(frame, at + _ID)
            for _ in range(partitions):
                *asked, tags = _ASKED.unpack_from(frame, at)
                if tags:
                    return None
                if len(found) == MOST:
                    return None
                found.append((topic_id, Asked(*asked)))
                at += _ASKED.size
            if frame[at]:
                return None
            at += 1
    except (IndexError, struct_error):
        return None
    return found if frame[at:] == end else None


def topics_begin(frame: memoryview, body: int) -> tuple[int, bytes]:
    """Return the position where the topics of a request begin, whose body begins at `body`, and the
    bytes behind them if nothing is forgotten.
    """
    return body + _HEAD.size, _NONE_FORGOTTEN_NO_RACK + bytes(frame[-_STATE.size :])


def answer_frame(
    correlation_id: int, session_id: int, topics: Mapping[bytes, Sequence[Told]]
) -> list[Piece]:
    """The whole frame of an answer."""
    if len(topics) == 1:
        ((topic_id, rows),) = topics.items()
        if len(rows) == 1:
            index, high_watermark, stable, log_start, spans, size = rows[0]
            length = _LENGTHS[size] if size < 512 else varint(size + 1)
            total = _ONE_FRAME.size - 4 + len(length) + size + len(_ONE_ENDS)
            row = (index, 0, high_watermark, stable, log_start, 0, -1)
            head = (
                _ONE_FRAME.pack(
                    total, correlation_id, 0, 0, 0, session_id, _ONE, topic_id, _ONE, *row
                )
                + length
            )
            return [head, *spans, _ONE_ENDS] if size else [head + _ONE_ENDS]
    pieces: list[Piece] = []
    small = [_TOP.pack(0, 0, session_id), _length(len(topics))]
    total = 0
    for topic_id, rows in topics.items():
        small += (topic_id, _length(len(rows)))
        for index, high_watermark, stable, log_start, spans, size in rows:
            small += (
                _ANSWERED.pack(index, 0, high_watermark, stable, log_start, 0, -1),
                _length(size),
            )
            if size:
                head = b"".join(small)
                pieces.append(head)
                pieces += spans
                total += len(head) + size
                small = []
            small.append(b"\0")
        small.append(b"\0")
    small.append(b"\0")
    tail = b"".join(small)
    frame = _FRAME.pack(total + len(tail) + 5, correlation_id, 0)
    return [frame, *pieces, tail] if pieces else [frame + tail]


def read_answer(frame: memoryview, at: int) -> tuple[int, list[Answered]] | None:
    """The session and the partitions of an answer; None for one that is not plain."""
    if (one := _read_one(frame, at)) is not None:
        return one
    found: list[Answered] = []
    try:
        _, error, session_id = _TOP.unpack_from(frame, at)
        at += _TOP.size
        topics, at = _count(frame, at)
        if error:
            return None
        for _ in range(topics):
            topic_id = bytes(frame[at : at + _ID])
            partitions, at = _count(frame, at + _ID)
            for _ in range(partitions):
                index, failed, high_watermark, stable, log_start, aborted, _ = (
                    _ANSWERED.unpack_from(frame, at)
                )
                at += _ANSWERED.size
                size, at = _count(frame, at)
                if failed or aborted or frame[at + size]:
                    return None
                if len(found) == MOST:
                    return None
                found.append(
                    Answered(
                        topic_id, index, high_watermark, stable, log_start, frame[at : at + size]
                    )
                )
                at += size + 1
            if frame[at]:
                return None
            at += 1
    except (IndexError, struct_error):
        return None
    return (session_id, found) if len(frame) == at + 1 and not frame[at] else None


def _read_one(frame: memoryview, at: int) -> tuple[int, list[Answered]] | None:
    """An answer with one partition; None for any other, and one that is not plain."""
    try:
        _, error, session_id, topics, topic_id, partitions, *row = _ONE_ANSWERED.unpack_from(
            frame, at
        )
        index, failed, high_watermark, stable, log_start, aborted, _ = row
        if error or failed or aborted or not topics == partitions == _ONE:
            return None
        size, at = _count(frame, at + _ONE_ANSWERED.size)
    except (IndexError, struct_error):
        return None
    if frame[at + size :] != _ONE_ENDS:
        return None
    return session_id, [
        Answered(topic_id, index, high_watermark, stable, log_start, frame[at : at + size])
    ]
