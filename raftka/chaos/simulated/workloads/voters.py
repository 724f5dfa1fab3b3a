"""Voters that come and go (KIP-853): an administrator raises kraft.version, and makes one voter
three, five, three and so on, while everything else goes on. Leaders are removed too.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle
from random import Random
from typing import ClassVar

import trio

from raftka.chaos.simulated.clients.client import Client, NoAnswer
from raftka.chaos.simulated.cluster import CONTROLLER_PORT, Cluster
from raftka.wire.errors import Code
from raftka.wire.messages.quorum import (
    ADD_RAFT_VOTER,
    DESCRIBE_QUORUM,
    REMOVE_RAFT_VOTER,
    UPDATE_FEATURES,
    PartitionData,
)

SIZES = (3, 5)  # of the set of voters, in turn
PAUSE_S = (0.05, 0.6)
TIMEOUT_MS = 4_000
# The command before this one may have been carried out without an answer, or may not be safe yet.
PASSES = frozenset(
    {
        Code.NONE,
        Code.DUPLICATE_VOTER,
        Code.VOTER_NOT_FOUND,
        Code.REQUEST_TIMED_OUT,
        Code.INVALID_UPDATE_VERSION,
    }
)


class Administrator:
    def __init__(self, client: Client, cluster: Cluster, chance: Random) -> None:
        self.client = client
        self.over = self.done = False
        self.changes = 0  # that were answered without an error
        self.wrong: list[str] = []
        self._cluster = cluster
        self._random = chance
        self._sizes = cycle(SIZES)
        self._size = next(self._sizes)

    async def run(self) -> None:
        while not self.over:
            try:
                if self._cluster.voters_in_log:
                    await self._change()
                else:
                    await self._raise_level()
            except NoAnswer:
                pass
            await trio.sleep(self._random.uniform(*PAUSE_S))
        self.done = True

    async def _raise_level(self) -> None:
        request = UPDATE_FEATURES.request
        update = request.feature_updates(feature="kraft.version", max_version_level=1)
        row = request(timeout_ms=TIMEOUT_MS, feature_updates=[update])
        answer = await self.client.ask(self._anybody(), UPDATE_FEATURES, row)
        if self._passes(answer.error_code, "kraft.version 1") and not answer.error_code:
            self._cluster.voters_in_log = True

    async def _change(self) -> None:
        quorum = await self._describe()
        if quorum is None:
            return
        voters = {each.replica_id: each.replica_directory_id for each in quorum.current_voters}
        others = {each.replica_id: each.replica_directory_id for each in quorum.observers}
        if len(voters) == self._size:
            self._size = next(self._sizes)
        if len(voters) < self._size:
            if others:
                await self._add(*self._random.choice(sorted(others.items())))
            return
        leader = quorum.leader_id
        leaves = leader if self._random.random() < 0.4 else self._random.choice(sorted(voters))
        if leaves in voters:
            await self._remove(leaves, voters[leaves])

    async def _describe(self) -> PartitionData | None:
        request = DESCRIBE_QUORUM.request
        partitions = [request.topics.partitions(partition_index=0)]
        topics = [request.topics(topic_name="__cluster_metadata", partitions=partitions)]
        answer = await self.client.ask(self._anybody(), DESCRIBE_QUORUM, request(topics=topics))
        if answer.error_code or not answer.topics:
            return None
        found: PartitionData = answer.topics[0].partitions[0]
        return None if found.error_code else found

    async def _add(self, node_id: int, directory_id: bytes) -> None:
        request = ADD_RAFT_VOTER.request
        endpoint = request.listeners(name="CONTROLLER", host=f"n{node_id}", port=CONTROLLER_PORT)
        row = request(
            timeout_ms=TIMEOUT_MS,
            voter_id=node_id,
            voter_directory_id=directory_id,
            listeners=[endpoint],
        )
        answer = await self.client.ask(self._anybody(), ADD_RAFT_VOTER, row)
        if self._passes(answer.error_code, f"voter {node_id} is added"):
            self.changes += not answer.error_code

    async def _remove(self, node_id: int, directory_id: bytes) -> None:
        row = REMOVE_RAFT_VOTER.request(voter_id=node_id, voter_directory_id=directory_id)
        answer = await self.client.ask(self._anybody(), REMOVE_RAFT_VOTER, row)
        if self._passes(answer.error_code, f"voter {node_id} is removed"):
            self.changes += not answer.error_code

    def _anybody(self) -> tuple[str, int]:
        return self._random.choice(self.client.bootstrap)

    def _passes(self, code: int, wanted: str) -> bool:
        if code not in PASSES:
            self.wrong.append(f"{wanted}: refused with {Code(code).name}")
        return code in PASSES


class VotersWork:
    settings: ClassVar[Mapping[str, str]] = {}
    topics: Sequence[tuple[str, int]] = ()

    def __init__(self) -> None:
        self._administrator: Administrator | None = None

    def begin(self, cluster: Cluster, chance: Random) -> None:
        client = cluster.client("administrator")
        self._administrator = Administrator(client, cluster, chance)
        client.runtime.spawn(self._administrator.run, "voters")

    @property
    def counts(self) -> Sequence[int]:
        assert self._administrator is not None
        return (self._administrator.changes,)

    def end(self) -> None:
        assert self._administrator is not None
        self._administrator.over = True

    @property
    def ended(self) -> bool:
        return self._administrator is not None and self._administrator.done

    @property
    def wrong(self) -> list[str]:
        return self._administrator.wrong if self._administrator is not None else []

    def check(self, cluster: Cluster) -> list[str]:
        """All nodes count by the same set of voters in the end."""
        sets = {
            tuple(node.quorum.core.voters)
            for node in cluster.living.values()
            if node.quorum.core is not None
        }
        return [] if len(sets) == 1 else [f"nodes count by different voters: {sorted(sets)}"]
