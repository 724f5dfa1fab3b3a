"""Facts about the users of a cluster: groups with their offsets, and transactions that are open."""

from collections.abc import Mapping, Sequence
from functools import partial

from raftka.client.blocking.client import Client, Where, list_offsets_request
from raftka.client.blocking.every_broker import ask_every_broker
from raftka.client.blocking.groups import (
    SHARE,
    Committed,
    DescribedGroup,
    describe_groups,
    fetch_offsets,
)
from raftka.client.blocking.share_groups import ShareOffset, share_offsets
from raftka.client.blocking.transaction_admin import (
    OpenTransaction,
    find_hanging,
    open_in_partitions,
)
from raftka.doctor.facts import Group, Offsets, Topic
from raftka.doctor.gathering.cluster import Questions
from raftka.wire.messages.groups import LIST_GROUPS
from raftka.wire.messages.list_offsets import EARLIEST, LATEST, LIST_OFFSETS

Shares = Mapping[str, Mapping[Where, ShareOffset]]  # by group


def read_groups(
    client: Client, questions: Questions, topics: Mapping[str, Topic], shares: Shares
) -> list[Group]:
    """Return all groups with their offsets. `shares`: the start offsets of an earlier look."""
    names = _names(client)
    described, lost = describe_groups(client, names)
    for name, why in lost.items():
        questions.unknown[f"group {name}"] = why
    committed, lost = fetch_offsets(
        client, [name for name, each in described.items() if each.type != SHARE]
    )
    wheres = {where for own in committed.values() for where in own}
    wheres |= {where for each in described.values() for where in each.owners}
    known = [(name, index) for name, index in wheres if index in _partitions(topics, name)]
    begins = _offsets(questions, topics, known, EARLIEST)
    ends = _offsets(questions, topics, known, LATEST)
    now = read_shares(client, questions, list(described))
    return [
        Group(
            name,
            each.type,
            len(each.members),
            {
                where: Offsets(offset, begins.get(where), ends.get(where))
                for where, offset in _committed_of(name, each, committed, now).items()
            },
            _standing(shares.get(name, {}), now.get(name, {})),
        )
        for name, each in described.items()
    ]


def _names(client: Client) -> list[str]:
    answers = ask_every_broker(client, LIST_GROUPS, LIST_GROUPS.request())
    return sorted({each.group_id for answer in answers.of.values() for each in answer.groups})


def _committed_of(
    name: str,
    group: DescribedGroup,
    committed: Mapping[str, Mapping[Where, Committed]],
    shares: Shares,
) -> dict[Where, int | None]:
    """Return the offsets of a group, None where it reads and has committed none."""
    if group.type == SHARE:
        return {where: each.start for where, each in shares.get(name, {}).items()}
    found: dict[Where, int | None] = dict.fromkeys(group.owners)
    found |= {where: each.offset for where, each in committed.get(name, {}).items()}
    return found


def read_shares(client: Client, questions: Questions, names: Sequence[str] | None = None) -> Shares:
    """Return the offsets of share groups; `names`: of all groups, all there are unless given."""
    described, _ = describe_groups(client, _names(client) if names is None else names)
    found: dict[str, Mapping[Where, ShareOffset]] = {}
    for name, each in described.items():
        if each.type == SHARE:
            own = questions.try_to(f"share group {name}", partial(share_offsets, client, name))
            found[name] = own or {}
    return found


def _standing(before: Mapping[Where, ShareOffset], now: Mapping[Where, ShareOffset]) -> list[Where]:
    """Return the partitions in which records wait and none was done between two looks."""
    return sorted(
        where
        for where, each in now.items()
        if each.lag
        and each.start is not None
        and before.get(where, each).start == each.start
        and where in before
    )


def _partitions(topics: Mapping[str, Topic], name: str) -> Mapping[int, object]:
    topic = topics.get(name)
    return topic.partitions if topic is not None else {}


def _offsets(
    questions: Questions, topics: Mapping[str, Topic], wheres: Sequence[Where], at: int
) -> dict[Where, int]:
    led: dict[int, dict[Where, int]] = {}
    for name, index in wheres:
        led.setdefault(topics[name].partitions[index].leader, {})[name, index] = at
    led.pop(-1, None)
    rows = {node_id: list_offsets_request(own) for node_id, own in led.items()}
    return {
        (topic.name, each.partition_index): each.offset
        for answer in questions.each("offsets", LIST_OFFSETS, rows).values()
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code
    }


def read_hanging(client: Client, topics: Mapping[str, Topic]) -> list[OpenTransaction]:
    """Return the open transactions that no coordinator knows."""
    wheres = [
        (topic.name, index)
        for topic in topics.values()
        for index, each in topic.partitions.items()
        if each.leader >= 0
    ]
    suspects = open_in_partitions(client, wheres).found
    if not suspects:
        return []
    hanging, known = find_hanging(client, suspects)
    return hanging if known.is_complete else []
