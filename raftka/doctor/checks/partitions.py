"""Checks of partitions, their leaders and moves."""

from collections import Counter
from collections.abc import Iterator

from raftka.client.blocking.client import Where
from raftka.doctor.checks.finding import BAD, Found, count, finds, has, names, places
from raftka.doctor.facts import Facts, Partition

HOUR_MS = 3_600_000
PARTITIONS_OF_BROKER = 100  # of one topic: more than any group has members
REPLICAS_OF_BROKER = 4_000
UNEVEN, MIN_LEADERS = 1.5, 10  # times the mean, and more than it by so many


def _each(facts: Facts) -> Iterator[tuple[Where, Partition]]:
    for topic in facts.topics.values():
        for index, each in topic.partitions.items():
            yield (topic.name, index), each


def min_isr(facts: Facts, topic: str) -> int:
    return int(facts.topics[topic].settings.get("min.insync.replicas", "1"))


@finds("partitions-offline", BAD)
def partitions_offline(facts: Facts) -> Iterator[Found]:
    offline = [where for where, each in _each(facts) if each.leader < 0]
    if offline:
        yield Found(
            f"{count(len(offline), 'partition')} {has(len(offline), 'has', 'have')} no leader "
            f"({places(offline)}): start the brokers that have their replicas.",
            f"raftka topics describe {min(offline)[0]}",
        )


@finds("partitions-under-min-isr", BAD)
def partitions_under_min_isr(facts: Facts) -> Iterator[Found]:
    under = [
        where
        for where, each in _each(facts)
        if each.leader >= 0 and len(each.isr) < min(min_isr(facts, where[0]), len(each.replicas))
    ]
    if under:
        yield Found(
            f"{count(len(under), 'partition')} {has(len(under), 'has', 'have')} fewer replicas in "
            f"sync than min.insync.replicas ({places(under)}): acks=all is refused; bring their "
            "brokers back.",
            f"raftka topics describe {min(under)[0]}",
        )


@finds("partitions-under-replicated")
def partitions_under_replicated(facts: Facts) -> Iterator[Found]:
    under = {
        where: each
        for where, each in _each(facts)
        if each.leader >= 0 and len(each.isr) < len(each.replicas)
    }
    if under:
        lagging = sorted(
            {one for each in under.values() for one in set(each.replicas).difference(each.isr)}
        )
        yield Found(
            f"{count(len(under), 'partition')} {has(len(under), 'lacks', 'lack')} replicas in sync "
            f"on {names(lagging)} ({places(under)}): start these brokers, or see why they lag.",
            f"raftka topics describe {min(under)[0]}",
        )


@finds("leaders-not-preferred")
def leaders_not_preferred(facts: Facts) -> Iterator[Found]:
    """Only those that could lead now."""
    others = [
        where
        for where, each in _each(facts)
        if each.leader >= 0 and each.leader != each.replicas[0] and each.replicas[0] in each.isr
    ]
    if others:
        yield Found(
            f"{count(len(others), 'partition')} {has(len(others), 'is', 'are')} not led by the "
            f"first replica, which is in sync ({places(others)}): give leadership back.",
            "raftka partitions elect",
        )


@finds("leaders-unbalanced")
def leaders_unbalanced(facts: Facts) -> Iterator[Found]:
    """By first replicas: an election does not help."""
    first = Counter({each.node_id: 0 for each in facts.alive})
    for _, each in _each(facts):
        if each.replicas[0] in first:
            first[each.replicas[0]] += 1
    mean = first.total() / max(1, len(first))
    busy = [node_id for node_id, number in first.items() if _is_uneven(number, mean)]
    if busy:
        yield Found(
            f"{names(sorted(busy)).capitalize()} {has(len(busy), 'is', 'are')} first replica of "
            f"{max(first.values()):,} partitions, the mean is {mean:,.0f}: spread them.",
            "raftka balance --dry-run",
        )


def _is_uneven(number: int, mean: float) -> bool:
    return number > UNEVEN * mean and number - mean >= MIN_LEADERS


@finds("reassignment-stuck", BAD)
def reassignment_stuck(facts: Facts) -> Iterator[Found]:
    if facts.stuck_moves:
        number = len(facts.stuck_moves)
        yield Found(
            f"{count(number, 'partition')} {has(number, 'is', 'are')} being moved, and the new "
            f"replicas do not grow ({places(facts.stuck_moves)}): look at the throttles and at "
            "the brokers that get them, or cancel.",
            f"raftka reassign cancel {min(facts.stuck_moves)[0]}",
        )


@finds("too-many-partitions")
def too_many_partitions(facts: Facts) -> Iterator[Found]:
    alive = max(1, len(facts.alive))
    for topic in facts.topics.values():
        if len(topic.partitions) > PARTITIONS_OF_BROKER * alive:
            yield Found(
                f"Topic {topic.name} has {len(topic.partitions):,} partitions on "
                f"{count(alive, 'broker')}: each costs files and time at every election; make a "
                "smaller topic, and write there.",
                f"raftka topics create {topic.name}-smaller -p {12 * alive}",
            )
    for broker in facts.alive:
        replicas = sum(len(each.sizes) for each in broker.directories)
        if replicas > REPLICAS_OF_BROKER:
            yield Found(
                f"Broker {broker.node_id} has {replicas:,} replicas, more than "
                f"{REPLICAS_OF_BROKER:,}: delete topics that are not used, or add brokers.",
                "raftka balance --dry-run",
            )


@finds("records-from-the-future")
def records_from_the_future(facts: Facts) -> Iterator[Found]:
    ahead = {
        where: time_ms - facts.now_ms
        for where, time_ms in facts.newest_ms.items()
        if time_ms - facts.now_ms > HOUR_MS
    }
    if ahead:
        where = max(ahead, key=lambda each: ahead[each])
        yield Found(
            f"{count(len(ahead), 'partition')} {has(len(ahead), 'has', 'have')} records with times "
            f"ahead of now ({places(ahead)}), by {ahead[where] / HOUR_MS:,.0f} h at most: a clock "
            "jumped, and retention by time spares them; refuse such times.",
            f"raftka topics alter {where[0]} -c message.timestamp.after.max.ms={HOUR_MS}",
        )
