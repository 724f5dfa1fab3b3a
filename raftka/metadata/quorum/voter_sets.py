"""The voters of the metadata quorum, as its log keeps them (KIP-853).

An entry of kind VOTERS has a whole set. The set counts from the moment at which the entry stands in
a log, committed or not, and no more when the entry is cut off. A snapshot has the set of its index.
A log without either has the voters of controller.quorum.voters. Knows no file and no connection.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

import msgpack

from raftka.limits import QUORUM_VOTERS
from raftka.metadata.quorum.raft_types import NO_OP, VOTERS

# The first byte of a snapshot with a set before the state; no value of msgpack begins with it.
SET_BEFORE_STATE = b"\xc1"
SIZE = Struct("<I")  # of the encoded set
DIRECTORY_BYTES = 16


class MalformedVoters(ValueError):
    """The bytes are no set of voters."""


class QuorumVoter(NamedTuple):
    """A member of the quorum: a node and the directory in which it keeps its votes."""

    node_id: int
    directory_id: bytes  # 16 bytes
    endpoints: tuple[tuple[str, str, int], ...]  # (listener, host, port) of the controller
    lowest: int = 0  # kraft.version that its release supports, and the highest one
    highest: int = 1


VoterSet = tuple[QuorumVoter, ...]  # in order of their ids


def make_set(voters: Iterable[QuorumVoter]) -> VoterSet:
    return tuple(sorted(voters))


def ids_of(voters: VoterSet) -> frozenset[int]:
    return frozenset(voter.node_id for voter in voters)


def encode_set(voters: VoterSet) -> bytes:
    packed: bytes = msgpack.packb(voters)
    return SIZE.pack(len(packed)) + packed


def decode_set(data: bytes) -> tuple[VoterSet, int]:
    """Return the set at the beginning of `data`, and where it ends. Raises MalformedVoters."""
    try:
        (size,) = SIZE.unpack_from(data)
        end = SIZE.size + size
        rows = msgpack.unpackb(data[SIZE.size : end], use_list=False)
        voters = tuple(_voter(row) for row in rows)
    except Exception as error:
        raise MalformedVoters(f"no set of voters: {error}") from error
    ids = [voter.node_id for voter in voters]
    if not 0 < len(ids) <= QUORUM_VOTERS.value or ids != sorted(set(ids)):
        raise MalformedVoters(f"no set of voters: {ids}")
    return voters, end


def _voter(row: tuple[object, ...]) -> QuorumVoter:
    match row:
        case (int(node_id), bytes(directory), tuple(endpoints), int(lowest), int(highest), *_) if (
            node_id >= 0 and len(directory) == DIRECTORY_BYTES
        ):
            return QuorumVoter(
                node_id, directory, tuple(_endpoint(each) for each in endpoints), lowest, highest
            )
    raise MalformedVoters(f"no voter: {str(row)[:100]}")


def _endpoint(row: object) -> tuple[str, str, int]:
    match row:
        case (str(listener), str(host), int(port)):
            return listener, host, port
    raise MalformedVoters(f"no end point of a voter: {str(row)[:100]}")


def voters_command(voters: VoterSet, data: bytes) -> bytes:
    """An entry with a set, and with records of the metadata log; `data` may be empty."""
    return VOTERS + encode_set(voters) + data


def set_in(command: bytes) -> VoterSet | None:
    """The set in an entry; None: it has none. Raises MalformedVoters."""
    return decode_set(command[1:])[0] if command[:1] == VOTERS else None


def data_in(command: bytes) -> bytes:
    """The records of the metadata log in an entry; empty for the entry that begins a term."""
    kind = command[:1]
    if kind == NO_OP:
        return b""
    if kind == VOTERS:
        (size,) = SIZE.unpack_from(command, 1)
        return command[1 + SIZE.size + size :]
    return command[1:]


def put_before(voters: VoterSet | None, state: bytes) -> bytes:
    """The bytes of a snapshot: the state, and before it the set that counts at its index."""
    return state if voters is None else SET_BEFORE_STATE + encode_set(voters) + state


def take_off(raw: bytes) -> tuple[VoterSet | None, bytes]:
    """The set and the state in the bytes of a snapshot. Raises MalformedVoters."""
    if raw[:1] != SET_BEFORE_STATE:
        return None, raw
    voters, end = decode_set(raw[1:])
    return voters, raw[1 + end :]


def differ_by_one(before: frozenset[int], after: frozenset[int]) -> bool:
    """Return whether one voter came or went: then any two majorities of the sets share a voter."""
    return len(before ^ after) == 1
