"""A controller under random commands of its brokers, and what must hold of every partition after
each entry.
"""

from contextlib import suppress
from random import Random
from typing import Any

from raftka.limits import RAFT_ENTRY_BYTES
from raftka.metadata.commands import (
    SET,
    TELL_HELD,
    AlterConfigs,
    AlterPartition,
    AlterReassignments,
    BrokerLost,
    Change,
    Command,
    ConfigChange,
    ConfigResource,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DoomedTopic,
    ElectLeaders,
    FeatureUpdate,
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
    UpdateFeatures,
)
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.controller.controller import Controller
from raftka.metadata.controller.decision import Context, Outcome
from raftka.metadata.controller.partitions import MIN_ISR, elr_enabled, min_isr_of
from raftka.metadata.image import BROKER, NO_LEADER, TOPIC, MetadataImage, PartitionImage
from raftka.metadata.records import BrokerRegistered, encode_batch
from raftka.versions import ELR_VERSION, own_features
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
    """A controller and what its brokers do. Brokers are numbers, each has two disks; a disk is a
    number that changes when it is lost.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.disks = {broker_id: [0, 0] for broker_id in BROKERS}
        # which of its disks it cannot use
        self.unreadable: dict[int, set[int]] = {broker_id: set() for broker_id in BROKERS}
        # by broker and partition: disks with a log of it, old ones too
        self.copies: dict[tuple[int, bytes, int], set[tuple[int, int]]] = {}
        # the disk that it uses, or used last
        self.places: dict[tuple[int, bytes, int], tuple[int, int]] = {}
        self.complete: dict[
            tuple[bytes, int], set[tuple[int, tuple[int, int] | None]]
        ] = {}  # (broker, disk) that have all that was acknowledged, by partition
        self.vouched: dict[
            tuple[bytes, int], set[tuple[int, tuple[int, int] | None]]
        ] = {}  # whom a leader takes in right now: that may complete a reassignment
        self.registering: int | None = None  # the controller may not know yet how it ended
        self.under_way = False  # a command of which only some portions were carried out
        self.controller = Controller(MetadataImage(), SETTINGS, self.now)
        self.carry_out(self.controller.tick(self.context()))

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def context(self) -> Context:
        return Context(self.now, 0, self.random, self.image.offset + 1)

    def carry_out(self, outcome: Outcome, *, under_way: bool = False) -> None:
        before = self.image
        self.under_way = under_way or outcome.rest is not None
        if outcome.records:
            assert len(encode_batch(outcome.records, before.offset + 1)) <= RAFT_ENTRY_BYTES.value
            self.controller.replay(before.offset + 1, outcome.records)
        if not any(isinstance(record, BrokerRegistered) for record in outcome.records):
            self.place()
        self.check(before, self.image)

    def decide(self, command: Command) -> Any:
        try:
            outcome = self.controller.decide(command, self.context())
            self.carry_out(outcome)
            while outcome.rest is not None:
                controller = self.controller
                self.between_portions()
                if self.controller is not controller:
                    return Code.NETWORK_EXCEPTION
                outcome = outcome.rest(self.context())
                self.carry_out(outcome)
        except KafkaError as error:
            return error.code
        return outcome.reply

    def between_portions(self) -> None:
        """The controller may be deposed, and others are heard."""

    def settle(self) -> None:
        """As the controller's driver does it at once, if nothing else comes."""
        while not self.controller.settled:
            self.carry_out(self.controller.tick(self.context()))

    def decide_plainly(self, command: Command) -> None:
        """A command of one portion, while another one is under way."""
        under_way = self.under_way
        with suppress(KafkaError):
            outcome = self.controller.decide(command, self.context())
            assert outcome.rest is None
            self.carry_out(outcome, under_way=under_way)

    def replace_controller(self, heard: dict[int, float] | None = None) -> None:
        self.controller = Controller(
            MetadataImage.from_snapshot(self.image.to_snapshot()), SETTINGS, self.now, heard
        )

    def epoch(self, broker_id: int) -> int:
        return self.image.brokers[broker_id].epoch if broker_id in self.image.brokers else -1

    def step(self) -> None:
        random, broker_id = self.random, self.random.choice(BROKERS)
        broker = self.image.brokers.get(broker_id)
        epoch = broker.epoch if broker else -1
        match random.randrange(21):
            case 0 | 1 | 2 | 3:
                self.decide(
                    Heartbeat(
                        broker_id,
                        epoch,
                        self.image.offset,
                        random.random() < 0.05,
                        random.random() < 0.05,
                    )
                )
            case 4:
                self.decide(BrokerLost(broker_id, epoch))
            case 5:
                self.now += random.choice([0.1, 0.5, 1.0, 2.0, 5.0])
                self.carry_out(self.controller.tick(self.context()))
            case 6:
                self.replace_controller(
                    {broker_id: self.now - 1.0} if random.random() < 0.5 else None
                )
            case 7:
                configs = (
                    (("unclean.leader.election.enable", "true"),) if random.random() < 0.2 else ()
                )
                name = random.choice("abcd")
                self.decide(
                    CreateTopics(
                        (
                            NewTopic(
                                name, random.randint(1, 4), random.randint(1, 3), configs=configs
                            ),
                        )
                    )
                )
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
                topics = (
                    None
                    if random.random() < 0.3
                    else (TopicPartitions(random.choice("abcd"), (0, random.randrange(4))),)
                )
                self.decide(ElectLeaders(0, topics))
            case 17 if random.random() < 0.5:
                self.fail_directory(broker_id)
            case 18:
                self.decide(
                    CreatePartitions((MorePartitions(random.choice("abcd"), random.randint(1, 6)),))
                )
            case 19:
                change = ConfigChange(MIN_ISR, SET, str(random.choice((1, 2, 2, 3))))
                kind, name = random.choice(((BROKER, ""), (TOPIC, random.choice("abcd"))))
                self.decide(AlterConfigs((ConfigResource(kind, name, (change,)),)))
            case 20 if random.random() < 0.15:
                level = int(not elr_enabled(self.image))
                update = FeatureUpdate(ELR_VERSION, level, 1 if level else 2)
                self.decide(UpdateFeatures((update,)))

    def register(self, broker_id: int) -> None:
        """After a while, in which its disks may have been lost, mended, or swapped for those of
        before.
        """
        disks, unreadable = self.disks[broker_id].copy(), self.unreadable[broker_id].copy()
        for slot in range(2):
            if self.random.random() < 0.1:
                disks[slot] = max(0, disks[slot] + self.random.choice((1, 1, -1)))
            if self.random.random() < 0.3:
                unreadable ^= {slot}
        here = [(slot, disks[slot]) for slot in range(2) if slot not in unreadable]
        if not here or any(
            len(copies.intersection(here)) > 1
            for (each, *_), copies in self.copies.items()
            if each == broker_id
        ):
            return  # with two logs of a partition no broker starts
        first, *more = [bytes([broker_id, *disk]) + bytes(13) for disk in here]
        who = (
            broker_id,
            self.random.randbytes(16),
            first,
            self.image.cluster_id,
            (("P", "h", broker_id, "PLAINTEXT"),),
        )
        known = self.image.brokers.get(broker_id)
        clean = known is not None and self.random.random() < 0.4
        process = (
            own_features(),
            known.epoch if known is not None and clean else -1,
            self.random.random() < 0.6,
        )
        complete = {key: members.copy() for key, members in self.complete.items()}
        if known is not None and not clean and not known.flushes and elr_enabled(self.image):
            self.forget(broker_id)  # without the feature nothing is promised for that
        self.registering = broker_id
        answer = self.decide(
            RegisterBroker(*who, None, tuple(more), len(unreadable), None, *process)
        )
        if answer == Registered(TELL_HELD):
            held = tuple(
                [
                    HeldReplicas(
                        bytes([broker_id, *disk]) + bytes(13), self.lying_in(broker_id, disk)
                    )
                    for disk in here
                ]
            )
            answer = self.decide(
                RegisterBroker(*who, None, tuple(more), len(unreadable), held, *process)
            )
            assert answer != Registered(TELL_HELD)
        self.registering = None
        if isinstance(answer, Registered):
            self.check(self.image, self.image)
            self.disks[broker_id], self.unreadable[broker_id] = disks, unreadable
            self.place()
        else:  # another process has this broker's id, and goes on
            self.complete = complete

    def forget(self, broker_id: int) -> None:
        """Its process has ended without a flush of what it had acknowledged."""
        for members in self.complete.values():
            members -= {each for each in members if each[0] == broker_id}

    def place(self) -> None:
        """Brokers make a log for each replica of which they find none, in a directory that they can
        use, unless it is offline.
        """
        for topic_id, topic in self.image.topics.items():
            for index, partition in enumerate(topic.partitions):
                for broker_id in BROKERS:
                    key = (broker_id, topic_id, index)
                    here = {
                        (slot, self.disks[broker_id][slot])
                        for slot in range(2)
                        if slot not in self.unreadable[broker_id]
                    }
                    copies = self.copies.setdefault(key, set())
                    if broker_id not in partition.replicas:
                        copies -= here
                    elif (
                        broker_id not in partition.offline
                        and self.places.get(key) not in here
                        and here
                    ):
                        self.places[key] = next(
                            iter(copies & here), self.random.choice(sorted(here))
                        )
                        copies.add(self.places[key])

    def lying_in(self, broker_id: int, disk: tuple[int, int]) -> tuple[TopicReplicas, ...]:
        return tuple(
            [
                TopicReplicas(key[1], (key[2],))
                for key, copies in self.copies.items()
                if key[0] == broker_id and disk in copies
            ]
        )

    def fail_directory(self, broker_id: int) -> None:
        broker, slot = self.image.brokers.get(broker_id), self.random.randrange(2)
        disk = (slot, self.disks[broker_id][slot])
        directory = bytes([broker_id, *disk]) + bytes(13)
        if broker is not None and len(broker.directories) == 2 and directory in broker.directories:
            self.unreadable[broker_id].add(slot)
            self.decide(
                ReplicasOffline(broker_id, broker.epoch, directory, self.lying_in(broker_id, disk))
            )

    def disk_of(self, broker_id: int, key: tuple[bytes, int]) -> tuple[int, tuple[int, int] | None]:
        """The broker, and its disk with this replica."""
        return broker_id, self.places.get((broker_id, *key))

    def alter(self) -> None:
        """The leader asks for some other ISR, mostly one that is legal."""
        topic = self.random.choice(list(self.image.topics.values()))
        index = self.random.randrange(len(topic.partitions))
        partition = topic.partitions[index]
        others = [
            each
            for each in partition.replicas
            if each != partition.leader and self.random.random() < 0.6
        ]
        isr = tuple(
            (each, self.image.brokers[each].epoch if each in self.image.brokers else 7)
            for each in (partition.leader, *others)
        )
        leader = self.image.brokers.get(partition.leader)
        change = Change(
            topic.topic_id,
            index,
            partition.leader_epoch,
            partition.partition_epoch - self.random.randrange(2),
            isr,
        )
        if leader is not None:
            key = (topic.topic_id, index)
            self.vouched = {
                key: {self.disk_of(each, key) for each, _ in isr if each in self.image.brokers}
            }
            self.decide(AlterPartition(leader.broker_id, leader.epoch, (change,)))
            self.vouched = {}

    def reassign(self) -> None:
        """To other brokers, registered or not; or called off."""
        topic = self.random.choice(list(self.image.topics.values()))
        index = self.random.randrange(len(topic.partitions))
        target = (
            tuple(self.random.sample(BROKERS, self.random.randint(1, 3)))
            if self.random.random() < 0.8
            else None
        )
        self.decide(AlterReassignments((MovedTopic(topic.name, (Move(index, target),)),)))

    # what must hold

    def check(self, before: MetadataImage, after: MetadataImage) -> None:
        for topic_id, topic in after.topics.items():
            unclean = after.config(2, topic.name).get("unclean.leader.election.enable") == "true"
            for index, partition in enumerate(topic.partitions):
                was = before.partition(topic_id, index)
                self.check_state(after, partition)
                self.check_eligible(after, topic.name, partition)
                if was is not None:
                    self.check_change(was, partition)
                self.check_complete(after, (topic_id, index), was, partition, unclean)

    def check_state(self, image: MetadataImage, partition: PartitionImage) -> None:
        assert set(partition.isr) <= set(partition.replicas)
        assert len(set(partition.replicas)) == len(partition.replicas) > len(partition.removing)
        assert set(partition.adding) | set(partition.removing) <= set(partition.replicas)
        assert not set(partition.adding) & set(partition.removing)
        if self.under_way or not self.controller.settled:
            return
        if partition.leader == NO_LEADER:
            reachable = [
                each
                for each in partition.eligible
                if each not in partition.offline and image.alive(each)
            ]
            assert not [
                each for each in reachable if self.controller.sessions.spoke(each, self.now)
            ], "somebody could lead"
        else:
            assert partition.leader in partition.isr
            assert not partition.last_known_elr
            assert all(map(image.alive, partition.isr))
            assert not set(partition.isr) & set(partition.offline)
        assert set(partition.offline) <= set(partition.replicas)

    def check_eligible(self, image: MetadataImage, topic: str, partition: PartitionImage) -> None:
        assert not set(partition.elr) & set(partition.isr)
        assert set(partition.elr + partition.last_known_elr) <= set(partition.replicas)
        if self.under_way or not self.controller.settled:
            return
        least = min_isr_of(image)(topic)
        if not least:
            assert not partition.elr + partition.last_known_elr
        elif partition.elr:
            assert len(partition.isr) < min(least, len(partition.replicas))

    def check_change(self, was: PartitionImage, now: PartitionImage) -> None:
        # such a one may come back with an empty log and the leader must not take it for what it was
        gone = set(was.replicas) - set(now.replicas)
        moved, changed = now.leader != was.leader or bool(gone), now != was
        assert now.leader_epoch == was.leader_epoch + moved
        # a mark, and what follows from it
        assert (
            was.partition_epoch + changed
            <= now.partition_epoch
            <= was.partition_epoch + 2 * changed
        )

    def check_complete(
        self,
        image: MetadataImage,
        key: tuple[bytes, int],
        was: PartitionImage | None,
        now: PartitionImage,
        unclean: bool,
    ) -> None:
        """Whoever leads has all that was acknowledged: it was in the ISR all the time, with this
        disk, or the leader took it in; or it left the ISR, and since then nothing was acknowledged.
        """
        members = {self.disk_of(each, key) for each in now.isr if each in image.brokers}
        eligible = {self.disk_of(each, key) for each in now.elr if each in image.brokers}
        if was is not None and now.elr and now.leader == was.leader != NO_LEADER:
            # the leader commits nothing
            self.complete[key] = (self.complete[key] | members) & (members | eligible)
        elif was is None or now.leader == was.leader != NO_LEADER:
            # created, or changed under one leader, who takes in only who has caught up
            self.complete[key] = members
        elif now.leader != NO_LEADER:
            self.complete[key] |= self.vouched.get(key, set())
            if self.disk_of(now.leader, key) not in self.complete[key]:
                # of replicas that have all of it none is left: then the last leader leads
                last = was.isr or was.last_known_elr if was is not None and not was.elr else ()
                assert unclean or (not self.complete[key] and last == (now.leader,))
                self.complete[key] = members
            self.complete[key] &= members | eligible
        if not (self.under_way or unclean) and self.complete[key]:
            eligible = {each for each in eligible if each[0] != self.registering}
            assert eligible <= self.complete[key], "an eligible replica lacks records"


def big_world(topics: int) -> World:
    world = World(1)
    world.random = Random(1)
    for broker_id in (1, 2, 3):
        world.register(broker_id)
        world.decide(Heartbeat(broker_id, world.image.brokers[broker_id].epoch, world.image.offset))
    for first in range(0, topics, 1000):
        world.decide(
            CreateTopics(tuple(NewTopic(f"topic.{first + each}", 1, 3) for each in range(1000)))
        )
    return world


def fenced_for_silence() -> tuple[World, int]:
    """A broker that was unfenced, and then not heard for longer than its session; its epoch."""
    world = World(1)
    world.register(1)
    epoch = world.image.brokers[1].epoch
    world.decide(Heartbeat(1, epoch, epoch))
    assert world.image.brokers[1].alive
    while world.image.brokers[1].alive:
        world.now += 0.1
        world.carry_out(world.controller.tick(world.context()))
    return world, epoch
