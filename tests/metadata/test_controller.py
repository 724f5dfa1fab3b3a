"""The controller under random commands: what must hold of partitions whatever happens; and what its
decisions may cost.
"""

from random import Random
from time import perf_counter
from uuid import RFC_4122, UUID

import pytest

from raftka.metadata.commands import (
    AlterPartition,
    BrokerLost,
    Change,
    Command,
    CreateTopics,
    Heartbeat,
    HeartbeatAnswer,
    NewTopic,
)
from raftka.metadata.controller.topics import new_topic_id
from raftka.metadata.image import NO_LEADER
from raftka.metadata.security_commands import CreateAcls
from raftka.security.acls import ALLOW, LITERAL, TOPIC, WRITE, Acl
from raftka.wire.errors import Code
from tests.metadata.world import World, big_world, fenced_for_silence


@pytest.mark.parametrize("seed", range(100))
def test_every_new_leader_has_all_acknowledged_records(seed: int) -> None:
    world = World(seed)
    for _ in range(200):
        world.step()


def test_the_random_world_does_elect_and_lose() -> None:
    """Else the test above would show nothing."""
    seen = {
        "led": 0,
        "leaderless": 0,
        "several in isr": 0,
        "under way": 0,
        "offline": 0,
        "last is offline": 0,
        "eligible": 0,
        "eligible beside a leader": 0,
        "last known": 0,
    }
    for seed in range(10):
        world = World(seed)
        for _ in range(200):
            world.step()
            for topic in world.image.topics.values():
                for partition in topic.partitions:
                    seen["led"] += partition.leader_epoch > 2
                    seen["leaderless"] += partition.leader == NO_LEADER
                    seen["several in isr"] += len(partition.eligible) > 1
                    seen["eligible"] += len(partition.elr) > 1
                    seen["eligible beside a leader"] += bool(partition.elr and partition.isr)
                    seen["last known"] += bool(partition.last_known_elr and not partition.elr)
                    seen["offline"] += bool(partition.offline)
                    seen["last is offline"] += set(partition.eligible) <= set(partition.offline)
                    seen["under way"] += bool(partition.adding and partition.removing)

    assert min(seen.values()) > 100


def test_a_broker_that_comes_back_is_unfenced_with_all_that_was_decided_while_it_was_away() -> None:
    world, epoch = fenced_for_silence()
    acl = Acl(TOPIC, "t", LITERAL, "User:pat", "*", WRITE, ALLOW)
    world.decide(CreateAcls((acl,)))
    there = world.image.offset

    for applied in (epoch, there - 1):
        assert world.decide(Heartbeat(1, epoch, applied)) == HeartbeatAnswer(
            fenced=True, caught_up=False, should_shutdown=False
        )
    world.decide(CreateAcls((acl._replace(name="u"),)))

    assert not world.decide(Heartbeat(1, epoch, there)).fenced, (
        "what came after its first heartbeat does not keep it fenced"
    )
    assert world.image.brokers[1].alive


def test_a_broker_that_is_silent_again_must_have_what_came_meanwhile() -> None:
    world, epoch = fenced_for_silence()
    before = world.image.offset
    assert world.decide(Heartbeat(1, epoch, epoch)).fenced
    world.now += 100.0
    world.decide(CreateAcls((Acl(TOPIC, "t", LITERAL, "User:pat", "*", WRITE, ALLOW),)))

    assert world.decide(Heartbeat(1, epoch, before)).fenced
    assert not world.decide(Heartbeat(1, epoch, world.image.offset)).fenced


# what it may cost


def fastest(world: World, commands: list[Command]) -> float:
    """Seconds of the fastest one: others had to share the processor."""
    times = []
    for command in commands:
        began = perf_counter()
        outcome = world.controller.decide(command, world.context())
        if outcome.records:
            world.controller.replay(world.image.offset + 1, outcome.records)
        times.append(perf_counter() - began)
    return min(times)


def test_with_5000_topics_a_new_one_takes_a_millisecond_and_a_heartbeat_20_microseconds() -> None:
    world = big_world(5000)
    assert len(world.image.topics) == 5000

    assert (
        fastest(world, [CreateTopics((NewTopic(f"new{each}", 1, 3),)) for each in range(30)])
        < 0.001
    )
    epoch = world.image.brokers[1].epoch
    assert fastest(world, [Heartbeat(1, epoch, world.image.offset) for _ in range(100)]) < 0.00002


def test_leadership_goes_back_a_thousand_partitions_at_a_time() -> None:
    world = big_world(4000)
    world.decide(BrokerLost(1, world.image.brokers[1].epoch))
    world.settle()
    world.register(1)
    epochs = {each.broker_id: each.epoch for each in world.image.brokers.values()}
    world.decide(Heartbeat(1, epochs[1], world.image.offset))
    world.settle()
    led = [(topic.topic_id, topic.partitions[0]) for topic in world.image.topics.values()]
    for broker_id in (2, 3):
        isr = tuple((each, epochs[each]) for each in (1, 2, 3))
        mine = tuple(
            Change(topic_id, 0, each.leader_epoch, each.partition_epoch, isr)
            for topic_id, each in led
            if each.leader == broker_id
        )
        world.decide(AlterPartition(broker_id, epochs[broker_id], mine))

    world.now = 7.0
    for broker_id in (1, 2, 3):
        world.decide(Heartbeat(broker_id, epochs[broker_id], world.image.offset))
    first = world.controller.tick(world.context())
    world.carry_out(first)
    world.now = 8.0
    second = world.controller.tick(world.context())

    preferred = sum(topic.partitions[0].replicas[0] == 1 for topic in world.image.topics.values())
    assert (len(first.records), len(second.records)) == (1000, preferred - 1000)


def test_a_topic_id_is_a_random_uuid_of_version_4() -> None:
    ids = [UUID(bytes=new_topic_id(Random(seed))) for seed in range(50)]

    assert {(each.version, each.variant) for each in ids} == {(4, RFC_4122)}
    assert len(set(ids)) == 50


def test_the_limits_of_the_cluster_refuse_with_their_own_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from raftka import limits
    from raftka.metadata.controller import brokers, topics

    monkeypatch.setattr(topics, "TOPICS", limits.Limit("topics", 1, "here"))
    monkeypatch.setattr(topics, "PARTITIONS", limits.Limit("partitions", 3, "here"))
    monkeypatch.setattr(brokers, "BROKERS", limits.Limit("brokers", 2, "here"))
    world = World(1)
    for broker_id in (1, 2, 3):
        world.register(broker_id)
        epoch = world.image.brokers[broker_id].epoch if broker_id in world.image.brokers else 0
        world.decide(Heartbeat(broker_id, epoch, world.image.offset))

    assert list(world.image.brokers) == [1, 2]
    reply = world.decide(
        CreateTopics((NewTopic("a", 4, 1), NewTopic("b", 3, 1), NewTopic("c", 0 + 1, 1)))
    )
    assert [Code(each.error) for each in reply] == [
        Code.POLICY_VIOLATION,
        Code.NONE,
        Code.POLICY_VIOLATION,
    ]
    assert [
        "partitions: 4 asked, 3 allowed" in reply[0].message,
        "topics: 2 asked, 1 allowed" in reply[2].message,
    ] == [True, True]
