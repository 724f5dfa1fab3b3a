"""Sessions, registrations and heartbeats of brokers, and their controlled shutdown (KIP-631).

A broker is *fenced* (no leadership, in no ISR, not in Metadata) until it has caught up with the
metadata log, and again when its heartbeats stop. After a registration it must have applied that
registration. A broker that comes back without registering must have applied all entries from before
its first heartbeat: so it knows the decisions that were made while it was away.

The times of heartbeats are soft state and never replicated. A new controller gives each broker one
full session, unless Raft has heard that node before.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from math import inf

from raftka.limits import BROKERS
from raftka.metadata.commands import (
    AllocateProducerIds,
    Heartbeat,
    ProducerIdBlock,
    RegisterBroker,
)
from raftka.metadata.configs.broker import BROKER_SETTINGS
from raftka.metadata.configs.settings import CORDONED, EVERY_DIRECTORY
from raftka.metadata.controller.decision import Decision
from raftka.metadata.image import BROKER, BrokerImage, MetadataImage
from raftka.metadata.records import ProducerIdsAllocated
from raftka.wire.errors import Code, KafkaError, check_limit

PRODUCER_IDS = 1000  # in one block, as in Kafka


class Sessions:
    """The end of each broker's session. Times are in seconds."""

    def __init__(self, timeout: float, now: float, heard: Mapping[int, float]) -> None:
        self.timeout = timeout
        self.leading_since = now
        self._grace = timeout / 4
        # Raft hears only the leader regularly: silence of a follower for a session means nothing.
        self._ends = {
            broker_id: max(when + timeout, now + timeout / 2)
            for broker_id, when in heard.items()
            if when + timeout > now
        }
        # offsets of the metadata log, of brokers that this controller has heard
        self._applied: dict[int, int] = {}
        self._returning: dict[int, int] = {}  # offsets that fenced brokers must have applied
        # brokers whose last heartbeat said that all their log directories are cordoned
        self.cordoned: set[int] = set()

    def heard(self, broker_id: int, now: float, applied_offset: int = -1) -> None:
        self._ends[broker_id] = now + self.timeout
        self._applied[broker_id] = applied_offset

    def note_cordoned(self, heartbeat: Heartbeat) -> None:
        if heartbeat.is_cordoned:
            self.cordoned.add(heartbeat.broker_id)
        else:
            self.cordoned.discard(heartbeat.broker_id)

    def registered(self, broker_id: int, now: float) -> None:
        """Note a registration: the broker must have applied it, and no more."""
        self.heard(broker_id, now)
        self._returning[broker_id] = -1

    def must_apply(self, broker: BrokerImage, now: float, end: int) -> int:
        """Return the offset that a broker heard now must have applied to be unfenced. `end`: of the
        metadata log.

        A fenced broker must have applied all entries from before its first heartbeat. Later entries
        do not count: else a busy log could keep it fenced for ever.
        """
        if not broker.fenced:
            self._returning.pop(broker.broker_id, None)
            return broker.epoch
        if broker.broker_id not in self._returning or not self.spoke(broker.broker_id, now):
            self._returning[broker.broker_id] = end
        return max(broker.epoch, self._returning[broker.broker_id])

    def remove(self, broker_id: int) -> None:
        """Forget a process that has ended, so that the next one may register at once."""
        self._applied.pop(broker_id, None)

    def ends(self, broker_id: int) -> float:
        return self._ends.get(broker_id, self.leading_since + self.timeout)

    def spoke(self, broker_id: int, now: float) -> bool:
        """Return whether this controller itself has heard the broker within a session."""
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
        """Return the brokers to be fenced now.

        If this node looks far too late, it was itself suspended, and heartbeats may still be
        unread: then these brokers get a quarter of a session more.
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
    """Raise KafkaError if the broker may not register."""
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
    check_supported(command, image)
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


def check_supported(command: RegisterBroker, image: MetadataImage) -> None:
    """Raise UNSUPPORTED_VERSION for a broker whose release does not know a finalized level."""
    ranges = {name: (low, high) for name, low, high in command.features}
    for name, level in image.features.items():
        low, high = ranges.get(name, (0, 0))
        if not low <= level <= high:
            raise KafkaError(
                Code.UNSUPPORTED_VERSION,
                f"this cluster has {name} {level}, and the release of broker {command.broker_id} "
                f"supports {low} to {high}: start it with a release that the other nodes run",
            )


def _still_there(
    known: BrokerImage, command: RegisterBroker, sessions: Sessions, now: float
) -> bool:
    """Return whether the registered process may be alive.

    The lock of a directory proves that the earlier process has ended, unless this controller has
    heard that process itself: then the directory is a copy. With other directories there is no such
    proof: a process that is not fenced keeps its whole session.
    """
    if known.incarnation_id == command.incarnation_id:
        return False
    if known.fenced or not known.directories.isdisjoint(command.directories):
        return sessions.spoke(known.broker_id, now)
    return now < sessions.ends(known.broker_id)


def find_cordoned(image: MetadataImage, sessions: Sessions) -> frozenset[int]:
    """Return the brokers that get no new replica, because all their log directories are cordoned.

    The metadata say it of settings that were made at run time, at once. Heartbeats say it of the
    properties file, and of a broker whose other directories have failed.
    """
    named = {
        broker.broker_id
        for broker in image.brokers.values()
        if (text := image.config(BROKER, str(broker.broker_id)).get(CORDONED))
        and _names_all_directories(BROKER_SETTINGS[CORDONED].parse(text), broker)
    }
    return frozenset(named | sessions.cordoned)


def _names_all_directories(entries: Sequence[str], broker: BrokerImage) -> bool:
    """The broker has checked that each entry is one of its directories."""
    there = len(broker.directories) + len(broker.missing_directories)
    return EVERY_DIRECTORY in entries or len(set(entries)) >= there


def registered_already(command: RegisterBroker, known: BrokerImage | None) -> bool:
    """Return whether the same process asks again, because the answer was lost."""
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


def find_broker(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    """Return the registered broker. Raises STALE_BROKER_EPOCH if its epoch is another one."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise KafkaError(
            Code.STALE_BROKER_EPOCH,
            f"broker {broker_id} is registered with epoch {broker.epoch if broker else None}",
        )
    return broker


class NextState(Enum):
    """The state that a heartbeat leads to."""

    STAY = auto()
    FENCE = auto()
    UNFENCE = auto()
    BEGIN_SHUTDOWN = auto()  # move its leaderships away
    SHUTDOWN = auto()  # they are moved, and all others know


def choose_state(
    heartbeat: Heartbeat, broker: BrokerImage, must_apply: int, all_brokers_know: bool
) -> NextState:
    """`all_brokers_know`: all living brokers have applied the move of its leaderships."""
    if broker.fenced:
        if heartbeat.want_shutdown:
            return NextState.SHUTDOWN
        # a broker that was shutting down must register again
        may = not heartbeat.want_fenced and not broker.shutting_down
        return (
            NextState.UNFENCE if may and heartbeat.applied_offset >= must_apply else NextState.STAY
        )
    if heartbeat.want_shutdown:
        if not broker.shutting_down:
            return NextState.BEGIN_SHUTDOWN
        return NextState.SHUTDOWN if all_brokers_know else NextState.STAY
    return NextState.FENCE if heartbeat.want_fenced else NextState.STAY


def decide_allocate_producer_ids(image: MetadataImage, command: AllocateProducerIds) -> Decision:
    """Allocate a block; the reply is a ProducerIdBlock. The caller has checked the epoch."""
    first = image.next_producer_id
    record = ProducerIdsAllocated(command.broker_id, command.broker_epoch, first + PRODUCER_IDS)
    return [record], ProducerIdBlock(first, PRODUCER_IDS)
