"""Client instances by Kafka's rules (KIP-714): ids, subscriptions, and when a client may ask and
push. Knows no metric and no connection's bytes.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from math import inf
from random import Random

from raftka.broker.client_metrics.subscriptions import (
    Requested,
    Subscription,
    requested_of,
    subscription_id_of,
)
from raftka.coordinator.timers import Timer, Timers
from raftka.limits import CLIENT_METRICS_INSTANCES, Limit
from raftka.wire.errors import Code, KafkaError

ZERO = bytes(16)
RESERVED = (ZERO, bytes(15) + b"\1")  # ids that Kafka gives to nothing
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
ACCEPTED = (ZSTD, LZ4, GZIP, SNAPPY)
CODECS = (0, *ACCEPTED)
SILENT_S = 60.0  # a client leaves after so long without a request, or after three intervals
INTERVALS = 3
# after these the client may ask for its subscription at once
MAY_ASK = (Code.UNKNOWN_SUBSCRIPTION_ID, Code.UNSUPPORTED_COMPRESSION_TYPE)

Fields = Mapping[str, str | None]  # of a client, by the names that `match` has
FieldsOf = Callable[[bytes], Fields]  # of the client that asks, with this instance id


@dataclass(slots=True)
class Instance:
    """One client, until its connection closes, it is silent too long, or subscriptions change."""

    instance_id: bytes
    fields: Fields
    connection: Hashable
    version: int  # of the subscriptions
    requested: Requested
    subscription_id: int
    timer: Timer  # its owner is the instance id
    asked_at: float = field(default=-inf)
    pushed_at: float = field(default=-inf)
    is_terminating: bool = False
    last_error: Code = Code.NONE

    @property
    def interval_s(self) -> float:
        return self.requested.interval_ms / 1000

    @property
    def silent_s(self) -> float:
        """The time without a request after which the client is forgotten, in seconds."""
        return max(SILENT_S, INTERVALS * self.interval_s)

    def may_ask(self, now: float) -> bool:
        if now - max(self.asked_at, self.pushed_at) >= self.interval_s:
            self.asked_at = now
            return True
        return self.last_error in MAY_ASK

    def may_push(self, now: float) -> bool:
        """Return whether a push is not too early: the first one after a subscription is not."""
        if self.asked_at > self.pushed_at or now - self.pushed_at >= self.interval_s:
            self.pushed_at = now
            return True
        return False


class Instances:
    def __init__(self, random: Random, hit: Callable[[Limit], None]) -> None:
        """`hit` hears of the limit when a client leaves for another."""
        self._random = random
        self._hit = hit
        self._subscriptions: tuple[Subscription, ...] = ()
        self._version = 0
        self._known: dict[bytes, Instance] = {}  # in the order of their last requests
        self._timers = Timers()
        self._of_connection: dict[Hashable, bytes] = {}  # the last one of each

    def __len__(self) -> int:
        return len(self._known)

    def subscribe(self, subscriptions: tuple[Subscription, ...]) -> None:
        """Replace the subscriptions. Each client gets its own anew with its next request."""
        self._subscriptions = subscriptions
        self._version += 1

    def ask(
        self, instance_id: bytes, fields: FieldsOf, connection: Hashable, now: float
    ) -> Instance:
        """Return the client with its subscription; a zero id gets a new one. Raises
        THROTTLING_QUOTA_EXCEEDED before the push interval has passed.
        """
        if instance_id == ZERO:
            instance_id = self._new_id()
        instance = self._instance(instance_id, fields, connection, now)
        if not instance.may_ask(now):
            raise KafkaError(Code.THROTTLING_QUOTA_EXCEEDED)
        instance.last_error = Code.NONE
        return instance

    def push(
        self,
        instance_id: bytes,
        fields: FieldsOf,
        connection: Hashable,
        now: float,
        *,
        subscription_id: int,
        is_terminating: bool,
        codec: int,
        size_bytes: int,
        most_bytes: int,
    ) -> Instance:
        """Return the client whose push is to be taken. Raises KafkaError by Kafka's rules, in
        Kafka's order.
        """
        if instance_id in RESERVED:
            raise KafkaError(Code.INVALID_REQUEST)
        instance = self._instance(instance_id, fields, connection, now)
        code = Code.NONE
        if instance.is_terminating:
            code = Code.INVALID_REQUEST
        elif not instance.may_push(now) and not is_terminating:
            code = Code.THROTTLING_QUOTA_EXCEEDED
        elif subscription_id != instance.subscription_id:
            code = Code.UNKNOWN_SUBSCRIPTION_ID
        elif codec not in CODECS:
            code = Code.UNSUPPORTED_COMPRESSION_TYPE
        elif size_bytes > most_bytes:
            code = Code.TELEMETRY_TOO_LARGE
        instance.is_terminating = is_terminating
        instance.last_error = code
        if code != Code.NONE:
            raise KafkaError(code)
        return instance

    def close(self, connection: Hashable) -> None:
        """Forget the client that asked last over this connection, as Kafka does."""
        instance_id = self._of_connection.get(connection)
        if instance_id is not None:
            self._forget(instance_id)

    def expire(self, now: float) -> None:
        """Forget the clients that are silent for too long."""
        while (timer := self._timers.due(now)) is not None:
            timer.ring(timer.owner)

    def next_expiry(self) -> float:
        """Return a time before which no client expires, inf if there is no client."""
        return self._timers.next()

    def _new_id(self) -> bytes:
        while True:
            instance_id = self._random.randbytes(16)
            # a UUID of version 4, as Java's
            instance_id = (
                instance_id[:6]
                + bytes(
                    [instance_id[6] & 0x0F | 0x40, instance_id[7], instance_id[8] & 0x3F | 0x80]
                )
                + instance_id[9:]
            )
            if instance_id not in self._known:
                return instance_id

    def _instance(
        self, instance_id: bytes, fields: FieldsOf, connection: Hashable, now: float
    ) -> Instance:
        instance = self._known.pop(instance_id, None)
        if instance is None or instance.version < self._version:
            # the names in the client's first request count until it is forgotten
            client = fields(instance_id) if instance is None else instance.fields
            if instance is not None:
                self._leave(instance)
            requested = requested_of(self._subscriptions, client)
            instance = Instance(
                instance_id,
                client,
                connection,
                self._version,
                requested,
                subscription_id_of(requested, instance_id),
                Timer(instance_id, self._forget) if instance is None else instance.timer,
            )
            self._of_connection[connection] = instance_id
            if len(self._known) >= CLIENT_METRICS_INSTANCES.value:
                self._hit(CLIENT_METRICS_INSTANCES)
                self._forget(next(iter(self._known)))
        self._known[instance_id] = instance
        self._timers.set(instance.timer, now + instance.silent_s)
        return instance

    def _forget(self, instance_id: bytes) -> None:
        instance = self._known.pop(instance_id)
        self._leave(instance)
        self._timers.off(instance.timer)

    def _leave(self, instance: Instance) -> None:
        """Let the connection of the instance stand for it no more."""
        if self._of_connection.get(instance.connection) == instance.instance_id:
            del self._of_connection[instance.connection]
