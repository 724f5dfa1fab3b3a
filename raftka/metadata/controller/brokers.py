"""Which brokers are alive: sessions, registration, what a heartbeat asks for, controlled shutdown
(KIP-631). Knows no topic.

A broker is *fenced* (no leadership, in no ISR, not in Metadata) until it has caught up with the
metadata log, and again when its heartbeats stop. One that registers must have its own registration;
one that comes back without registering must have all that there was when it was heard again, so
that it leads, and lets clients in, by what was decided while it was away.

Who was heard when is soft state, never replicated: a new controller gives everyone one full
session, unless it knows from elsewhere how long a node has been silent.
"""

from collections.abc import Mapping
from enum import Enum, auto
from math import inf

from raftka.limits import BROKERS
from raftka.metadata.commands import Heartbeat, RegisterBroker
from raftka.metadata.image import BrokerImage, MetadataImage
from raftka.wire.errors import Code, KafkaError, check_limit


class Sessions:
    """When each broker's session ends. Times are in seconds."""

    def __init__(self, timeout: float, now: float, heard: Mapping[int, float]) -> None:
        self.timeout = timeout
        self.leading_since = now
        self._grace = timeout / 4
        # Only the leader before us must have been heard regularly; what is older than a session
        # says nothing about a follower.
        self._ends = {
            broker_id: max(when + timeout, now + timeout / 2)
            for broker_id, when in heard.items()
            if when + timeout > now
        }
        # by those who spoke to this controller: how far they are in the metadata log
        self._applied: dict[int, int] = {}
        self._returning: dict[int, int] = {}  # of fenced brokers: how far they must be

    def heard(self, broker_id: int, now: float, applied_offset: int = -1) -> None:
        self._ends[broker_id] = now + self.timeout
        self._applied[broker_id] = applied_offset

    def registered(self, broker_id: int, now: float) -> None:
        """It must have its registration, and no more."""
        self.heard(broker_id, now)
        self._returning[broker_id] = -1

    def must_apply(self, broker: BrokerImage, now: float, end: int) -> int:
        """How far a broker that is heard now must be to be unfenced. `end`: of the metadata log.

        A fenced broker must have what there is as it is heard for the first time again. What comes
        later it need not have: else a busy log could keep it fenced for ever.
        """
        if not broker.fenced:
            self._returning.pop(broker.broker_id, None)
            return broker.epoch
        if broker.broker_id not in self._returning or not self.spoke(broker.broker_id, now):
            self._returning[broker.broker_id] = end
        return max(broker.epoch, self._returning[broker.broker_id])

    def remove(self, broker_id: int) -> None:
        """Its process has ended: another one that registers in its place need not wait."""
        self._applied.pop(broker_id, None)

    def ends(self, broker_id: int) -> float:
        return self._ends.get(broker_id, self.leading_since + self.timeout)

    def spoke(self, broker_id: int, now: float) -> bool:
        """This very controller heard it, within a session."""
        return broker_id in self._applied and now < self.ends(broker_id)

    def applied(self, broker_id: int) -> int:
        return self._applied.get(broker_id, -1)

    def next_end(self, image: MetadataImage) -> float:
        ends, first = self._ends, self.leading_since + self.timeout
        return min(
            [ends.get(each.broker_id, first) for each in image.brokers.values() if not each.fenced],
            default=inf,
        )

    def expired(self, image: MetadataImage, now: float) -> list[BrokerImage]:
        """Those to be fenced now.

        When we look far too late, it was us who slept, and their heartbeats may still be unread:
        then a quarter of a session more for everybody.
        """
        silent = [
            each
            for each in image.brokers.values()
            if not each.fenced and self.ends(each.broker_id) <= now
        ]
        if silent and now - self.next_end(image) > self._grace:
            self._ends.update({each.broker_id: now + self._grace for each in silent})
            return []
        return silent


def check_registration(
    command: RegisterBroker, image: MetadataImage, sessions: Sessions, now: float
) -> None:
    """Raises what a broker is told that may not register."""
    if command.cluster_id is not None and command.cluster_id != image.cluster_id:
        raise KafkaError(
            Code.INCONSISTENT_CLUSTER_ID,
            f"this cluster is {image.cluster_id}, not {command.cluster_id}",
        )
    if (
        command.broker_id < 0
        or not command.endpoints
        or {len(each) for each in (command.incarnation_id, *command.directories)} != {16}
    ):
        raise KafkaError(
            Code.INVALID_REGISTRATION, "a broker id, two 16-byte ids and a listener are needed"
        )
    for other in image.brokers.values():
        if other.broker_id != command.broker_id and not other.directories.isdisjoint(
            command.directories
        ):
            raise KafkaError(
                Code.INVALID_REGISTRATION,
                f"broker {other.broker_id} is registered with the same directory",
            )
    known = image.brokers.get(command.broker_id)
    if known is None:
        check_limit(BROKERS, len(image.brokers) + 1)
    elif _still_there(known, command, sessions, now):
        raise KafkaError(
            Code.DUPLICATE_BROKER_REGISTRATION,
            f"another process is broker {command.broker_id}, its session has not ended",
        )


def _still_there(
    known: BrokerImage, command: RegisterBroker, sessions: Sessions, now: float
) -> bool:
    """Return whether the registered process may be alive.

    A directory's lock is proof that the earlier process is gone, unless we heard that one ourselves
    (then somebody copied the directory). With other directories there is no such proof: whoever is
    not fenced has its whole session.
    """
    if known.incarnation_id == command.incarnation_id:
        return False
    if known.fenced or not known.directories.isdisjoint(command.directories):
        return sessions.spoke(known.broker_id, now)
    return now < sessions.ends(known.broker_id)


def registered_already(command: RegisterBroker, known: BrokerImage | None) -> bool:
    """The same process asks again because the answer got lost."""
    if known is None or (known.incarnation_id, known.endpoints, known.rack) != (
        command.incarnation_id,
        command.endpoints,
        command.rack,
    ):
        return False
    return (known.directory_id, known.more_directories) == (
        command.directory_id,
        command.more_directories,
    )


def current(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """Raises STALE_BROKER_EPOCH for an earlier process, or none, of that number."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise KafkaError(
            Code.STALE_BROKER_EPOCH,
            f"broker {broker_id} is registered with epoch {broker.epoch if broker else None}",
        )
    return broker


class Wish(Enum):
    """The state that a heartbeat leads to."""

    STAY = auto()
    FENCE = auto()
    UNFENCE = auto()
    BEGIN_SHUTDOWN = auto()  # move its leaderships away
    SHUTDOWN = auto()  # they are moved, and all others know


def wish(heartbeat: Heartbeat, broker: BrokerImage, must_apply: int, everybody_knows: bool) -> Wish:
    if broker.fenced:
        if heartbeat.want_shutdown:
            return Wish.SHUTDOWN
        # who has said goodbye must register anew
        may = not heartbeat.want_fenced and not broker.shutting_down
        return Wish.UNFENCE if may and heartbeat.applied_offset >= must_apply else Wish.STAY
    if heartbeat.want_shutdown:
        if not broker.shutting_down:
            return Wish.BEGIN_SHUTDOWN
        return Wish.SHUTDOWN if everybody_knows else Wish.STAY
    return Wish.FENCE if heartbeat.want_fenced else Wish.STAY
