"""Calls to the share coordinator: which share partitions are initialised, altered and deleted, and
the group's records before and after each call.

A call has a number; only the answer to a partition's last call counts. A partition that is asked
for again, as by a new coordinator that does not know of the call, is asked for with a higher state
epoch: so a call that is late changes nothing.
"""

from collections.abc import Iterable
from typing import NamedTuple

from raftka.coordinator.consumer.records import Epoch
from raftka.coordinator.machine import Steps, Ticket
from raftka.coordinator.share.commands import (
    AlterShareOffsets,
    DeleteShareOffsets,
    DeleteState,
    Errors,
    InitializeState,
    Place,
    StateDeleted,
    StateInitialized,
    unknown_partition,
)
from raftka.coordinator.share.decisions import Asked, ShareDecision
from raftka.coordinator.share.group import FIRST_EPOCH
from raftka.coordinator.share.partition_sets import (
    begin,
    delete,
    end_deletion,
    finish,
    forget,
    lacking,
    places_of,
    size_of,
    size_of_topic,
    topic_ids_of,
)
from raftka.coordinator.share.records import NO_TOPICS, Topic, Topics
from raftka.limits import SHARE_STATE_BYTES_OF_GROUP
from raftka.share.state import NO_START
from raftka.wire.errors import Code, KafkaError, LimitRefused

AT_ONCE = 50  # share partitions
AGAIN_S = 1.0  # until heartbeats look again after a call has failed, or when nothing was to do


class Work(NamedTuple):
    """Share partitions that need a call to the share coordinator."""

    initialize: Topics = NO_TOPICS
    delete: frozenset[bytes] = frozenset()  # topics
    gone: frozenset[bytes] = frozenset()  # topics that are not there any more


NO_WORK = Work()
NO_CALL = -1


# of heartbeats


def look_after_partitions(decision: ShareDecision, *, may_refuse: bool) -> Steps[Work]:
    """Return the share partitions that are to be initialised or deleted, and move the group's epoch
    if some are initialised and no member has them. Cheap while nothing has changed: a heartbeat
    has no bytes that would pay for a look at all partitions.

    Raises LimitRefused, if `may_refuse`, when the group would have too many; else those that are
    too many are left out.
    """
    group, soft, now = decision.group, decision.soft, decision.base.now
    known = decision.topics_version, group.subscription, group.partitions
    if soft.in_order == known or (soft.idle == known and now < soft.idle_until and not may_refuse):
        return NO_WORK
    wanted: dict[bytes, Topic] = {}
    for name in group.names:
        topic_id = decision.topics.topic_id(name)
        if topic_id is not None:
            indexes = frozenset(range(decision.topics.partition_count(name)))
            wanted[topic_id] = Topic(name, indexes)
        yield
    partitions = group.partitions
    lacks = lacking(wanted, partitions.initialized)
    gone = topic_ids_of(partitions)
    gone -= _known(decision, gone)
    waits = yield from _is_not_assigned(decision, wanted)
    moves = waits and group.epoch.epoch == group.targets.epoch
    if moves:
        decision.move_epoch(needed=True)
    if not lacks and not gone and not waits and not partitions.deleting:
        soft.in_order = known  # not before that is in the log
        return NO_WORK
    work = NO_WORK
    if now >= soft.failed_until:
        lacks = {each: topic for each, topic in lacks.items() if each not in partitions.deleting}
        missing = yield from _not_under_way(decision, lacks)
        deleting = [each for each in partitions.deleting if not _is_under_way(decision, (each, 0))]
        fitting = _fitting(decision, missing, may_refuse=may_refuse)
        work = Work(fitting, frozenset(deleting).difference(gone), frozenset(gone))
    if work == NO_WORK and not moves:
        soft.idle, soft.idle_until = known, now + AGAIN_S
    return work


def _is_not_assigned(decision: ShareDecision, wanted: Topics) -> Steps[bool]:
    """Return whether an initialised partition is in no member's target."""
    assigned: dict[bytes, set[int]] = {}
    for target in decision.group.target.values():
        for topic_id, indexes in target.items():
            assigned.setdefault(topic_id, set()).update(indexes)
        yield
    initialized = decision.group.partitions.initialized
    return any(
        not (topic.partitions & initialized[topic_id].partitions).issubset(
            assigned.get(topic_id, ())
        )
        for topic_id, topic in wanted.items()
        if topic_id in initialized
    )


def _not_under_way(decision: ShareDecision, topics: Topics) -> Steps[dict[bytes, Topic]]:
    found = {}
    for topic_id, (name, indexes) in topics.items():
        left = frozenset([i for i in indexes if not _is_under_way(decision, (topic_id, i))])
        if left:
            found[topic_id] = Topic(name, left)
        yield
    return found


def _is_under_way(decision: ShareDecision, place: Place) -> bool:
    """Return whether the share coordinator has been asked, and is to answer still."""
    asked = decision.soft.asked.get(decision.soft.last_call.get(place, NO_CALL))
    retry_s = decision.settings.initialize_retry_ms / 1000
    return asked is not None and decision.base.now < asked.at + retry_s


def _fitting(decision: ShareDecision, topics: Topics, *, may_refuse: bool) -> dict[bytes, Topic]:
    """Return the topics for which the group's record has room. Raises LimitRefused."""
    size, found = size_of(decision.group.partitions), {}
    for topic_id, topic in topics.items():
        size += size_of_topic(topic)
        if size <= SHARE_STATE_BYTES_OF_GROUP.value:
            found[topic_id] = topic
        elif may_refuse:
            raise LimitRefused(SHARE_STATE_BYTES_OF_GROUP, size, code=Code.INVALID_REQUEST)
    return found


def do_work(decision: ShareDecision, work: Work) -> Steps[None]:
    """Write that partitions are being initialised, and ask the share coordinator."""
    if work.gone:
        decision.draft.set_partitions(forget(decision.group.partitions, work.gone))
    if work.initialize:
        known = decision.group.partitions.initializing
        starts = dict.fromkeys(places_of(work.initialize), NO_START)
        again = any(topic_id in known for topic_id in work.initialize)
        yield from _initialize(decision, work.initialize, starts, Asked(), again=again)
    if work.delete:
        yield from _delete(decision, work.delete, Asked())


# calls


def _initialize(
    decision: ShareDecision,
    topics: Topics,
    starts: dict[Place, int],
    asked: Asked,
    *,
    again: bool,
) -> Steps[None]:
    """Write that the partitions are being initialised; the call leaves when that is committed.
    `again`: their state may have been initialised before.
    """
    group, soft = decision.group, decision.soft
    if again and soft.asked_epoch >= group.epoch.epoch:
        decision.draft.set_epoch(group.epoch._replace(epoch=group.epoch.epoch + 1))
    epoch = decision.group.epoch.epoch
    soft.asked_epoch = max(soft.asked_epoch, epoch)
    decision.draft.set_partitions(begin(group.partitions, topics))
    number = yield from _note(decision, asked, starts)
    decision.call(InitializeState(group.group_id, number, epoch, starts))


def _delete(decision: ShareDecision, topic_ids: Iterable[bytes], asked: Asked) -> Steps[None]:
    """Write that the state of the topics is being deleted; the call leaves when that is
    committed.
    """
    partitions = decision.group.partitions
    places: dict[Place, None] = {}
    for topic_id in sorted(topic_ids):
        for topics in (partitions.initializing, partitions.initialized):
            if topic_id in topics:
                places.update({(topic_id, each): None for each in topics[topic_id].partitions})
        name = decision.topics.topic_name(topic_id)
        count = decision.topics.partition_count(name) if name is not None else 0
        places.update({(topic_id, each): None for each in range(max(count, 1))})
        yield
    decision.draft.set_partitions(delete(partitions, frozenset(topic_ids)))
    number = yield from _note(decision, asked, places)
    decision.call(DeleteState(decision.group.group_id, number, tuple(places)))


def _note(decision: ShareDecision, asked: Asked, places: Iterable[Place]) -> Steps[int]:
    """Note the call as the last one of its partitions, and return its number: no other call has it,
    also none of an earlier coordinator.
    """
    number = decision.base.context.random.getrandbits(63)
    kept = frozenset(places)
    decision.soft.asked[number] = asked._replace(at=decision.base.now, places=kept)
    for count, place in enumerate(kept):
        decision.soft.last_call[place] = number
        if count % AT_ONCE == 0:
            yield
    return number


# of administrators


def alter(decision: ShareDecision, command: AlterShareOffsets, ticket: Ticket) -> Steps[None]:
    """Initialise the partitions anew with these start offsets; the ticket is answered when they
    are. Raises LimitRefused, and COORDINATOR_LOAD_IN_PROGRESS while partitions are being deleted.
    """
    errors: Errors = {}
    topics: dict[bytes, Topic] = {}
    starts: dict[Place, int] = {}
    for name, wanted in command.topics.items():
        topic_id = decision.topics.topic_id(name)
        count = decision.topics.partition_count(name)
        good = []
        for index, start in wanted.items():
            if topic_id is not None and 0 <= index < count:
                good.append(index)
                starts[topic_id, index] = start
            else:
                errors[name, index] = unknown_partition()
            yield
        if topic_id is not None and good:
            topics[topic_id] = Topic(name, frozenset(good))
        yield
    if not topics:
        decision.base.reply(ticket, errors)
        return
    group = decision.group
    if any(_is_under_way(decision, (topic_id, 0)) for topic_id in group.partitions.deleting):
        raise KafkaError(
            Code.COORDINATOR_LOAD_IN_PROGRESS, "Offsets of the group are being deleted."
        )
    size = size_of(group.partitions) + sum(map(size_of_topic, topics.values()))
    if size > SHARE_STATE_BYTES_OF_GROUP.value:
        raise LimitRefused(SHARE_STATE_BYTES_OF_GROUP, size, code=Code.INVALID_REQUEST)
    if decision.is_new:
        decision.draft.set_epoch(Epoch(FIRST_EPOCH))
    decision.draft.set_partitions(end_deletion(group.partitions, topics))
    names = {topic_id: topic.name for topic_id, topic in topics.items()}
    asked = Asked(ticket=ticket, errors=errors, names=names)
    yield from _initialize(decision, topics, starts, asked, again=not decision.is_new)


def delete_offsets(
    decision: ShareDecision, command: DeleteShareOffsets, ticket: Ticket
) -> Steps[None]:
    """Delete the state of the topics' partitions; the ticket is answered when that is done."""
    there = topic_ids_of(decision.group.partitions)
    errors: Errors = {}
    names: dict[bytes, str] = {}
    for name in command.topics:
        topic_id = decision.topics.topic_id(name)
        if topic_id is None:
            errors[name] = unknown_partition()
        elif topic_id not in there:
            errors[name] = KafkaError(
                Code.UNKNOWN_TOPIC_OR_PARTITION, "There is no offset information to delete."
            )
        else:
            names[topic_id] = name
        yield
    if names:
        yield from _delete(decision, names, Asked(ticket=ticket, errors=errors, names=names))
    else:
        decision.base.reply(ticket, errors)


def delete_group(decision: ShareDecision, ticket: Ticket) -> Steps[None]:
    """Delete the state of all partitions, and then the group; the ticket is answered then. The
    share coordinator has no state of topics that are gone.
    """
    there = _known(decision, topic_ids_of(decision.group.partitions))
    if there:
        yield from _delete(decision, there, Asked(ticket=ticket, deletes_group=True))
    else:
        decision.base.records += decision.group.tombstones()
        decision.base.reply(ticket, None)


# answers of the share coordinator


def on_initialized(decision: ShareDecision, command: StateInitialized, asked: Asked) -> Steps[None]:
    """Write which partitions are initialised, without those of which there was a later call."""
    mine = yield from _last_calls(decision, asked, command.number)
    done: dict[bytes, set[int]] = {}
    for place in mine:
        if place not in command.errors:
            topic_id, index = place
            done.setdefault(topic_id, set()).add(index)
        yield
    decision.draft.set_partitions(finish(decision.group.partitions, done))
    if command.errors:
        decision.soft.failed_until = decision.base.now + AGAIN_S
    if asked.ticket is not None:
        errors = dict(asked.errors)
        for (topic_id, index), error in command.errors.items():
            errors[asked.names[topic_id], index] = error
        decision.base.reply(asked.ticket, errors)


def on_deleted(decision: ShareDecision, command: StateDeleted, asked: Asked) -> Steps[None]:
    """Write which topics' state is deleted, and delete the group if that was asked for."""
    mine = yield from _last_calls(decision, asked, command.number)
    known = _known(decision, {topic_id for topic_id, _ in command.errors})  # others have no state
    failed = {each: error for (each, _), error in command.errors.items() if each in known}
    done = {topic_id for topic_id, _ in mine} - failed.keys()
    group = decision.group
    left = end_deletion(group.partitions, done)
    if failed:
        decision.soft.failed_until = decision.base.now + AGAIN_S
    is_last = not group.members and not _known(decision, topic_ids_of(left))
    if asked.deletes_group and not failed and is_last:
        decision.base.records += group.tombstones()
        decision.base.reply(asked.ticket, None)
        return
    decision.draft.set_partitions(left)
    if asked.deletes_group:
        # without members: another deletion, which came later, is under way
        code = Code.NON_EMPTY_GROUP if group.members else Code.COORDINATOR_LOAD_IN_PROGRESS
        error = next(iter(failed.values()), KafkaError(code))
        decision.base.reply(asked.ticket, error)
    elif asked.ticket is not None:
        errors = dict(asked.errors)
        for topic_id, refusal in failed.items():
            errors[asked.names[topic_id]] = refusal
        decision.base.reply(asked.ticket, errors)


def _known(decision: ShareDecision, topic_ids: Iterable[bytes]) -> set[bytes]:
    """Return the topics that are there."""
    return {each for each in topic_ids if decision.topics.topic_name(each) is not None}


def _last_calls(decision: ShareDecision, asked: Asked, number: int) -> Steps[list[Place]]:
    """Return the partitions of which this was the last call: no call is under way any more."""
    last, mine = decision.soft.last_call, []
    for count, place in enumerate(asked.places):
        if last.get(place) == number:
            del last[place]
            mine.append(place)
        if count % AT_ONCE == 0:
            yield
    return mine
