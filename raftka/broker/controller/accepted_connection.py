"""A connection that a controllers' listener has accepted. Its first bytes tell whether the other
side is a node (peer.py) or a Kafka client. Sans-IO.

Both protocols begin with a size of four bytes. A frame of Kafka goes on with an API key below 256,
so with a zero; a message between nodes with a list of msgpack. The listener's TLS is around both.
"""

from collections.abc import Callable

from raftka.broker.controller.peer import Peer
from raftka.broker.network.connection import Parts, ServerConnection
from raftka.runtime.interfaces import Connection, Transport
from raftka.security.tls_connection import RefusedByName

SIZE_BYTES = 4
KAFKA = 0  # the byte behind the size


class AcceptedConnection:
    """`make_client`: makes the connection of a Kafka client, or returns None: there are too many.
    It may raise RefusedByName.
    """

    def __init__(
        self,
        peer: Peer,
        make_client: Callable[["AcceptedConnection"], ServerConnection | None],
    ) -> None:
        self.peer = peer
        self.name: Callable[[], str] | None = None  # the user of a certificate, by the rules
        self._make_client = make_client
        self._inner: Connection = peer
        self._transport: Transport | None = None
        self._first = bytearray()  # until they tell
        self._told = False

    def opened(self, transport: Transport) -> None:
        self._transport = transport
        self.peer.opened(transport)

    def room(self) -> memoryview | None:
        return self._inner.room()

    def receive(self, view: memoryview) -> None:
        if self._told:
            self._inner.receive(view)
            return
        first = self._first
        first += view
        if view and len(first) <= SIZE_BYTES:
            return
        self._told = True
        if len(first) > SIZE_BYTES and first[SIZE_BYTES] == KAFKA and not self._becomes_client():
            return
        self._first = bytearray()
        if first:
            self._inner.receive(memoryview(first))
        if not view:
            self._inner.receive(view)

    def take_output(self) -> Parts:
        return self._inner.take_output()

    def closed(self, reason: str) -> None:
        self._transport = None
        self._inner.closed(reason)

    def _becomes_client(self) -> bool:
        """Hand the connection to a Kafka client's side; return False if it is refused."""
        try:
            client = self._make_client(self)
            reason = "there are too many connections"
        except RefusedByName as error:
            client, reason = None, str(error)
        if client is None or self._transport is None:
            self.peer.close(f"refused: {reason}")
            return False
        self.peer.leave()
        self._inner = client
        client.opened(self._transport)
        return True
