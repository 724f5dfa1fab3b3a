"""Questions to share coordinators: the persisted state of share partitions; the group's settings,
and the letters in its dead-letter topic.
"""

from collections import defaultdict
from collections.abc import Mapping

import trio

from raftka.chaos.checks.shares import Final
from raftka.chaos.simulated.clients.client import RETRY_S, Address, Client, NoAnswer
from raftka.chaos.simulated.clients.sharing import GROUP, JOBS
from raftka.metadata.image import GROUP as OF_GROUP
from raftka.share.state import SharePartitionKey, ShareState, StateBatch
from raftka.wire.errors import Code
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.share_state import (
    READ_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE_SUMMARY,
)

SHARE = 2  # type of keys in FindCoordinator
LETTER = "__dlq.errors."  # begins the names of a dead letter's headers


class StateReader:
    """Asks the share coordinator."""

    def __init__(self, client: Client, topic: str = JOBS, group: str = GROUP) -> None:
        self.client, self.topic, self.group = client, topic, group

    async def _coordinator(self, partition: int) -> tuple[Address, bytes]:
        """Return the coordinator's address and the topic id. Raises NoAnswer."""
        topic_id = await self.client.topic_id(self.topic)
        key = SharePartitionKey(self.group, topic_id, partition).coordinator_key()
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
        row = request(group_id=self.group, topics=[asked])
        answer = await self.client.ask(where, READ_SHARE_GROUP_STATE_SUMMARY, row)
        found = answer.results[0].partitions[0]
        if found.error_code:
            raise NoAnswer
        return found.start_offset, found.delivery_complete_count

    async def is_finished(
        self, partition: int, fed: int, aborted: frozenset[int] = frozenset()
    ) -> bool:
        """Return whether all records are done, at least the `fed` ones that were acknowledged: a
        leader that is none any more tells an earlier end. `aborted`: that the group leaves out.
        Raises NoAnswer.
        """
        end = max(fed, await self.client.end_offset(self.topic, partition))
        start, done = await self.summary(partition)
        if not aborted:
            return max(0, start) + max(0, done) >= end
        epoch = (await self.client.leader(self.topic, partition)).epoch
        final = Final(await self._state(partition, epoch), end, False, aborted=aborted)
        return all(final.done_at(offset) for offset in range(max(0, start), end))

    async def final(
        self, partition: int, leader_epoch: int
    ) -> tuple[ShareState, list[tuple[int, bytes]]]:
        """Return the persisted state, and the records of the log. `leader_epoch`: the leader's."""
        records = await self.client.read_with_offsets(self.topic, partition)
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
        row = request(group_id=self.group, topics=[asked])
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


async def configure(client: Client, group: str, values: Mapping[str, str]) -> None:
    """Set configurations of the group."""
    request = INCREMENTAL_ALTER_CONFIGS.request
    configs = [
        request.resources.configs(name=name, config_operation=0, value=value)
        for name, value in values.items()
    ]
    resource = request.resources(resource_type=OF_GROUP, resource_name=group, configs=configs)
    while True:
        answer = await client.anybody(INCREMENTAL_ALTER_CONFIGS, request(resources=[resource]))
        if answer.responses[0].error_code == Code.NONE:
            return
        await trio.sleep(RETRY_S)


async def letters_of(
    client: Client, dead_letters: str, partitions: int, group: str
) -> dict[int, dict[int, bytes | None]]:
    """Return the values in this dead-letter topic, by partition and offset of their records."""
    found: dict[int, dict[int, bytes | None]] = defaultdict(dict)
    for partition in range(partitions):
        for record in await client.read_records(dead_letters, partition):
            headers = {name.removeprefix(LETTER): value or b"" for name, value in record.headers}
            if headers["group"] == group.encode():
                found[int(headers["partition"])][int(headers["offset"])] = record.value
    return found
