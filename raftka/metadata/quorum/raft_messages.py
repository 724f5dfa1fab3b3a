"""Messages between voters: the shape of each, checked before any code relies on it. Knows no state.

The names inside `append_entries`, `next_node_idx`, `request_vote`, `response_vote` and
`timeout_now` are pysyncobj's, the others are ours.
"""

from collections.abc import Callable
from operator import itemgetter

from raftka.limits import METADATA_SNAPSHOT_BYTES
from raftka.metadata.quorum.journal import Standing
from raftka.metadata.quorum.raft_types import NO_OP, REGULAR, VOTERS, MalformedMessage, Message
from raftka.metadata.quorum.voter_sets import MalformedVoters, set_in

NO_NONCE = 0

_TERM: dict[str, type] = {"term": int}
_LOG: dict[str, type] = {"term": int, "last_log_index": int, "last_log_term": int}
SHAPES: dict[str, dict[str, type]] = {
    # who am I: `nonce` is this process's, `echo` the receiver's as far as known; `ask` wants an
    # answer; `recovered`: the number of the recovery, or 0
    "hello": {
        "nonce": int,
        "echo": int,
        "ask": bool,
        "standing": int,
        "term": int,
        "cluster": object,
        "voters": list,
        "recovered": int,
    },
    "prevote": _LOG,  # would you vote for me in this term? nothing changes by asking
    "prevote_grant": _TERM,
    # transfer: the leader asked for it, so it is no disturbance
    "request_vote": _LOG | {"transfer": bool},
    "response_vote": _TERM,
    "reject": _TERM,  # your term is over
    "append_entries": _TERM
    | {
        "seq": int,
        "commit_index": int,
        "prevLogIdx": int,
        "prevLogTerm": int,
        "entries": list,
        "promote": list,
    },
    "heartbeat": _TERM | {"seq": int, "promote": list},
    "snapshot": _TERM
    | {
        "seq": int,
        "index": int,
        "of_term": int,
        "size": int,
        "crc": int,
        "position": int,
        "data": bytes,
    },
    "snapshot_ack": _TERM | {"seq": int, "index": int, "position": int, "joining": int},
    # joining: the nonce of a voter that does not acknowledge yet, else NO_NONCE
    "next_node_idx": _TERM
    | {"seq": int, "next_node_idx": int, "reset": bool, "success": bool, "joining": int},
    "timeout_now": _TERM,
}
KINDS = (REGULAR, NO_OP, VOTERS)  # pysyncobj's others change membership and code versions


def _quick(
    shape: dict[str, type],
) -> tuple[
    Callable[[Message], tuple[object, ...]], tuple[type, ...], Callable[[Message], tuple[int, ...]]
]:
    """The values of all fields, their types, and the numbers among them. Both raise KeyError where
    a field is missing.
    """
    numbers = [name for name, kind in shape.items() if kind is int]
    return itemgetter(*shape, "type"), (*shape.values(), str), itemgetter(*numbers, numbers[0])


_QUICK = {name: _quick(shape) for name, shape in SHAPES.items()}


def check_message(message: Message) -> None:
    """Raises MalformedMessage. A field too much is a newer version's, and no harm."""
    of_type = message.get("type") if isinstance(message, dict) else None
    quick = _QUICK.get(of_type) if isinstance(of_type, str) else None
    if quick is None:
        raise MalformedMessage(f"no message of a voter: {str(message)[:100]}")
    values, kinds, numbers = quick
    try:
        fits = tuple(map(type, values(message))) == kinds and min(numbers(message)) >= 0
    except KeyError:
        fits = False
    for name, kind in () if fits else SHAPES[message["type"]].items():
        value = message.get(name)
        # a number by now
        if (value.__class__ is not kind and not isinstance(value, kind)) or (
            kind is int and value < 0  # type: ignore[operator]
        ):
            raise MalformedMessage(f"{message['type']}.{name}: {str(value)[:100]}")
    if message["type"] == "append_entries":
        _check_entries(message)
    if message["type"] == "hello":
        _check_hello(message)
    if message["type"] == "snapshot" and message["size"] > METADATA_SNAPSHOT_BYTES.value:
        raise MalformedMessage(f"a snapshot of {message['size']} bytes", METADATA_SNAPSHOT_BYTES)


def _check_hello(message: Message) -> None:
    """`directory`, the id of the directory with the votes, is missing in the greeting of a release
    before KIP-853.
    """
    directory = message.get("directory", b"")
    if message["standing"] > max(Standing) or not isinstance(directory, bytes):
        raise MalformedMessage(f"hello.standing: {message['standing']}, {str(directory)[:100]}")


def _check_entries(message: Message) -> None:
    index, term = message["prevLogIdx"], message["prevLogTerm"]
    for entry in message["entries"]:
        index += 1
        match entry:
            case [bytes(command), int(found), int(of_term)] if (
                found == index and term <= of_term <= message["term"]
            ):
                term = of_term
                if command[:1] not in KINDS:
                    raise MalformedMessage(f"entry {index} is of kind {command[:1]!r}")
                try:
                    set_in(command)
                except MalformedVoters as error:
                    raise MalformedMessage(f"entry {index}: {error}") from error
            case _:
                raise MalformedMessage(f"entry {index}: {str(entry)[:100]}")
