"""Changes of one command in many partitions go into the metadata log in portions: their size, and
that each is correct on its own.
"""

from collections.abc import Iterator
from random import Random

import pytest

from raftka.broker.replica.alter_partition_manager import CHANGES_OF_REQUEST
from raftka.limits import BROKERS as BROKER_LIMIT
from raftka.limits import PARTITIONS, RAFT_ENTRY_BYTES, TOPICS
from raftka.metadata.commands import (
    SET,
    AlterConfigs,
    BrokerLost,
    Command,
    ConfigChange,
    ConfigResource,
    DeleteTopics,
    DoomedTopic,
    Heartbeat,
    HeldReplicas,
    RegisterBroker,
    ReplicasLost,
    ReplicasOffline,
    TopicReplicas,
    UnregisterBroker,
)
from raftka.metadata.controller import walks
from raftka.metadata.controller.configs import UNCLEAN
from raftka.metadata.controller.controller import REBALANCED_AT_ONCE, Controller
from raftka.metadata.controller.decision import Context, Outcome
from raftka.metadata.controller.partitions import changed
from raftka.metadata.controller.walks import Walk, size_bound
from raftka.metadata.image import (
    BROKER,
    NO_LEADER,
    BrokerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from raftka.metadata.records import (
    BrokerDirectoryFailed,
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnfenced,
    BrokerUnregistered,
    Record,
    ReplicasMarked,
    encode_batch,
)
from raftka.wire.errors import KafkaError
from tests.metadata.world import BROKERS, SETTINGS, World

# directories of broker 1
FIRST, SECOND, THIRD = b"1a".ljust(16, b"\0"), b"1b".ljust(16, b"\0"), b"1c".ljust(16, b"\0")
TOPICS_HERE = 20
EVERYTHING = 1000  # partitions of each


def crowded(
    partition: PartitionImage, partitions: int = EVERYTHING, **broker_1: object
) -> MetadataImage:
    """Three brokers, and twenty topics of partitions that are all alike."""
    endpoint = (Endpoint("PLAINTEXT", "host", 1, "PLAINTEXT"),)
    brokers = {
        each: BrokerImage(each, each, bytes(16), bytes([each] * 16), endpoint, None, False, False)
        for each in (1, 2, 3)
    }
    brokers[1] = (
        brokers[1]._replace(directory_id=FIRST, more_directories=(SECOND,))._replace(**broker_1)  # type: ignore[arg-type]
    )
    ids = [bytes([each] * 16) for each in range(TOPICS_HERE)]
    topics = {each: TopicImage(f"t{each[0]}", each, (partition,) * partitions) for each in ids}
    names = {topic.name: topic.topic_id for topic in topics.values()}
    return MetadataImage(10, "cluster", {}, brokers, topics, names, TOPICS_HERE * partitions)


class Run:
    """A controller that is given one command: the entries that it comes to, and what was
    replied.
    """

    def __init__(self, image: MetadataImage, *alive: int) -> None:
        self.controller = Controller(image, SETTINGS, 0.0)
        self.settle()
        for broker_id in alive:
            self.entries(Heartbeat(broker_id, image.brokers[broker_id].epoch, 10))
        self.replied = False

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def context(self) -> Context:
        return Context(0.0, 0, Random(1), self.image.offset + 1)

    def settle(self) -> list[list[Record]]:
        entries = []
        while not self.controller.settled:
            entries += self.append(self.controller.tick(self.context()))
        return entries

    def entries(self, command: Command) -> list[list[Record]]:
        outcome = self.controller.decide(command, self.context())
        entries = self.append(outcome)
        while outcome.rest is not None:
            outcome = outcome.rest(self.context())
            entries += self.append(outcome)
        self.reply = outcome.reply
        return entries + self.settle()

    def append(self, outcome: Outcome) -> list[list[Record]]:
        if not outcome.records:
            return []
        assert len(encode_batch(outcome.records, self.image.offset + 1)) <= RAFT_ENTRY_BYTES.value
        self.controller.replay(self.image.offset + 1, outcome.records)
        return [list(outcome.records)]

    def partitions(self) -> Iterator[PartitionImage]:
        for topic in self.image.topics.values():
            yield from topic.partitions


EVERY_REPLICA = tuple(
    [TopicReplicas(bytes([each] * 16), tuple(range(EVERYTHING))) for each in range(TOPICS_HERE)]
)
LED = PartitionImage((1, 2, 3), (1, 2, 3), 1, 1 << 20, 1 << 20)
ALONE = PartitionImage((1,), (1,), NO_LEADER, 1, 1)
UNCLEANLY = PartitionImage((1, 2), (1,), NO_LEADER, 1, 1)
NEW_DISK = RegisterBroker(
    1, b"i" * 16, FIRST, "cluster", (("PLAINTEXT", "host", 1, "PLAINTEXT"),), None, (), 0, ()
)
SAME_DISKS = RegisterBroker(
    1, b"i" * 16, FIRST, "cluster", (("PLAINTEXT", "host", 1, "PLAINTEXT"),), None, (SECOND,)
)
ALLOWED = AlterConfigs((ConfigResource(BROKER, "", (ConfigChange(UNCLEAN, SET, "true"),)),))


@pytest.mark.parametrize(
    ("command", "image", "first", "left"),
    [
        pytest.param(
            BrokerLost(1, 1),
            crowded(LED),
            BrokerFenced,
            LED._replace(isr=(2, 3), leader=2),
            id="a broker dies",
        ),
        pytest.param(
            Heartbeat(1, 1, 10, want_fenced=True),
            crowded(LED),
            BrokerFenced,
            LED._replace(isr=(2, 3), leader=2),
            id="it withdraws",
        ),
        pytest.param(
            Heartbeat(1, 1, 10, True),
            crowded(LED),
            BrokerShuttingDown,
            LED._replace(isr=(2, 3), leader=2),
            id="it shuts down",
        ),
        pytest.param(
            UnregisterBroker(1),
            crowded(LED),
            BrokerUnregistered,
            LED._replace(isr=(2, 3), leader=2),
            id="it is unregistered",
        ),
        pytest.param(
            Heartbeat(1, 1, 10),
            crowded(ALONE, fenced=True),
            BrokerUnfenced,
            ALONE._replace(leader=1),
            id="it returns",
        ),
        pytest.param(
            SAME_DISKS,
            crowded(LED),
            BrokerFenced,
            LED._replace(isr=(2, 3), leader=2),
            id="it begins anew",
        ),
        pytest.param(
            NEW_DISK,
            crowded(LED),
            BrokerFenced,
            LED._replace(isr=(2, 3), leader=2),
            id="it begins anew without a disk",
        ),
        pytest.param(
            ReplicasLost(1, 1, EVERY_REPLICA),
            crowded(LED),
            None,
            LED._replace(isr=(2, 3), leader=2),
            id="its logs are damaged",
        ),
        pytest.param(
            ALLOWED,
            crowded(UNCLEANLY, fenced=True),
            None,
            UNCLEANLY._replace(isr=(2,), leader=2),
            id="unclean election is allowed",
        ),
    ],
)
def test_changes_of_all_partitions_are_written_in_portions(
    command: Command, image: MetadataImage, first: type[Record] | None, left: PartitionImage
) -> None:
    run = Run(image, 2, 3)

    entries = run.entries(command)

    before = next(iter(image.topics.values())).partitions[0]
    moved = left._replace(
        leader_epoch=before.leader_epoch + (left.leader != before.leader),
        partition_epoch=before.partition_epoch + 1,
    )
    assert set(run.partitions()) == {moved}
    assert len(entries) >= 20
    assert max(map(len, entries)) < 1000
    if first is not None:
        assert isinstance(entries[0][0], first)


def test_a_broker_is_fenced_that_has_as_many_partitions_as_a_cluster_may_have() -> None:
    run = Run(crowded(LED, PARTITIONS.value // TOPICS_HERE))

    entries = run.entries(BrokerLost(1, 1))

    assert entries[0][0] == BrokerFenced(1, 1)
    assert sum(map(len, entries)) == 1 + PARTITIONS.value
    assert {partition.isr for partition in run.partitions()} == {(2, 3)}


def test_a_broker_without_its_disk_is_registered_after_it_has_left_all_isrs() -> None:
    """A controller that is deposed in between would take it for the broker that has the records."""
    entries = Run(crowded(LED), 2, 3).entries(NEW_DISK)

    assert [
        index
        for index, entry in enumerate(entries)
        if any(isinstance(record, BrokerRegistered) for record in entry)
    ] == [len(entries) - 1]


def test_all_replicas_of_a_directory_that_fails_are_offline_in_one_entry() -> None:
    """A controller that is deposed in between would leave marks of a directory that is not
    missing.
    """
    partitions = PARTITIONS.value // TOPICS_HERE
    run = Run(crowded(LED, partitions), 2, 3)
    topics = tuple([each._replace(partitions=tuple(range(partitions))) for each in EVERY_REPLICA])

    entries = run.entries(ReplicasOffline(1, 1, SECOND, topics))

    assert [type(record) for record in entries[0][:2]] == [BrokerDirectoryFailed, ReplicasMarked]
    assert {(partition.offline, partition.isr) for partition in run.partitions()} == {
        ((1,), (2, 3))
    }


def test_all_replicas_of_a_directory_that_is_back_fit_into_the_entry_of_the_registration() -> None:
    partitions = PARTITIONS.value // TOPICS_HERE
    offline = LED._replace(isr=(2, 3), leader=2, offline=(1,))
    run = Run(
        crowded(offline, partitions, more_directories=(), missing_directories=(SECOND, THIRD)), 2, 3
    )
    held = tuple([each._replace(partitions=tuple(range(partitions))) for each in EVERY_REPLICA])

    entries = run.entries(
        SAME_DISKS._replace(failed_directories=1, held=(HeldReplicas(SECOND, held),))
    )

    assert [type(record) for record in entries[-1]] == [BrokerRegistered, ReplicasMarked]
    assert {partition.offline for partition in run.partitions()} == {()}


def test_the_deletion_of_all_topics_fits_into_one_entry() -> None:
    ids = [each.to_bytes(16, "big") for each in range(1, TOPICS.value + 1)]
    topics = {each: TopicImage(f"t{index}", each, (LED,)) for index, each in enumerate(ids)}
    image = crowded(LED)
    run = Run(
        MetadataImage(
            10,
            "cluster",
            {},
            image.brokers,
            topics,
            {each.name: each.topic_id for each in topics.values()},
            TOPICS.value,
        )
    )

    run.entries(DeleteTopics(tuple([DoomedTopic(None, each) for each in ids])))

    assert not run.image.topics


def test_the_size_of_a_change_is_never_underestimated() -> None:
    # the largest ids, of as many brokers as there may be
    many = tuple(range((1 << 31) - 1000, 1 << 31))
    before = PartitionImage((1,), (1,), 1, 0, 0)
    after = PartitionImage(many, many, many[0], (1 << 40), (1 << 40), many, many, many)
    for now in (before, before._replace(partition_epoch=1 << 40), after):
        record = changed(b"t" * 16, (1 << 31) - 1, before, now)
        assert len(encode_batch([record], 1 << 40)) - len(encode_batch([], 1 << 40)) <= size_bound(
            record
        )

    assert (
        walks.PORTION_BYTES + 2 * size_bound(changed(b"t" * 16, 0, before, after))
        <= RAFT_ENTRY_BYTES.value
    )


def test_changes_that_a_leader_asks_for_at_once_fit_into_one_entry_whatever_the_isr() -> None:
    """So do those of the controller that go back to their first replicas."""
    everybody = tuple(range((1 << 31) - BROKER_LIMIT.value, 1 << 31))
    before = PartitionImage(everybody, everybody[:1], everybody[0], 0, 0)
    largest = size_bound(
        changed(b"t" * 16, 0, before, before._replace(isr=everybody, partition_epoch=1))
    )

    assert max(CHANGES_OF_REQUEST, REBALANCED_AT_ONCE) * largest <= RAFT_ENTRY_BYTES.value


def test_a_walk_looks_at_a_part_of_the_partitions_at_a_time() -> None:
    """Also where nothing has to change: nobody else is served meanwhile."""
    looked: list[int] = []

    def after(topic: TopicImage, index: int, before: PartitionImage) -> PartitionImage:
        looked[-1] += 1
        return before

    image = crowded(LED, PARTITIONS.value // TOPICS_HERE)
    walk = Walk(image)
    while not walk.finished:
        looked.append(0)
        assert walk.portion(image, after) == []

    assert max(looked) <= walks.LOOKED_AT
    assert sum(looked) == PARTITIONS.value


# each portion on its own


class TornWorld(World):
    """Portions of one or two partitions; between them controllers are deposed, and brokers are
    heard, and die.
    """

    torn = 0

    def between_portions(self) -> None:
        self.torn += 1
        match self.random.randrange(6):
            case 0:
                self.replace_controller()
            case 1:
                self.decide_plainly(
                    Heartbeat(
                        broker_id := self.random.choice(BROKERS),
                        self.epoch(broker_id),
                        self.image.offset,
                    )
                )
            case 2:
                self.decide_plainly(
                    BrokerLost(broker_id := self.random.choice(BROKERS), self.epoch(broker_id))
                )

    def step(self) -> None:
        for _ in range(self.random.choice((0, 0, 1, 5))):
            if not self.controller.settled:
                self.carry_out(self.controller.tick(self.context()))
        super().step()


@pytest.mark.parametrize("seed", range(10))
def test_a_controller_deposed_between_two_portions_costs_no_record(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "PORTION_BYTES", 1)
    monkeypatch.setattr(walks, "LOOKED_AT", 5)
    torn = 0
    for number in range(3):
        world = TornWorld(100 * number + seed)
        for _ in range(200):
            world.step()
        world.replace_controller()
        world.settle()
        world.check(world.image, world.image)
        torn += world.torn
    assert torn


def test_a_portion_that_was_not_appended_is_decided_again() -> None:
    run = Run(crowded(LED), 2, 3)
    run.append(run.controller.decide(BrokerLost(1, 1), run.context()))
    run.controller.tick(run.context())  # is not appended
    run.controller.not_appended()

    run.settle()

    assert {partition.leader for partition in run.partitions()} == {2}


def test_a_broker_is_let_go_when_its_last_partition_has_moved() -> None:
    run = Run(crowded(LED), 2, 3)
    run.append(run.controller.decide(Heartbeat(1, 1, 10, True), run.context()))
    early = run.image.offset
    for broker_id in (2, 3):
        run.append(run.controller.decide(Heartbeat(broker_id, broker_id, early), run.context()))
    assert not run.controller.decide(
        Heartbeat(1, 1, early, True), run.context()
    ).reply.should_shutdown

    run.settle()
    assert not run.controller.decide(
        Heartbeat(1, 1, early, True), run.context()
    ).reply.should_shutdown, "others do not know yet"
    for broker_id in (2, 3):
        run.append(
            run.controller.decide(Heartbeat(broker_id, broker_id, run.image.offset), run.context())
        )
    assert run.controller.decide(
        Heartbeat(1, 1, run.image.offset, True), run.context()
    ).reply.should_shutdown


def test_a_new_controller_goes_on_where_the_one_before_was_deposed() -> None:
    """Before any broker speaks to it."""
    deposed = Run(crowded(LED), 2, 3)
    deposed.append(deposed.controller.decide(BrokerLost(1, 1), deposed.context()))
    assert {partition.leader for partition in deposed.partitions()} == {1, 2}

    run = Run(deposed.image)

    assert {partition.leader for partition in run.partitions()} == {2}


def test_a_registration_in_portions_begins_again_when_the_earlier_process_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have been taken into ISRs again that the registration has visited."""
    monkeypatch.setattr(walks, "PORTION_BYTES", 1)
    run = Run(crowded(LED, 2), 2, 3)
    outcome = run.controller.decide(NEW_DISK, run.context())
    run.append(outcome)
    run.append(run.controller.decide(Heartbeat(1, 1, run.image.offset), run.context()))
    assert run.image.alive(1)

    assert outcome.rest is not None
    with pytest.raises(KafkaError, match="another process is broker 1"):
        outcome.rest(run.context())
    assert run.image.brokers[1].epoch == 1
