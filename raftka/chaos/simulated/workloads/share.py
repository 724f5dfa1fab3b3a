"""A share group at work: members share two partitions, and finish each record in one of all ways,
while the leaders of the partitions and of both coordinators' logs move and die.

In the end all records are done: the share coordinator says so, and its state, the log and the
members' story must agree (chaos/checks/shares.py).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import ClassVar

import trio

from raftka.broker.coordinators import share_persister
from raftka.chaos.checks.shares import Final, Promises, check_ends, check_story
from raftka.chaos.simulated.clients.client import RETRY_S, Address, Client, NoAnswer
from raftka.chaos.simulated.clients.sharing import GROUP, JOBS, Notes, ShareMember
from raftka.chaos.simulated.cluster import Cluster
from raftka.chaos.simulated.workloads.group import OFFSETS, move_leaders
from raftka.metadata.image import GROUP as OF_GROUP
from raftka.share.state import SharePartitionKey, ShareState, StateBatch
from raftka.wire.errors import Code
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.share_state import (
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
)

STATES = "__share_group_state"
PARTITIONS, MEMBERS = 2, 4
SHARE = 2  # type of keys in FindCoordinator
LOCK_MS, MARGIN_S = 1000, 0.01  # clocks of machines differ
LIMITS = (2, 3, 5)  # of deliveries
TRIES = (2, 3, 10)  # of a request to a share coordinator: with few of them writes fail
FED_S = (0.02, 0.15)  # between two batches
LOOKS_EVERY_S = 0.3


class Feeder:
    """Writes the records, each with a value of its own."""

    def __init__(self, client: Client, fed: list[int], pace: float) -> None:
        """`fed`: the number of records of each partition."""
        self.client, self.fed, self.pace = client, fed, pace
        self.over = self.done = False

    async def run(self) -> None:
        random = self.client.runtime.random("feeder")
        producer_id = await self.client.producer_id()
        while not self.over:
            partition, count = random.randrange(PARTITIONS), random.randint(1, 4)
            fed = self.fed[partition]
            values = [b"job %d-%d" % (partition, fed + number) for number in range(count)]
            await self.client.produce(JOBS, partition, values, producer_id, fed)
            self.fed[partition] += count
            await trio.sleep(random.uniform(*FED_S) * self.pace)
        self.done = True


class StateReader:
    """Asks the share coordinator."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def _coordinator(self, partition: int) -> tuple[Address, bytes]:
        """Return the coordinator's address and the topic id. Raises NoAnswer."""
        topic_id = await self.client.topic_id(JOBS)
        key = SharePartitionKey(GROUP, topic_id, partition).coordinator_key()
        row = FIND_COORDINATOR.request(coordinator_keys=[key], key_type=SHARE)
        (found,) = (await self.client.anybody(FIND_COORDINATOR, row)).coordinators
        if found.error_code:
            raise NoAnswer
        return (found.host, found.port), topic_id

    async def summary(self, partition: int) -> tuple[int, int]:
        """Return the start offset and the number of done records behind it, or -1 for each. Raises
        NoAnswer.
        """
        where, topic_id = await self._coordinator(partition)
        request = READ_SHARE_GROUP_STATE_SUMMARY.request
        asked = request.topics(
            topic_id=topic_id,
            partitions=[request.topics.partitions(partition=partition, leader_epoch=0)],
        )
        row = request(group_id=GROUP, topics=[asked])
        answer = await self.client.ask(where, READ_SHARE_GROUP_STATE_SUMMARY, row)
        found = answer.results[0].partitions[0]
        if found.error_code:
            raise NoAnswer
        return found.start_offset, found.delivery_complete_count

    async def is_finished(self, partition: int, fed: int) -> bool:
        """Return whether all records are done, at least the `fed` ones that were acknowledged: a
        leader that is none any more tells an earlier end. Raises NoAnswer.
        """
        end = max(fed, await self.client.end_offset(JOBS, partition))
        start, done = await self.summary(partition)
        return max(0, start) + max(0, done) >= end

    async def final(
        self, partition: int, leader_epoch: int
    ) -> tuple[ShareState, list[tuple[int, bytes]]]:
        """Return the persisted state, and the records of the log. `leader_epoch`: the leader's."""
        records = await self.client.read_with_offsets(JOBS, partition)
        while True:
            try:
                return await self._state(partition, leader_epoch), records
            except NoAnswer:
                await trio.sleep(RETRY_S)

    async def _state(self, partition: int, leader_epoch: int) -> ShareState:
        where, topic_id = await self._coordinator(partition)
        _, done = await self.summary(partition)
        request = READ_SHARE_GROUP_STATE.request
        asked = request.topics(
            topic_id=topic_id,
            partitions=[request.topics.partitions(partition=partition, leader_epoch=leader_epoch)],
        )
        row = request(group_id=GROUP, topics=[asked])
        answer = await self.client.ask(where, READ_SHARE_GROUP_STATE, row)
        found = answer.results[0].partitions[0]
        if found.error_code:
            raise NoAnswer
        batches = [
            StateBatch(
                each.first_offset, each.last_offset, each.delivery_state, each.delivery_count
            )
            for each in found.state_batches
        ]
        return ShareState(found.state_epoch, leader_epoch, found.start_offset, done, tuple(batches))


class ShareWork:
    settings: ClassVar[Mapping[str, str]] = {
        "offsets.topic.num.partitions": "2",
        "share.coordinator.state.topic.num.partitions": "2",
        "share.coordinator.snapshot.update.records.per.snapshot": "10",
        "group.share.session.timeout.ms": "1000",
        "group.share.min.session.timeout.ms": "1000",
        "group.share.heartbeat.interval.ms": "100",
        "group.share.min.heartbeat.interval.ms": "100",
        "group.share.assignment.interval.ms": "100",
        "group.share.initialize.retry.interval.ms": "500",
        "group.share.min.record.lock.duration.ms": str(LOCK_MS),
        "replica.lag.time.max.ms": "2000",
        "leader.imbalance.check.interval.seconds": "1",  # leaderships go back and forth
    }
    topics: Sequence[tuple[str, int]] = ((JOBS, PARTITIONS), (STATES, 2), (OFFSETS, 2))

    def __init__(self, pace: float = 1.0) -> None:
        self.pace = pace
        self.over = False
        self.limit = LIMITS[0]
        self.notes = Notes(LOCK_MS)
        self.fed = [0] * PARTITIONS
        self.feeder: Feeder
        self.members: list[ShareMember] = []

    def begin(self, cluster: Cluster, chance: Random) -> None:
        client = cluster.client()
        configs = {"min.insync.replicas": "2"}
        cluster.do(client, lambda: client.create_topic(JOBS, PARTITIONS, 3, configs))
        self.limit = chance.choice(LIMITS)
        share_persister.TRIES = chance.choice(TRIES)  # until the life's end (often())
        cluster.do(client, lambda: configure(client, self.limit))
        self.notes.term_of = lambda address, partition: term(cluster, address, partition)
        self.feeder = Feeder(cluster.client("feeder"), self.fed, self.pace)
        self.members = [
            ShareMember(cluster.client(f"share{number}"), self.notes) for number in range(MEMBERS)
        ]
        clients: list[Feeder | ShareMember] = [self.feeder, *self.members]
        for each in clients:
            each.client.runtime.spawn(each.run, type(each).__name__)
        for member in self.members:
            member.pace = self.pace
            member.client.runtime.spawn(member.keep_in_group, "heartbeats")
        cluster.settled(lambda: len(self.notes.accepted) == PARTITIONS, 20.0)
        moved = [JOBS, JOBS, STATES, OFFSETS]
        move_leaders(cluster, chance, moved, lambda: self.over)
        reader = cluster.client("reader of states")
        reader.runtime.spawn(lambda: self._watch(StateReader(reader)), "watch")

    async def _watch(self, reader: StateReader) -> None:
        """Let the members go when all records are done."""
        while not self.notes.is_finished:
            await trio.sleep(LOOKS_EVERY_S)
            try:
                self.notes.is_finished = self.feeder.done and all(
                    [await reader.is_finished(*each) for each in enumerate(self.fed)]
                )
            except NoAnswer:
                continue

    @property
    def promises(self) -> Promises:
        return Promises(self.limit, LOCK_MS / 1000 - MARGIN_S)

    @property
    def wrong(self) -> list[str]:
        return self.notes.wrong

    @property
    def counts(self) -> Sequence[int]:
        """Records written, and records accepted, of each partition."""
        return [*self.fed, *(self.notes.accepted[each] for each in range(PARTITIONS))]

    def end(self) -> None:
        if self.over:
            return
        # before the rest: a life that does not come to its end shows why
        self.notes.wrong.extend(check_story(self.notes.story, self.promises))
        self.over = self.feeder.over = True
        for each in self.members:
            each.over = True

    @property
    def ended(self) -> bool:
        return self.feeder.done and all(each.done for each in self.members)

    def check(self, cluster: Cluster) -> list[str]:
        reader, found = StateReader(cluster.client("last")), []
        finals = {}
        topic = cluster.newest.image.topic_named(JOBS)
        assert topic is not None
        for partition, image in enumerate(topic.partitions):
            state, records = cluster.do(
                reader.client, partial(reader.final, partition, image.leader_epoch)
            )
            finals[JOBS, partition] = Final(state, len(records), is_drained=True)
            found += [
                f"another record: {JOBS}-{partition} at {offset} is delivered as "
                f"{self.notes.values[partition, offset]!r}"
                for offset, value in records
                if self.notes.values.get((partition, offset), value) != value
            ]
        story, promises = self.notes.story, self.promises
        return found + check_story(story, promises) + check_ends(story, promises, finals)


async def configure(client: Client, limit: int) -> None:
    """Set the group's configurations."""
    request = INCREMENTAL_ALTER_CONFIGS.request
    values = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": str(LOCK_MS),
        "share.delivery.count.limit": str(limit),
    }
    configs = [
        request.resources.configs(name=name, config_operation=0, value=value)
        for name, value in values.items()
    ]
    group = request.resources(resource_type=OF_GROUP, resource_name=GROUP, configs=configs)
    while True:
        answer = await client.anybody(INCREMENTAL_ALTER_CONFIGS, request(resources=[group]))
        if answer.responses[0].error_code == Code.NONE:
            return
        await trio.sleep(RETRY_S)


def term(cluster: Cluster, address: Address, partition: int) -> object:
    """Return the share partition at this broker, which stays the same while the broker keeps its
    state. None: it has none, or another broker leads, of which it may not have heard.
    """
    node = next(
        (node for node_id, node in cluster.living.items() if f"n{node_id}" == address[0]), None
    )
    newest = cluster.newest.image.topic_named(JOBS)
    if node is None or newest is None:
        return None
    share = node.share_leader._places.get((newest.topic_id, partition), {}).get(GROUP)
    if share is None or share.leadership.leader_epoch != newest.partitions[partition].leader_epoch:
        return None
    return share
