"""The first addresses of a client, and its way in: addresses, and on a secured cluster a user's key
and certificates, for each family of clients.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from raftka.cluster.secured.keys import ClientFiles


@dataclass(frozen=True, slots=True)
class Bootstrap:
    servers: str  # HOST:PORT,...
    files: ClientFiles | None = None  # None: the cluster has no TLS

    def kafka_python(self) -> dict[str, object]:
        return {
            "bootstrap_servers": self.servers,
            **(self.files.kafka_python() if self.files else {}),
        }

    def librdkafka(self) -> dict[str, object]:
        return {
            "bootstrap.servers": self.servers,
            **(self.files.librdkafka() if self.files else {}),
        }

    def aiokafka(self) -> dict[str, object]:
        return {"bootstrap_servers": self.servers, **(self.files.aiokafka() if self.files else {})}

    def java(self) -> Mapping[str, str]:
        """Client properties; Java's tools take the addresses as an argument."""
        return self.files.java() if self.files else {}

    def context(self) -> ssl.SSLContext | None:
        """For a client that wraps its sockets itself."""
        return self.files.context() if self.files else None
