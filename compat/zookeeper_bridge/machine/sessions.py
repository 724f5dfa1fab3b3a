"""Sessions: passwords, time-outs, and the time of each one's last request. That time is soft: a new
controller gives every session one full time-out.

The connection of a session is soft as well: the first connection that writes after a change of
controllers is taken for it. Knows no znode.
"""

from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest, digest
from math import ceil, inf
from struct import Struct

from zookeeper_bridge.protocol.jute import PASSWORD_BYTES

SECRET_BYTES = 32
LEAST_TICKS, MOST_TICKS = 2, 20  # of a time-out, as ZooKeeper bounds it
_ID = Struct(">q")
Owner = tuple[bytes, int]  # a node's life, and one of its connections


def password_of(secret: bytes, session_id: int) -> bytes:
    """Nothing is stored for it: who knows the cluster's secret can tell."""
    return digest(secret, _ID.pack(session_id), sha256)[:PASSWORD_BYTES]


def is_password(secret: bytes, session_id: int, password: bytes) -> bool:
    return bool(secret) and compare_digest(password_of(secret, session_id), password)


def clamped(timeout_ms: int, tick_ms: int) -> int:
    return min(max(timeout_ms, LEAST_TICKS * tick_ms), MOST_TICKS * tick_ms)


class Expiry:
    """The ends of sessions that are not heard of again: in buckets of half a tick, so that a touch
    costs two changes of a set.
    """

    def __init__(self, tick_ms: int) -> None:
        self._step_s = tick_ms / 2000
        self._buckets: dict[int, dict[int, None]] = {}
        self._bucket_of: dict[int, int] = {}

    def touch(self, session_id: int, timeout_ms: int, now: float) -> None:
        bucket = ceil((now + timeout_ms / 1000) / self._step_s)
        if self._bucket_of.get(session_id) != bucket:
            self.remove_session(session_id)
            self._bucket_of[session_id] = bucket
            self._buckets.setdefault(bucket, {})[session_id] = None

    def remove_session(self, session_id: int) -> None:
        bucket = self._bucket_of.pop(session_id, None)
        if bucket is not None:
            members = self._buckets[bucket]
            del members[session_id]
            if not members:
                del self._buckets[bucket]

    def deadline(self) -> float:
        return min(self._buckets, default=inf) * self._step_s

    def due(self, now: float) -> Iterable[int]:
        """Return the sessions that have expired."""
        return [
            session_id
            for bucket in sorted(self._buckets)
            if bucket * self._step_s <= now
            for session_id in self._buckets[bucket]
        ]
