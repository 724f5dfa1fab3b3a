"""The SQL server behind the console's page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from raftka.client.connection import Address as Broker
from raftka.sql.client import Connection, connect_wanted
from raftka.sql.server.folder import Address
from raftka.sql.server.launch import Wanted

LOOPBACK = ("127.0.0.1", "::1", "[::1]")
PATIENCE_S = 10.0  # for the answers that a page shows


@dataclass(frozen=True, slots=True)
class SqlTarget:
    """The server of the user who runs the console, or one that was started by hand."""

    wanted: Wanted | None = None  # found or started, as the prompt does
    address: Address | None = None  # in place of this: of a server by hand

    def connect(self) -> Connection:
        """Return a way to the server, which is started where none runs. Raises SqlError. Blocks."""
        if self.address is not None:
            return Connection(self.address)
        assert self.wanted is not None, "a target is one of the two"
        return connect_wanted(self.wanted)

    def running(self) -> Connection | None:
        """Return a way to the server, with the patience of a page; None: none was started."""
        address = self.address
        if address is None:
            assert self.wanted is not None, "a target is one of the two"
            address = self.wanted.folder.address()
        return None if address is None else Connection(address, patience_s=PATIENCE_S)


def wanted_of(brokers: Sequence[Broker], properties: Mapping[str, str]) -> Wanted:
    """Return the server that `raftka sql` would use for these brokers. `properties`: of a client,
    with the defaults among them.
    """
    hosts = [("localhost" if host in LOOPBACK else host, port) for host, port in brokers]
    own = {name: value for name, value in properties.items() if name != "bootstrap.servers"}
    if own == {"security.protocol": "PLAINTEXT"}:
        own = {}
    return Wanted(",".join(f"{host}:{port}" for host, port in hosts), own)
