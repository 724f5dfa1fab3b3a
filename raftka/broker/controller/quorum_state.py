"""The quorum as DescribeQuorum shows it: how much of the metadata log each node has, and when the
leader last heard it. Only the leader knows this.

The leader hears voters through Raft, and observers (brokers without a vote) through heartbeats.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from raftka.metadata.commands import NO_DIRECTORY, Heartbeat, QuorumReplica, QuorumState

if TYPE_CHECKING:
    from raftka.metadata.controller.controller import Controller
    from raftka.metadata.quorum.raft import RaftCore
    from raftka.runtime.interfaces import Clock


class QuorumView:
    """The leader's view of the other nodes, beside Raft. Times are of the node's clock."""

    def __init__(self, core: "RaftCore", clock: "Clock") -> None:
        self.core = core
        self.clock = clock
        self.caught_up: dict[int, float] = {}  # times at which each node had all entries

    def voters_heard(self, heard: Mapping[int, float]) -> None:
        """Note which voters have all entries, after a step of the leader."""
        last = self.core.last_index
        for voter, when in heard.items():
            if self.core.acknowledged(voter) >= last:
                self.caught_up[voter] = when

    def broker_heard(self, heartbeat: Heartbeat) -> None:
        if heartbeat.applied_offset >= self.core.commit_index:
            self.caught_up[heartbeat.broker_id] = self.clock.now()

    def describe(self, me: int, machine: "Controller", heard: Mapping[int, float]) -> QuorumState:
        """Return the state. Log ends and the high watermark are offsets behind the last entry, as
        in Kafka.
        """
        core, now, sessions = self.core, self.clock.now(), machine.sessions
        self.caught_up[me] = now
        known = {voter.node_id: voter for voter in core.voter_set or ()}
        voters = [
            self._replica(
                voter,
                core.acknowledged(voter),
                now if voter == me else heard.get(voter),
                known[voter].directory_id if voter in known else NO_DIRECTORY,
            )
            for voter in core.voters
        ]
        observers = [
            self._replica(
                broker,
                sessions.applied(broker),
                sessions.ends(broker) - sessions.timeout,
                # that of its votes to come, if it is a controller
                core.directory_of(broker) or registered.directory_id,
            )
            for broker, registered in machine.image.brokers.items()
            if broker not in core.voters and sessions.spoke(broker, now)
        ]
        observers += [
            self._replica(node, core.acknowledged(node), when, core.directory_of(node))
            for node, when in heard.items()
            if node not in core.voters
            and node not in machine.image.brokers
            and core.directory_of(node)
        ]
        nodes = tuple((voter.node_id, voter.endpoints) for voter in known.values())
        return QuorumState(
            me, core.term, core.commit_index + 1, tuple(voters), tuple(observers), nodes
        )

    def _replica(
        self, node_id: int, index: int, heard: float | None, directory_id: bytes
    ) -> QuorumReplica:
        caught_up = self._wall_ms(self.caught_up.get(node_id))
        return QuorumReplica(node_id, index + 1, self._wall_ms(heard), caught_up, directory_id)

    def _wall_ms(self, when: float | None) -> int:
        return (
            -1 if when is None else self.clock.wall_ms() - round((self.clock.now() - when) * 1000)
        )
