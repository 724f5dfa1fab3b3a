"""Clients of consumer groups while a cluster suffers: they commit offsets and fetch committed ones.
Written down for the checker.
"""

from collections.abc import Sequence

import trio

from raftka.chaos import history as story
from raftka.chaos.simulated.clients.client import Address, Client, NoAnswer
from raftka.chaos.simulated.clients.pauses import Pauses
from raftka.chaos.simulated.clients.producers import History, key_of
from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.offsets import (
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from raftka.wire.rows import ZERO_UUID

PASSES = frozenset(
    {
        Code.NOT_COORDINATOR,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
    }
)
RETRY_S = 0.1
LOOKS = 0.25  # of what it does


def commit_row(
    group: str, topic: str, partition: int, offset: int, topic_id: bytes = ZERO_UUID
) -> OffsetCommitRequest:
    request = OFFSET_COMMIT.request
    row = request.topics.partitions(
        partition_index=partition, committed_offset=offset, committed_metadata=""
    )
    return request(
        group_id=group, topics=[request.topics(name=topic, topic_id=topic_id, partitions=[row])]
    )


def committed_row(group: str, topic: str, partition: int) -> OffsetFetchRequest:
    request = OFFSET_FETCH.request
    return request(
        groups=[
            request.groups(
                group_id=group,
                topics=[request.groups.topics(name=topic, partition_indexes=[partition])],
            )
        ]
    )


class Committer:
    """A group's only client, without membership: commits rising offsets of one partition."""

    def __init__(
        self,
        client: Client,
        history: History,
        group: str,
        topic: str,
        partition: int,
        pause_s: tuple[float, float],
    ) -> None:
        self.client = client
        self.history = history
        self.over = False
        self.acknowledged = 0  # commits
        self._group, self._topic, self._partition = group, topic, partition
        self._key = key_of(topic, partition)
        self._process = history.process()
        self._random = client.runtime.random(f"group {group}")
        self.pauses = Pauses(self._random, pause_s)

    @property
    def counts(self) -> Sequence[int]:
        return [self.acknowledged]

    def end(self) -> None:
        self.over = True

    async def run(self) -> None:
        offset = 0
        while not self.over:
            where = await self._coordinator()
            while not self.over:
                if self._random.random() < LOOKS:
                    went_well = await self._fetch_offset(where)
                else:
                    offset += 1
                    went_well = await self._commit(where, offset)
                await self.pauses.rest()
                if not went_well:
                    break

    async def _coordinator(self) -> Address:
        while True:
            shape = self.client.shape
            (found,) = shape.coordinators(
                await self.client.anybody(FIND_COORDINATOR, shape.find_coordinator([self._group]))
            )
            if found.error_code == Code.NONE:
                return found.host, found.port
            await trio.sleep(RETRY_S)

    async def _commit(self, where: Address, offset: int) -> bool:
        self.history.begin(
            self._process, story.COMMIT, group=self._group, offsets={self._key: offset}
        )
        try:
            topic_id = await self.client.topic_id(self._topic)
            row = await self.client.ask(
                where,
                OFFSET_COMMIT,
                commit_row(self._group, self._topic, self._partition, offset, topic_id),
            )
        except NoAnswer:
            self._new_process(story.INFO)
            return False
        code = Code(row.topics[0].partitions[0].error_code)
        if code is not Code.NONE:
            self._new_process(story.INFO)
            return self._passes(code)
        self.history.end(self._process, story.OK)
        self.acknowledged += 1
        return True

    async def _fetch_offset(self, where: Address) -> bool:
        self.history.begin(self._process, story.FETCH_OFFSET, group=self._group)
        try:
            ids = {self._topic: await self.client.topic_id(self._topic)}
            asked = self.client.shape.fetch_offsets(
                self._group, {self._topic: [self._partition]}, ids
            )
            group = self.client.shape.offsets(await self.client.ask(where, OFFSET_FETCH, asked))
        except NoAnswer:
            self.history.end(self._process, story.FAIL)
            return False
        if group.error_code or group.topics[0].partitions[0].error_code:
            self.history.end(self._process, story.FAIL)
            return self._passes(Code(group.error_code or group.topics[0].partitions[0].error_code))
        self.history.end(
            self._process,
            story.OK,
            offsets={self._key: group.topics[0].partitions[0].committed_offset},
        )
        return True

    def _new_process(self, outcome: str) -> None:
        self.history.end(self._process, outcome)
        self._process = self.history.process()

    def _passes(self, code: Code) -> bool:
        if code not in PASSES:
            self.history.violations.append(f"group {self._group} is refused with {code.name}")
        return False
