"""The share partitions of a group, by the state of their persisted state: changes of these sets, as
values. Knows no record and no member.

The group coordinator writes that it initialises share partitions, then asks the share coordinator,
then writes that they are initialised; from then on they are assigned. To delete works alike.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

from raftka.coordinator.share.commands import Place
from raftka.coordinator.share.group import all_places
from raftka.coordinator.share.records import Partitions, Topic, Topics

TOPIC_BYTES = 24  # of a topic in the record, beside its name and its partitions
PARTITION_BYTES = 4


def size_of(partitions: Partitions) -> int:
    """Return the bytes of the record, about."""
    return sum(
        map(size_of_topic, (*partitions.initializing.values(), *partitions.initialized.values()))
    ) + sum([TOPIC_BYTES + len(name) for name in partitions.deleting.values()])


def size_of_topic(topic: Topic) -> int:
    return TOPIC_BYTES + len(topic.name) + PARTITION_BYTES * len(topic.partitions)


def places_of(topics: Topics) -> list[Place]:
    return list(all_places({topic_id: topic.partitions for topic_id, topic in topics.items()}))


def lacking(wanted: Topics, *there: Topics) -> dict[bytes, Topic]:
    """Return the wanted partitions that are in none of the others."""
    found = {}
    for topic_id, (name, indexes) in wanted.items():
        left = indexes.difference(
            *[each[topic_id].partitions for each in there if topic_id in each]
        )
        if left:
            found[topic_id] = Topic(name, left)
    return found


def joined(topics: Topics, more: Mapping[bytes, Topic]) -> Topics:
    """Return the partitions of both."""
    found = dict(topics)
    for topic_id, topic in more.items():
        known = found.get(topic_id)
        found[topic_id] = (
            topic
            if known is None
            else known._replace(partitions=known.partitions | topic.partitions)
        )
    return found


def begin(partitions: Partitions, topics: Mapping[bytes, Topic]) -> Partitions:
    """Return the sets when these partitions are being initialised, perhaps anew."""
    return partitions._replace(initializing=joined(partitions.initializing, topics))


def finish(partitions: Partitions, done: Mapping[bytes, AbstractSet[int]]) -> Partitions:
    """Return the sets when those of `done` that are being initialised are initialised."""
    ended = {
        topic_id: Topic(topic.name, topic.partitions & done[topic_id])
        for topic_id, topic in partitions.initializing.items()
        if topic_id in done and not topic.partitions.isdisjoint(done[topic_id])
    }
    return partitions._replace(
        initializing=lacking(partitions.initializing, ended),
        initialized=joined(partitions.initialized, ended),
    )


def delete(partitions: Partitions, topic_ids: Collection[bytes]) -> Partitions:
    """Return the sets when the state of all partitions of these topics is deleted."""
    names = {
        topic_id: topic.name
        for topics in (partitions.initializing, partitions.initialized)
        for topic_id, topic in topics.items()
        if topic_id in topic_ids
    }
    return Partitions(
        without(partitions.initializing, topic_ids),
        without(partitions.initialized, topic_ids),
        {**partitions.deleting, **names},
    )


def end_deletion(partitions: Partitions, topic_ids: Collection[bytes]) -> Partitions:
    """Return the sets when the state of these topics is not being deleted any more."""
    deleting = {each: name for each, name in partitions.deleting.items() if each not in topic_ids}
    return partitions._replace(deleting=deleting)


def forget(partitions: Partitions, topic_ids: Collection[bytes]) -> Partitions:
    """Return the sets without these topics."""
    return end_deletion(
        partitions._replace(
            initializing=without(partitions.initializing, topic_ids),
            initialized=without(partitions.initialized, topic_ids),
        ),
        topic_ids,
    )


def topic_ids_of(partitions: Partitions) -> set[bytes]:
    return {*partitions.initializing, *partitions.initialized, *partitions.deleting}


def without(topics: Topics, topic_ids: Collection[bytes]) -> Topics:
    return {each: topic for each, topic in topics.items() if each not in topic_ids}
