"""The steps of a member from its partitions to its target: the member gives partitions up first,
then gets free ones. Knows no request and no time.

A partition is given to a member only when it is free. The member waits while another one has it, or
has not confirmed that it gave it up.
"""

from raftka.coordinator.consumer.commands import Target
from raftka.coordinator.consumer.group import ConsumerGroup, Member
from raftka.coordinator.consumer.records import (
    Current,
    Epochs,
    Said,
)
from raftka.coordinator.machine import Topics
from raftka.coordinator.modern.records import MemberState

# partitions that a member reports as its own; None: as before
Owned = dict[bytes, frozenset[int]] | None


def reconcile(
    group: ConsumerGroup, member: Member, owned: Owned, topics: Topics, *, resubscribed: bool
) -> Current:
    """Return the partitions that the member has after this step. `resubscribed`: it gives up at
    once the topics that it no longer subscribes to, whatever the targets say.
    """
    current = member.current
    if current.state is MemberState.STABLE and current.epoch == group.targets.epoch:
        return _only_subscribed(group, member, owned, topics) if resubscribed else current
    if current.state is MemberState.UNREVOKED and _has_any(owned, current.revoking):
        return _only_subscribed(group, member, owned, topics) if resubscribed else current
    return _next(group, member, owned, topics)


def _next(group: ConsumerGroup, member: Member, owned: Owned, topics: Topics) -> Current:
    current = member.current
    target = _subscribed(group, member.said, group.target.get(member.member_id, {}), topics)
    kept: Epochs = {}
    revoking: Epochs = {}
    for topic_id, partitions in current.assigned.items():
        wanted = set(target.get(topic_id, ()))
        _put(kept, topic_id, {each: epoch for each, epoch in partitions.items() if each in wanted})
        _put(
            revoking,
            topic_id,
            {each: epoch for each, epoch in partitions.items() if each not in wanted},
        )
    if revoking and _has_any(owned, revoking):
        return _moved(current, current.epoch, MemberState.UNREVOKED, kept, revoking)
    epoch, waits = group.targets.epoch, False
    for topic_id, wanted_partitions in target.items():
        has = kept.get(topic_id, {})
        missing = [each for each in wanted_partitions if each not in has]
        free = [each for each in missing if group.owner(topic_id, each) in (None, member.member_id)]
        waits = waits or len(free) < len(missing)
        _put(kept, topic_id, {**has, **dict.fromkeys(free, epoch)})
    return _moved(current, epoch, MemberState.UNRELEASED if waits else MemberState.STABLE, kept, {})


def _only_subscribed(group: ConsumerGroup, member: Member, owned: Owned, topics: Topics) -> Current:
    current = member.current
    kept = {
        topic_id: partitions
        for topic_id, partitions in current.assigned.items()
        if _reads(group, member.said, topic_id, topics)
    }
    if len(kept) == len(current.assigned):
        return current
    revoking = {topic_id: dict(partitions) for topic_id, partitions in current.revoking.items()}
    for topic_id, partitions in current.assigned.items():
        if topic_id not in kept:
            revoking.setdefault(topic_id, {}).update(partitions)
    if _has_any(owned, revoking):
        return _moved(current, current.epoch, MemberState.UNREVOKED, kept, revoking)
    return current._replace(assigned=kept)


def _moved(
    current: Current, epoch: int, state: MemberState, assigned: Epochs, revoking: Epochs
) -> Current:
    """Return the member's new state. It keeps the epoch before: an answer may be lost."""
    previous = current.epoch if epoch != current.epoch else current.previous_epoch
    return Current(epoch, previous, state, assigned, revoking)


def _subscribed(group: ConsumerGroup, said: Said, target: Target, topics: Topics) -> Target:
    return {
        topic_id: partitions
        for topic_id, partitions in target.items()
        if _reads(group, said, topic_id, topics)
    }


def _reads(group: ConsumerGroup, said: Said, topic_id: bytes, topics: Topics) -> bool:
    name = topics.topic_name(topic_id)
    return name is not None and group.reads(said, name)


def _has_any(owned: Owned, revoking: Epochs) -> bool:
    """Return whether the member still owns one of the partitions that it is to give up. A member
    that does not list its partitions owns all.
    """
    if owned is None:
        return True
    return any(
        not partitions.keys().isdisjoint(owned.get(topic_id, ()))
        for topic_id, partitions in revoking.items()
    )


def _put(epochs: Epochs, topic_id: bytes, partitions: dict[int, int]) -> None:
    if partitions:
        epochs[topic_id] = partitions


def waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    """Return whether some of the member's target is not free yet."""
    for topic_id, partitions in group.target.get(member.member_id, {}).items():
        has = member.current.assigned.get(topic_id, {})
        if any(
            each not in has and group.owner(topic_id, each) not in (None, member.member_id)
            for each in partitions
        ):
            return True
    return False
