"""The controller under random commands: what must hold of partitions whatever happens; and what its decisions may cost."""

from random import Random
from time import perf_counter
from typing import Any
from uuid import RFC_4122, UUID

import pytest

from raftka.metadata.commands import (
    TELL_HELD,
    AlterPartition,
    AlterReassignments,
    BrokerLost,
    Change,
    Command,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DoomedTopic,
    ElectLeaders,
    Heartbeat,
    HeldReplicas,
    MorePartitions,
    Move,
    MovedTopic,
    NewTopic,
    RegisterBroker,
    Registered,
    ReplicasOffline,
    TopicPartitions,
    TopicReplicas,
    UnregisterBroker,
)
from raftka.metadata.controller import Context, Controller, Outcome
from raftka.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from raftka.metadata.records import BrokerRegistered
from raftka.metadata.settings import NodeSettings
from raftka.metadata.topics import new_topic_id
from raftka.wire.errors import Code, KafkaError

SETTINGS = NodeSettings.from_properties(
    {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://host:9092,CONTROLLER://host:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@host:9093",
        "leader.imbalance.check.interval.seconds": "7",
    }
)
BROKERS = range(1, 5)


class World:
    """A controller and what its brokers do. Brokers are numbers, each has two disks; a disk is a number that changes when it is lost."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.disks = {broker_id: [0, 0] for broker_id in BROKERS}
        self.unreadable: dict[int, set[int]] = {broker_id: set() for broker_id in BROKERS}  # which of its disks it cannot use
        self.copies: dict[tuple[int, bytes, int], set[tuple[int, int]]] = {}  # by broker and partition: disks with a log of it, old ones too
        self.places: dict[tuple[int, bytes, int], tuple[int, int]] = {}  # the disk that it uses, or used last
        self.complete: dict[
            tuple[bytes, int], set[tuple[int, tuple[int, int] | None]]
        ] = {}  # (broker, disk) that have all that was acknowledged, by partition
        self.vouched: dict[
            tuple[bytes, int], set[tuple[int, tuple[int, int] | None]]
        ] = {}  # whom a leader takes in right now: that may complete a reassignment
        self.controller = Controller(MetadataImage(), SETTINGS, self.now)
        self.carry_out(self.controller.tick(self.context()))

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def context(self) -> Context:
        return Context(self.now, 0, self.random, self.image.offset + 1)

    def carry_out(self, outcome: Outcome) -> None:
        before = self.image
        if outcome.records:
            self.controller.replay(before.offset + 1, outcome.records)
        if not any(isinstance(record, BrokerRegistered) for record in outcome.records):
            self.place()
        self.check(before, self.image)

    def decide(self, command: Command) -> Any:
        try:
            outcome = self.controller.decide(command, self.context())
        except KafkaError as error:
            return error.code
        self.carry_out(outcome)
        return outcome.reply

    def step(self) -> None:
        random, broker_id = self.random, self.random.choice(BROKERS)
        broker = self.image.brokers.get(broker_id)
        epoch = broker.epoch if broker else -1
        match random.randrange(19):
            case 0 | 1 | 2 | 3:
                self.decide(Heartbeat(broker_id, epoch, self.image.offset, random.random() < 0.05, random.random() < 0.05))
            case 4:
                self.decide(BrokerLost(broker_id, epoch))
            case 5:
                self.now += random.choice([0.1, 0.5, 1.0, 2.0, 5.0])
                self.carry_out(self.controller.tick(self.context()))
            case 6:
                heard = {broker_id: self.now - 1.0} if random.random() < 0.5 else None
                self.controller = Controller(MetadataImage.from_snapshot(self.image.to_snapshot()), SETTINGS, self.now, heard)
            case 7:
                configs = (("unclean.leader.election.enable", "true"),) if random.random() < 0.2 else ()
                name = random.choice("abcd")
                self.decide(CreateTopics((NewTopic(name, random.randint(1, 4), random.randint(1, 3), configs=configs),)))
            case 8 if random.random() < 0.3:
                self.decide(DeleteTopics((DoomedTopic(random.choice("abcd")),)))
            case 9 if random.random() < 0.1:
                self.decide(UnregisterBroker(broker_id))
            case 10 | 11:
                self.register(broker_id)
            case 12 | 13 if self.image.topics:
                self.alter()
            case 14 | 15 if self.image.topics:
                self.reassign()
            case 16:
                topics = None if random.random() < 0.3 else (TopicPartitions(random.choice("abcd"), (0, random.randrange(4))),)
                self.decide(ElectLeaders(0, topics))
            case 17 if random.random() < 0.5:
                self.fail_directory(broker_id)
            case 18:
                self.decide(CreatePartitions((MorePartitions(random.choice("abcd"), random.randint(1, 6)),)))

    def register(self, broker_id: int) -> None:
        """After a while, in which its disks may have been lost, mended, or swapped for those of before."""
        disks, unreadable = self.disks[broker_id].copy(), self.unreadable[broker_id].copy()
        for slot in range(2):
            if self.random.random() < 0.1:
                disks[slot] = max(0, disks[slot] + self.random.choice((1, 1, -1)))
            if self.random.random() < 0.3:
                unreadable ^= {slot}
        here = [(slot, disks[slot]) for slot in range(2) if slot not in unreadable]
        if not here or any(len(copies.intersection(here)) > 1 for (each, *_), copies in self.copies.items() if each == broker_id):
            return  # with two logs of a partition no broker starts
        first, *more = [bytes([broker_id, *disk]) + bytes(13) for disk in here]
        who = (broker_id, self.random.randbytes(16), first, self.image.cluster_id, (("P", "h", broker_id, "PLAINTEXT"),))
        answer = self.decide(RegisterBroker(*who, None, tuple(more), len(unreadable)))
        if answer == Registered(TELL_HELD):
            held = tuple([HeldReplicas(bytes([broker_id, *disk]) + bytes(13), self.lying_in(broker_id, disk)) for disk in here])
            answer = self.decide(RegisterBroker(*who, None, tuple(more), len(unreadable), held))
            assert answer != Registered(TELL_HELD)
        if isinstance(answer, Registered):
            self.disks[broker_id], self.unreadable[broker_id] = disks, unreadable
            self.place()

    def place(self) -> None:
        """Brokers make a log for each replica of which they find none, in a directory that they can use, unless it is offline."""
        for topic_id, topic in self.image.topics.items():
            for index, partition in enumerate(topic.partitions):
                for broker_id in BROKERS:
                    key = (broker_id, topic_id, index)
                    here = {(slot, self.disks[broker_id][slot]) for slot in range(2) if slot not in self.unreadable[broker_id]}
                    copies = self.copies.setdefault(key, set())
                    if broker_id not in partition.replicas:
                        copies -= here
                    elif broker_id not in partition.offline and self.places.get(key) not in here and here:
                        self.places[key] = next(iter(copies & here), self.random.choice(sorted(here)))
                        copies.add(self.places[key])

    def lying_in(self, broker_id: int, disk: tuple[int, int]) -> tuple[TopicReplicas, ...]:
        return tuple([TopicReplicas(key[1], (key[2],)) for key, copies in self.copies.items() if key[0] == broker_id and disk in copies])

    def fail_directory(self, broker_id: int) -> None:
        broker, slot = self.image.brokers.get(broker_id), self.random.randrange(2)
        disk = (slot, self.disks[broker_id][slot])
        directory = bytes([broker_id, *disk]) + bytes(13)
        if broker is not None and len(broker.directories) == 2 and directory in broker.directories:
            self.unreadable[broker_id].add(slot)
            self.decide(ReplicasOffline(broker_id, broker.epoch, directory, self.lying_in(broker_id, disk)))

    def disk_of(self, broker_id: int, key: tuple[bytes, int]) -> tuple[int, tuple[int, int] | None]:
        """The broker, and its disk with this replica."""
        return broker_id, self.places.get((broker_id, *key))

    def alter(self) -> None:
        """The leader asks for some other ISR, mostly one that is legal."""
        topic = self.random.choice(list(self.image.topics.values()))
        index = self.random.randrange(len(topic.partitions))
        partition = topic.partitions[index]
        others = [each for each in partition.replicas if each != partition.leader and self.random.random() < 0.6]
        isr = tuple((each, self.image.brokers[each].epoch if each in self.image.brokers else 7) for each in (partition.leader, *others))
        leader = self.image.brokers.get(partition.leader)
        change = Change(topic.topic_id, index, partition.leader_epoch, partition.partition_epoch - self.random.randrange(2), isr)
        if leader is not None:
            key = (topic.topic_id, index)
            self.vouched = {key: {self.disk_of(each, key) for each, _ in isr if each in self.image.brokers}}
            self.decide(AlterPartition(leader.broker_id, leader.epoch, (change,)))
            self.vouched = {}

    def reassign(self) -> None:
        """To other brokers, registered or not; or called off."""
        topic = self.random.choice(list(self.image.topics.values()))
        index = self.random.randrange(len(topic.partitions))
        target = tuple(self.random.sample(BROKERS, self.random.randint(1, 3))) if self.random.random() < 0.8 else None
        self.decide(AlterReassignments((MovedTopic(topic.name, (Move(index, target),)),)))

    # what must hold

    def check(self, before: MetadataImage, after: MetadataImage) -> None:
        for topic_id, topic in after.topics.items():
            unclean = after.config(2, topic.name).get("unclean.leader.election.enable") == "true"
            for index, partition in enumerate(topic.partitions):
                was = before.partition(topic_id, index)
                self.check_state(after, partition)
                if was is not None:
                    self.check_change(was, partition)
                self.check_complete(after, (topic_id, index), was, partition, unclean)

    def check_state(self, image: MetadataImage, partition: PartitionImage) -> None:
        assert set(partition.isr) <= set(partition.replicas)
        assert len(set(partition.replicas)) == len(partition.replicas) > len(partition.removing)
        assert set(partition.adding) | set(partition.removing) <= set(partition.replicas)
        assert not set(partition.adding) & set(partition.removing)
        if partition.leader == NO_LEADER:
            reachable = [each for each in partition.isr if each not in partition.offline and image.alive(each)]
            assert not [each for each in reachable if self.controller.sessions.spoke(each, self.now)], "somebody could lead"
        else:
            assert partition.leader in partition.isr
            assert all(map(image.alive, partition.isr))
            assert not set(partition.isr) & set(partition.offline)
        assert set(partition.offline) <= set(partition.replicas)

    def check_change(self, was: PartitionImage, now: PartitionImage) -> None:
        gone = set(was.replicas) - set(now.replicas)  # such a one may come back with an empty log and the leader must not take it for what it was
        moved, changed = now.leader != was.leader or bool(gone), now != was
        assert now.leader_epoch == was.leader_epoch + moved
        assert now.partition_epoch == was.partition_epoch + changed

    def check_complete(self, image: MetadataImage, key: tuple[bytes, int], was: PartitionImage | None, now: PartitionImage, unclean: bool) -> None:
        """Whoever leads has all that was acknowledged: it was in the ISR all the time, with this disk, or the leader took it in."""
        members = {self.disk_of(each, key) for each in now.isr if each in image.brokers}
        if was is None or now.leader == was.leader != NO_LEADER:
            self.complete[key] = members  # created, or changed under one leader, who takes in only who has caught up
        elif now.leader != NO_LEADER:
            self.complete[key] |= self.vouched.get(key, set())
            if self.disk_of(now.leader, key) not in self.complete[key]:
                assert unclean
                self.complete[key] = members
            self.complete[key] &= members


@pytest.mark.parametrize("seed", range(100))
def test_whatever_happens_whoever_leads_has_all_that_was_acknowledged(seed: int) -> None:
    world = World(seed)
    for _ in range(200):
        world.step()


def test_the_random_world_does_elect_and_lose() -> None:
    """Else the test above would show nothing."""
    seen = {"led": 0, "leaderless": 0, "several in isr": 0, "under way": 0, "offline": 0, "last is offline": 0}
    for seed in range(10):
        world = World(seed)
        for _ in range(200):
            world.step()
            for topic in world.image.topics.values():
                for partition in topic.partitions:
                    seen["led"] += partition.leader_epoch > 2
                    seen["leaderless"] += partition.leader == NO_LEADER
                    seen["several in isr"] += len(partition.isr) > 1
                    seen["offline"] += bool(partition.offline)
                    seen["last is offline"] += set(partition.isr) <= set(partition.offline)
                    seen["under way"] += bool(partition.adding and partition.removing)

    assert min(seen.values()) > 500


# what it may cost


def big_world(topics: int) -> World:
    world = World(1)
    world.random = Random(1)
    for broker_id in (1, 2, 3):
        world.register(broker_id)
        world.decide(Heartbeat(broker_id, world.image.brokers[broker_id].epoch, world.image.offset))
    for first in range(0, topics, 1000):
        world.decide(CreateTopics(tuple(NewTopic(f"topic.{first + each}", 1, 3) for each in range(1000))))
    return world


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

    assert fastest(world, [CreateTopics((NewTopic(f"new{each}", 1, 3),)) for each in range(30)]) < 0.001
    epoch = world.image.brokers[1].epoch
    assert fastest(world, [Heartbeat(1, epoch, world.image.offset) for _ in range(100)]) < 0.00002


def test_leadership_goes_back_a_thousand_partitions_at_a_time() -> None:
    world = big_world(4000)
    world.decide(BrokerLost(1, world.image.brokers[1].epoch))
    world.register(1)
    epochs = {each.broker_id: each.epoch for each in world.image.brokers.values()}
    world.decide(Heartbeat(1, epochs[1], world.image.offset))
    led = [(topic.topic_id, topic.partitions[0]) for topic in world.image.topics.values()]
    for broker_id in (2, 3):
        isr = tuple((each, epochs[each]) for each in (1, 2, 3))
        mine = tuple(Change(topic_id, 0, each.leader_epoch, each.partition_epoch, isr) for topic_id, each in led if each.leader == broker_id)
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


def test_the_limits_of_the_cluster_refuse_with_their_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    from raftka import limits
    from raftka.metadata import brokers, topics

    monkeypatch.setattr(topics, "TOPICS", limits.Limit("topics", 1, "here"))
    monkeypatch.setattr(topics, "PARTITIONS", limits.Limit("partitions", 3, "here"))
    monkeypatch.setattr(brokers, "BROKERS", limits.Limit("brokers", 2, "here"))
    world = World(1)
    for broker_id in (1, 2, 3):
        world.register(broker_id)
        epoch = world.image.brokers[broker_id].epoch if broker_id in world.image.brokers else 0
        world.decide(Heartbeat(broker_id, epoch, world.image.offset))

    assert list(world.image.brokers) == [1, 2]
    reply = world.decide(CreateTopics((NewTopic("a", 4, 1), NewTopic("b", 3, 1), NewTopic("c", 0 + 1, 1))))
    assert [Code(each.error) for each in reply] == [Code.POLICY_VIOLATION, Code.NONE, Code.POLICY_VIOLATION]
    assert ["partitions: 4 asked, 3 allowed" in reply[0].message, "topics: 2 asked, 1 allowed" in reply[2].message] == [True, True]
