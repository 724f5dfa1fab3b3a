"""A snapshot on its way from the leader to a voter that is too far behind: one chunk at a time,
each acknowledged. Knows no log and no term.

SyncObj asks a serializer for the next piece and would go on asking within one round for as long as
there is none; here it gets one piece a round.
"""

from dataclasses import dataclass, field
from typing import Any

from raftka.checksum import crc32c
from raftka.metadata.quorum.journal import Journal
from raftka.metadata.quorum.raft_types import Message, Snapshot


@dataclass(slots=True)
class _Stream:
    index: int  # of the snapshot that is being sent
    position: int  # all before this has arrived
    round: int  # that was answered last: an older answer comes late
    sent_at: float  # when the piece at `position` was sent last; -inf: not yet


class SnapshotSender:
    """A replacement of pysyncobj's serializer."""

    def __init__(self, journal: Journal, chunk_bytes: int, resend_after: float) -> None:
        self._journal, self._chunk_bytes, self._resend_after = journal, chunk_bytes, resend_after
        self._streams: dict[int, _Stream] = {}

    def piece(self, peer: int, now: float) -> Message | None:
        """The next piece for this peer; None while the last one is not acknowledged."""
        head = self._journal.snapshot
        assert head is not None, "the log begins behind its first entry, so there is a snapshot"
        stream = self._streams.get(peer)
        if stream is None or stream.index != head.index:
            stream = self._streams[peer] = _Stream(head.index, 0, 0, float("-inf"))
        if now < stream.sent_at + self._resend_after:
            return None
        stream.sent_at = now
        data = self._journal.read_chunk(
            stream.position, min(self._chunk_bytes, head.size_bytes - stream.position)
        )
        return {
            "index": head.index,
            "of_term": head.term,
            "size": head.size_bytes,
            "crc": head.crc,
            "position": stream.position,
            "data": data,
        }

    def acknowledged(self, peer: int, index: int, position: int, answered: int) -> bool:
        """The peer wants what begins at `position`. True: that is something new."""
        stream = self._streams.get(peer)
        if stream is None or stream.index != index or answered < stream.round:
            return False
        stream.round = answered
        if stream.position == position:
            return False
        stream.position, stream.sent_at = position, float("-inf")
        return True

    def getTransmissionData(self, node: Any) -> tuple[bytes, bool, bool]:
        """SyncObj's question; the engine's `ship` puts the piece in the answer's place."""
        return b"", False, False

    def cancelTransmisstion(self, node: Any) -> None:
        """The peer's connection closed: from the beginning when it is back, it may have
        forgotten.
        """
        self._streams.pop(node.id, None)


@dataclass(slots=True)
class SnapshotReceiver:
    _of: tuple[int, ...] = ()  # index, term, size and checksum of the snapshot that is coming
    _data: bytearray = field(default_factory=bytearray)

    @property
    def position(self) -> int:
        return len(self._data)

    def add(self, message: Message) -> Snapshot | None:
        """The snapshot, once it is whole and its checksum is right; else the next piece wanted
        begins at `position`.
        """
        of = (message["index"], message["of_term"], message["size"], message["crc"])
        if of != self._of:
            self._of, self._data = of, bytearray()
        if message["position"] != len(self._data):
            return None
        self._data += message["data"]
        if len(self._data) < message["size"]:
            return None
        state, self._of, self._data = bytes(self._data), (), bytearray()
        intact = len(state) == message["size"] and crc32c(state) == message["crc"]
        return Snapshot(message["index"], message["of_term"], state) if intact else None
