"""Users of a secured cluster, what was acknowledged about them, and which node must know it by now.

Each user has a password, two rights and a quota, and each of these is a `Register`: one
administrator alone alters it, one alteration after the other. An alteration without an answer may
still come at any time, so from then on its value is possible too.
"""

from collections import Counter
from typing import Generic, NamedTuple, TypeVar

from raftka.broker.node import Node
from raftka.chaos.simulated.cluster import Cluster
from raftka.metadata.image import MetadataImage
from raftka.metadata.quorum.raft_types import Committed, Snapshot
from raftka.security import acls
from raftka.security.acls import Acl

T = TypeVar("T")
# topics: nobody may do anything with the first one, everybody with the other, unless an ACL says
# otherwise
VAULT, OPEN = "vault", "open"
WITHOUT = 0  # the number of a user's password when there is none


class Settled(NamedTuple, Generic[T]):
    """A value whose alteration was acknowledged, with no other one under way."""

    value: T
    at_s: float
    offset: int  # of the metadata: it was committed at or before this one


class Register(Generic[T]):
    def __init__(self, value: T) -> None:
        self.settled: Settled[T] | None = Settled(value, 0.0, 0)
        self._late: Counter[T] = Counter()  # asked for, and not answered

    def begin(self, value: T) -> None:
        self.settled = None
        self._late[value] += 1

    def done(self, settled: Settled[T]) -> None:
        self._late -= Counter([settled.value])
        self.settled = settled

    @property
    def possible(self) -> set[T]:
        """The values that it may have, if it is settled."""
        return {*self._late, *([] if self.settled is None else [self.settled.value])}


class User:
    def __init__(self, name: str, *, denied: bool, pattern: int) -> None:
        """`denied`: it lacks a right because an ACL denies it, not because none allows it."""
        self.name = name
        self.denied = denied
        self.topic = OPEN if denied else VAULT
        self.password: Register[int] = Register(WITHOUT)  # its number
        self.passwords = 0  # so many it has had
        self.rights: dict[int, Register[bool]] = {
            acls.WRITE: Register(denied),
            acls.READ: Register(denied),
        }
        self.quota: Register[float | None] = Register(None)
        self._pattern = pattern

    @property
    def principal(self) -> str:
        return f"User:{self.name}"

    def secret(self, number: int) -> str:
        return f"{self.name}-secret-{number}"

    def acl(self, operation: int) -> Acl:
        name = self.topic if self._pattern == acls.LITERAL else self.topic[:3]
        permission = acls.DENY if self.denied else acls.ALLOW
        return Acl(acls.TOPIC, name, self._pattern, self.principal, "*", operation, permission)


class Progress:
    """The progress of the cluster's metadata, and the part of it that each node must know."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.newest = MetadataImage()  # that any process has had so far
        self._started: dict[int, float] = {}  # when the process of each node was
        # how far the metadata was when the broker was fenced last
        self._fenced: dict[int, int] = {}
        # the same of one that was unfenced in the same epoch, with that epoch
        self._returned: dict[int, tuple[int, int]] = {}
        for node_id, node in cluster.nodes.items():
            self._watch(node_id, node)
        cluster.before_start.append(self._watch)

    def _watch(self, node_id: int, node: Node) -> None:
        self._started[node_id] = self.cluster.world.now
        apply = node.quorum._apply

        def applying(found: list[Committed] | Snapshot) -> None:
            apply(found)
            if node.image.offset > self.newest.offset:
                self._note_fences(self.newest, node.image)
                self.newest = node.image

        node.quorum._apply = applying

    def _note_fences(self, before: MetadataImage, after: MetadataImage) -> None:
        for broker_id, broker in after.brokers.items():
            was = before.brokers.get(broker_id)
            if was is None or was.epoch != broker.epoch:
                self._fenced.pop(broker_id, None)
            elif broker.fenced and not was.fenced:
                self._fenced[broker_id] = before.offset
            elif was.fenced and not broker.fenced and broker_id in self._fenced:
                self._returned[broker_id] = broker.epoch, self._fenced[broker_id]

    def settled(self, value: T) -> Settled[T]:
        """For an alteration that is acknowledged now."""
        return Settled(value, self.cluster.world.now, self.newest.offset)

    def must_know(self, node_id: int, settled: Settled[T]) -> bool:
        """Return whether a client that comes now must be treated by it.

        So it must if the node has read the metadata so far; if its process was started later, for
        it takes no connection before it has read its own registration; if it was registered later
        and is unfenced; if it was fenced later and is unfenced again.
        """
        broker = self.newest.brokers.get(node_id)
        epoch, fenced_at = self._returned.get(node_id, (-1, -1))
        if (
            broker is not None
            and broker.alive
            and (
                broker.epoch > settled.offset
                or (broker.epoch == epoch and fenced_at >= settled.offset)
            )
        ):
            return True
        return (
            self._started[node_id] >= settled.at_s
            or self.cluster.nodes[node_id].image.offset >= settled.offset
        )


class Expectation(Generic[T]):
    """The changes of a register that a node must know at the moment when a client asks."""

    def __init__(self, progress: Progress, node_id: int, register: Register[T]) -> None:
        self._register = register
        self._settled = register.settled
        self._known = self._settled is not None and progress.must_know(node_id, self._settled)

    def is_now(self, value: T) -> bool | None:
        """Return whether the value is what counts; None: that cannot be said, because it was
        altered meanwhile, or need not be known yet.
        """
        if not self._known or self._register.settled is not self._settled:
            return None
        possible = self._register.possible
        return (None if len(possible) > 1 else True) if value in possible else False
