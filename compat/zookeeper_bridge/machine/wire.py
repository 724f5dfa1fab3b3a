"""Messages between the bridge of a node and the machine beside the controller: one payload each
way, with many requests in it.

A payload is [origin, identities, requests]: the sender (one run of a node), lists of identities
that writes refer to by number, and the requests. An answer is [zxid, results], in the order of the
requests: a node that has applied the metadata up to zxid has all their changes. Decides nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgpack

from raftka.metadata.records import PACKED_BYTES
from zookeeper_bridge.tree.acl import Identity


class Write(NamedTuple):
    session_id: int
    connection: int  # of the origin
    identities: int  # which of the payload's
    opcode: int
    body: bytes


class Open(NamedTuple):
    """A new session. The secret is for a cluster that has none yet."""

    connection: int
    timeout_ms: int
    secret: bytes


class Attach(NamedTuple):
    """A session that the client had on another connection."""

    connection: int
    timeout_ms: int
    session_id: int
    password: bytes


class Touch(NamedTuple):
    """These sessions were heard of."""

    session_ids: Sequence[int]


class Sync(NamedTuple):
    """Nothing but the zxid of now."""


Request = Write | Open | Attach | Touch | Sync
KINDS: tuple[object, ...] = (Write, Open, Attach, Touch, Sync)
NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
WRITE = NUMBERS[Write]


class Result(NamedTuple):
    error: int
    body: bytes = b""  # of a write's reply
    session_id: int = 0
    timeout_ms: int = 0
    password: bytes = b""


class Batch(NamedTuple):
    origin: bytes
    identities: Sequence[Sequence[Identity]]
    requests: Sequence[Request]


def pack_batch(batch: Batch) -> bytes:
    return pack_rows(batch.origin, batch.identities, [row_of(each) for each in batch.requests])


def row_of(request: Request) -> tuple[object, ...]:
    return (NUMBERS[type(request)], *request)


def row_of_write(write: Write, identities: int) -> tuple[object, ...]:
    """With the number that its identities have in this payload."""
    return (WRITE, write.session_id, write.connection, identities, write.opcode, write.body)


def pack_rows(
    origin: bytes, identities: Sequence[Sequence[Identity]], rows: Sequence[tuple[object, ...]]
) -> bytes:
    data: bytes = msgpack.packb(
        (origin, identities, rows), unicode_errors="surrogatepass", buf_size=PACKED_BYTES
    )
    return data


def unpack_batch(data: bytes) -> Batch:
    """Raises ValueError for what is none."""
    try:
        origin, identities, rows = msgpack.unpackb(
            data, use_list=False, unicode_errors="surrogatepass"
        )
        return Batch(origin, identities, [KINDS[kind](*fields) for kind, *fields in rows])
    except (TypeError, IndexError, ValueError, msgpack.UnpackException) as error:
        raise ValueError(f"no payload of the bridge's: {error}") from error


def pack_answer(zxid: int, results: Sequence[Result]) -> bytes:
    data: bytes = msgpack.packb((zxid, results), buf_size=PACKED_BYTES)
    return data


def unpack_answer(data: bytes) -> tuple[int, list[Result]]:
    zxid, results = msgpack.unpackb(data, use_list=False)
    return zxid, [Result(*each) for each in results]
