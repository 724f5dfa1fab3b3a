"""Each anomaly, planted into a history that has none. A plant changes operations in place; one that
finds no place for itself says so with Unfit.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import Any

from raftka.chaos.history import (
    ASSIGN,
    COMMIT,
    FAIL,
    FETCH_OFFSET,
    LIST_OFFSETS,
    OK,
    POLL,
    PRODUCE,
    READ,
    TRANSACTION,
    History,
    Operation,
)

Plant = Callable[[History, Random], None]
UNKNOWN = 10**9


class Unfit(Exception):
    """Nothing in this history can be changed so."""


def _ok(history: History, *verbs: str) -> list[Operation]:
    return [each for each in history.operations if each.outcome == OK and each.verb in verbs]


def _some(random: Random, found: Sequence[Any]) -> Any:
    if not found:
        raise Unfit
    return random.choice(found)


def _polls(history: History, key: str) -> list[Operation]:
    return [each for each in _ok(history, POLL) if each.polled.get(key)]


def _forget(history: History, key: str, value: object) -> None:
    """Nobody has read it."""
    for each in history.operations:
        if key in each.polled:
            each.polled[key][:] = [record for record in each.polled[key] if record[1] != value]  # type: ignore[index]


def _append(history: History, key: str, value: object) -> None:
    """The last reader reads one more."""
    last = _polls(history, key)[-1]
    offset = last.polled[key][-1][0] + 1
    last.polled[key].append((offset, value))  # type: ignore[attr-defined]
    last.told[key] = last.told[key]._replace(last_stable=offset + 1, high_watermark=offset + 1)  # type: ignore[index]


def _last_reader(history: History) -> tuple[str, list[Operation]]:
    """Reads every key from its beginning: its longest key, and its polls."""
    process = _ok(history, ASSIGN)[-1].process
    polls = [each for each in _ok(history, POLL) if each.process == process]
    key = max(polls[0].told, key=lambda name: sum(len(each.polled.get(name, ())) for each in polls))
    return key, [each for each in polls if len(each.polled.get(key, ())) > 1]


def _one_after_the_other(
    found: Sequence[Operation], random: Random, alike: Callable[[Operation, Operation], bool]
) -> tuple[Operation, Operation]:
    found = random.sample(found, min(len(found), 60))
    return _some(  # type: ignore[no-any-return]
        random,
        [
            (one, other)
            for one in found
            for other in found
            if one.ended < other.began and alike(one, other)
        ],
    )


def _sent_one_after_the_other(history: History, random: Random) -> tuple[Operation, Operation]:
    return _one_after_the_other(
        _ok(history, PRODUCE), random, lambda one, other: one.sends[0][0] == other.sends[0][0]
    )


def _with_offset(operation: Operation, place: int, offset: int) -> None:
    key, value, _ = operation.sends[place]
    operation.sends[place] = (key, value, offset)  # type: ignore[index]


# writes


def _lost_write(history: History, random: Random) -> None:
    key, value, _ = _some(random, _ok(history, PRODUCE)[:50]).sends[0]
    _forget(history, key, value)


def _torn(history: History, random: Random) -> None:
    key, value, _ = _some(
        random, [each for each in _ok(history, TRANSACTION) if len(each.sends) > 1]
    ).sends[0]
    _forget(history, key, value)


def _unseen(history: History, random: Random) -> None:
    key, _ = _last_reader(history)
    sends = [
        send for each in _ok(history, PRODUCE, TRANSACTION) for send in each.sends if send[0] == key
    ]
    reached = max(sends, key=lambda send: send[2])
    for each in history.operations:
        if key in each.polled:
            each.polled[key][:] = [record for record in each.polled[key] if record[0] < reached[2]]  # type: ignore[index]


def _aborted_read(history: History, random: Random) -> None:
    key, value, _ = _some(
        random, [each for each in history.operations if each.outcome == FAIL and each.sends]
    ).sends[0]
    _append(history, key, value)


def _phantom(history: History, random: Random) -> None:
    _append(history, _last_reader(history)[0], UNKNOWN)


def _precommitted(history: History, random: Random) -> None:
    operation = _some(random, _ok(history, TRANSACTION))
    key, value, offset = operation.sends[0]
    operation.polled = {**operation.polled, key: [*operation.polled.get(key, ()), (offset, value)]}


def _sent_twice(history: History, random: Random) -> None:
    one, other = _sent_one_after_the_other(history, random)
    other.sends = [one.sends[0], *other.sends[1:]]


def _nonmonotonic_send(history: History, random: Random) -> None:
    one, other = _sent_one_after_the_other(history, random)
    _with_offset(one, 0, other.sends[0][2])
    _with_offset(other, 0, one.sends[0][2])


def _inner_nonmonotonic_send(history: History, random: Random) -> None:
    operation = _some(
        random,
        [
            each
            for each in _ok(history, PRODUCE)
            if len(each.sends) > 1 and each.sends[0][0] == each.sends[1][0]
        ],
    )
    first, second = operation.sends[0][2], operation.sends[1][2]
    _with_offset(operation, 0, second)
    _with_offset(operation, 1, first)


def _reordered(history: History, random: Random) -> None:
    """Everybody sees two records of a producer in each other's place."""
    pairs = [
        (one, other)
        for one, other in pairwise(_ok(history, PRODUCE))
        if one.producer == other.producer
    ]
    one, other = _some(
        random, [(one, other) for one, other in pairs if one.sends[0][0] == other.sends[0][0]]
    )
    (key, first, first_offset), (_, second, second_offset) = one.sends[0], other.sends[0]
    swapped = {first: second, second: first}
    _with_offset(one, 0, second_offset)
    _with_offset(other, 0, first_offset)
    for each in history.operations:
        if key in each.polled:
            each.polled[key][:] = [  # type: ignore[index]
                (offset, swapped.get(value, value)) for offset, value in each.polled[key]
            ]


def _zombie_write(history: History, random: Random) -> None:
    one, other = _one_after_the_other(
        _ok(history, TRANSACTION), random, lambda one, other: one.producer == other.producer
    )
    one.epoch = other.epoch + 1


# reads


def _duplicate(history: History, random: Random) -> None:
    key, polls = _last_reader(history)
    _append(history, key, _some(random, polls).polled[key][0][1])


def _inconsistent(history: History, random: Random) -> None:
    key, polls = _last_reader(history)
    records = _some(random, polls).polled[key]
    records[0] = (records[0][0], records[1][1])


def _inner_skip(history: History, random: Random) -> None:
    key, polls = _last_reader(history)
    del _some(random, [each for each in polls if len(each.polled[key]) > 2]).polled[key][1]


def _inner_nonmonotonic(history: History, random: Random) -> None:
    key, polls = _last_reader(history)
    _some(random, polls).polled[key][:2] = reversed(_some(random, polls).polled[key][:2])


def _skip(history: History, random: Random) -> None:
    key, polls = _last_reader(history)
    del _some(random, polls[1:]).polled[key][0]


def _nonmonotonic(history: History, random: Random) -> None:
    key, polls = _last_reader(history)
    place = _some(random, range(1, len(polls)))
    polls[place].polled[key].insert(0, polls[place - 1].polled[key][-1])


def _gap(history: History, random: Random, width: int = 1) -> None:
    """From the middle on, everything of a key lies further on."""
    key, polls = _last_reader(history)
    middle = polls[len(polls) // 2].polled[key][1][0]

    def moved(offset: int | None) -> int | None:
        return offset + width if offset is not None and offset >= middle else offset

    for each in history.operations:
        each.sends = [
            (name, value, moved(offset) if name == key else offset)
            for name, value, offset in each.sends
        ]
        if key in each.polled:
            each.polled[key][:] = [(moved(offset), value) for offset, value in each.polled[key]]  # type: ignore[index]
        if key in each.told:
            each.told[key] = each.told[key]._replace(last_stable=UNKNOWN, high_watermark=UNKNOWN)  # type: ignore[index]


def _wide_gap(history: History, random: Random) -> None:
    _gap(history, random, 1000)


def _beyond_high_watermark(history: History, random: Random) -> None:
    key, polls = _last_reader(history)
    poll = _some(random, polls)
    poll.told[key] = poll.told[key]._replace(
        leader_epoch=-1, high_watermark=poll.polled[key][-1][0]
    )


def _beyond_last_stable(history: History, random: Random) -> None:
    key, polls = _last_reader(history)
    poll = _some(random, polls)
    poll.told[key] = poll.told[key]._replace(leader_epoch=-1, last_stable=poll.polled[key][-1][0])


def _circle(history: History, random: Random) -> None:
    one, other = _some(random, list(pairwise(_ok(history, TRANSACTION))))
    for reader, writer in ((one, other), (other, one)):
        key, value, offset = writer.sends[0]
        reader.polled = {**reader.polled, key: [(offset, value)]}


# what was told


def _told_less(field: str) -> Plant:
    def plant(history: History, random: Random) -> None:
        key, _ = _last_reader(history)
        polls = [
            each
            for each in _ok(history, POLL)
            if key in each.told and each.told[key].leader_epoch >= 0
        ]
        one, _ = _one_after_the_other(
            polls,
            random,
            lambda one, other: one.told[key].leader_epoch == other.told[key].leader_epoch,
        )
        one.told[key] = one.told[key]._replace(**{field: UNKNOWN})  # type: ignore[index]

    return plant


def _end_back(history: History, random: Random) -> None:
    one, _ = _one_after_the_other(
        _ok(history, LIST_OFFSETS),
        random,
        lambda one, other: one.process == other.process and one.told.keys() == other.told.keys(),
    )
    ((key, told),) = one.told.items()
    one.told[key] = told._replace(leader_epoch=0, high_watermark=UNKNOWN)  # type: ignore[index]


# groups and registers


def _commit_lost(history: History, random: Random) -> None:
    read, key = _some(random, list(_told_after_a_commit(history)))
    read.offsets[key] = -1


def _told_after_a_commit(history: History) -> Iterator[tuple[Operation, str]]:
    for read in _ok(history, FETCH_OFFSET):
        for key in read.offsets:
            if any(
                each.group == read.group and key in each.offsets and each.ended < read.began
                for each in _ok(history, COMMIT)
            ):
                yield read, key


def _phantom_commit(history: History, random: Random) -> None:
    read, key = _some(random, list(_told_after_a_commit(history)))
    read.offsets[key] = UNKNOWN


def _zombie_commit(history: History, random: Random) -> None:
    one, other = _one_after_the_other(
        _ok(history, COMMIT), random, lambda one, other: one.group == other.group
    )
    one.generation = other.generation + 1


def _not_linearizable(history: History, random: Random) -> None:
    _some(random, _ok(history, READ)).value = UNKNOWN


PLANTS: dict[str, Plant] = {
    "lost-write": _lost_write,
    "torn-transaction": _torn,
    "unseen": _unseen,
    "aborted-read": _aborted_read,
    "phantom": _phantom,
    "precommitted-read": _precommitted,
    "bad-history": _sent_twice,
    "nonmonotonic-send": _nonmonotonic_send,
    "int-nonmonotonic-send": _inner_nonmonotonic_send,
    "reordered-send": _reordered,
    "zombie-write": _zombie_write,
    "duplicate": _duplicate,
    "inconsistent-offsets": _inconsistent,
    "int-poll-skip": _inner_skip,
    "int-nonmonotonic-poll": _inner_nonmonotonic,
    "poll-skip": _skip,
    "nonmonotonic-poll": _nonmonotonic,
    "offset-gap": _gap,
    "beyond-high-watermark": _beyond_high_watermark,
    "beyond-last-stable-offset": _beyond_last_stable,
    "G1c": _circle,
    "high-watermark-back": _told_less("high_watermark"),
    "last-stable-offset-back": _told_less("last_stable"),
    "log-start-back": _told_less("log_start"),
    "end-back": _end_back,
    "commit-lost": _commit_lost,
    "phantom-commit": _phantom_commit,
    "zombie-commit": _zombie_commit,
    "not-linearizable": _not_linearizable,
}
WITHOUT_TRANSACTIONS = {"offset-gap"}
wide_gap = _wide_gap
