"""Requests to the other brokers of the cluster, one connection each over the inter-broker listener.
Knows no API.

Connections open with the first request and close when their broker leaves the cluster or moves. A
broker answers the requests of a connection in their order: requests that wait long at the other
side, as markers do for their replicas, have channels of their own.
"""

from functools import partial

from raftka.broker.context import BrokerContext
from raftka.broker.network.frame_pool import FramePool
from raftka.client.connection import (
    Address,
    ClientConnection,
    Intended,
    OnReply,
    open_connection,
)
from raftka.metadata.image import MetadataImage
from raftka.runtime.interfaces import Timer
from raftka.wire.schema import Api, Req, Resp

RECONNECT_S = (0.05, 1.0)  # after the first failure, at most
SHIFTS = 10


class BrokerChannels:
    def __init__(
        self,
        context: BrokerContext,
        name: str,
        pool: FramePool | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        """`name` is a part of the client id; after `timeout_s` without an answer a connection is
        closed (request.timeout.ms).
        """
        self.context = context
        self.client_id = f"broker-{context.node_id}-{name}"
        self.pool = pool
        self.timeout_s = timeout_s
        self._channels: dict[int, _Channel] = {}

    def ask(
        self,
        broker_id: int,
        api: Api[Req, Resp],
        row: Req,
        on_reply: OnReply[Resp],
        version: int | None = None,
    ) -> None:
        """Call `on_reply` once, in a later turn, with the answer or the reason why there is none:
        then the broker may have carried the request out or not.

        `version` caps the version. Raises ValueError when that version cannot carry the row.
        """
        channel = self._channels.get(broker_id)
        if channel is None:
            channel = self._channels[broker_id] = _Channel(self, broker_id)
        channel.ask(api, row, on_reply, version)

    def address_of(self, broker_id: int) -> Address | None:
        broker = self.context.metadata.image.brokers.get(broker_id)
        endpoint = (
            broker.endpoint(self.context.metadata.settings.inter_broker_listener)
            if broker is not None
            else None
        )
        return (endpoint.host, endpoint.port) if endpoint is not None else None

    def on_image(self, image: MetadataImage) -> None:
        """Close channels to brokers that have gone or moved; retry those that came back."""
        for broker_id, channel in list(self._channels.items()):
            if broker_id not in image.brokers:
                del self._channels[broker_id]
            channel.on_broker(alive=image.alive(broker_id))

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close("this broker stops")
        self._channels.clear()


class _Channel:
    """The connection to one broker."""

    __slots__ = (
        "_address",
        "_asked",
        "_channels",
        "_connect_at",
        "_connection",
        "_failures",
        "_questions",
        "_timer",
        "broker_id",
    )

    def __init__(self, channels: BrokerChannels, broker_id: int) -> None:
        self._channels = channels
        self.broker_id = broker_id
        self._connection: ClientConnection | None = None
        self._address: Address | None = None
        self._connect_at = 0.0
        self._failures = 0
        self._questions = 0
        # requests without an answer, oldest first: when each is too late
        self._asked: dict[int, float] = {}
        self._timer: Timer | None = None

    def ask(
        self, api: Api[Req, Resp], row: Req, on_reply: OnReply[Resp], version: int | None
    ) -> None:
        clock = self._channels.context.runtime.clock
        connection = self._connected()
        if isinstance(connection, str):
            clock.call_at(clock.now(), partial(on_reply, None, connection))
            return
        self._questions += 1
        number = self._questions
        self._asked[number] = clock.now() + self._channels.timeout_s

        def answered(answer: Resp | None, error: str | None) -> None:
            self._asked.pop(number, None)
            if asking:  # there is no version in common
                clock.call_at(clock.now(), partial(on_reply, answer, error))
            else:
                on_reply(answer, error)

        asking = True
        try:
            connection.request(api, row, answered, version)
        except ValueError:
            del self._asked[number]
            raise
        finally:
            asking = False
        self._arm()

    def _connected(self) -> ClientConnection | str:
        """Return the connection, or the reason why there is none."""
        if self._connection is not None:
            return self._connection
        address = self._channels.address_of(self.broker_id)
        if address is None:
            return f"broker {self.broker_id} is not known here"
        context = self._channels.context
        if context.runtime.clock.now() < self._connect_at:
            return f"broker {self.broker_id} could not be reached a moment ago"
        self._address = address
        self._connection = connection = open_connection(
            context.runtime.network,
            address,
            self._channels.client_id,
            on_ready=self._ready,
            on_closed=lambda reason: self._closed(connection),
            pool=self._channels.pool,
            secured=context.secured(),
            intended=Intended.of(context.metadata.image.cluster_id, self.broker_id),
        )
        return connection

    def _ready(self) -> None:
        self._failures = 0

    def _closed(self, connection: ClientConnection) -> None:
        if self._connection is connection:
            first, most = RECONNECT_S
            self._connection = None
            self._connect_at = self._channels.context.runtime.clock.now() + min(
                most, first * 2.0**self._failures
            )
            self._failures = min(self._failures + 1, SHIFTS)

    def on_broker(self, *, alive: bool) -> None:
        """Use the broker's registration, which may have changed."""
        address = self._channels.address_of(self.broker_id)
        if address != self._address:
            self.close("the broker has left the cluster, or has another address")
        if alive:
            self._failures, self._connect_at = 0, 0.0

    def close(self, reason: str) -> None:
        connection, self._connection = self._connection, None  # the next request opens another
        if connection is not None:
            connection.close(reason)

    # time

    def _arm(self) -> None:
        if self._timer is None and self._asked:
            self._timer = self._channels.context.runtime.clock.call_at(
                next(iter(self._asked.values())), self._check
            )

    def _check(self) -> None:
        """Close the connection when the oldest request has waited for too long; no answer can
        overtake it.
        """
        self._timer = None
        oldest = next(iter(self._asked.values()), None)
        if oldest is not None and oldest <= self._channels.context.runtime.clock.now():
            connection, self._connection = self._connection, None
            self._asked.clear()
            if connection is not None:
                self._failures = max(self._failures, 1)
                connection.close(
                    f"no answer from broker {self.broker_id} within {self._channels.timeout_s:g} s"
                )
        self._arm()
