"""The ways into a test's cluster, open, TLS or a login, and the options that clients need.

The certificates and logins themselves are made by raftka/cluster/secured/, which is imported only
where a cluster asks for them.
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from raftka.security.client_security import (
    PLAINTEXT,
    PROTOCOLS,
    ClientSecurity,
    uses_sasl,
    uses_tls,
)

if TYPE_CHECKING:
    from raftka.cluster.secured.keys import ClusterSecurity
    from raftka.cluster.secured.logins import ClusterLogins
    from raftka.metadata.records import ScramCredentialSet

SHORT = {"tls": "SSL", "sasl": "SASL_PLAINTEXT"}


def read_protocol(security: bool | str) -> str:
    """Return Kafka's name of a security protocol; True is SSL. Raises ValueError."""
    if isinstance(security, bool):
        return "SSL" if security else "PLAINTEXT"
    name = SHORT.get(security.lower(), security.upper())
    if name not in PROTOCOLS:
        raise ValueError(
            f"security {security!r}: it is {', '.join(PROTOCOLS)}, or in short "
            f"{' or '.join(SHORT)}; case does not matter"
        )
    return name


class Login(Protocol):
    """One user's certificate or password, in the words of each family of clients."""

    @property
    def security(self) -> ClientSecurity: ...
    def java(self) -> dict[str, str]: ...
    def librdkafka(self) -> dict[str, str]: ...
    def kafka_python(self) -> dict[str, str]: ...
    def aiokafka(self) -> dict[str, object]: ...


class _Open:
    """A cluster that is open to everybody asks for nothing."""

    security = PLAINTEXT

    def java(self) -> dict[str, str]:
        return {}

    librdkafka = kafka_python = java

    def aiokafka(self) -> dict[str, object]:
        return {}


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The whole connection of one user, for each family of clients: the servers, and what their
    security asks for.
    """

    bootstrap_servers: str
    login: Login

    def java(self) -> dict[str, str]:
        """Properties of Java's clients, and of `raftka --command-config`."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.login.java()}

    def librdkafka(self) -> dict[str, str]:
        """For confluent-kafka and all other clients on librdkafka."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.login.librdkafka()}

    def kafka_python(self) -> dict[str, str]:
        """Arguments of KafkaProducer, KafkaConsumer and KafkaAdminClient."""
        return {"bootstrap_servers": self.bootstrap_servers, **self.login.kafka_python()}

    def aiokafka(self) -> dict[str, object]:
        """Arguments of AIOKafkaProducer, AIOKafkaConsumer and AIOKafkaAdminClient."""
        return {"bootstrap_servers": self.bootstrap_servers, **self.login.aiokafka()}


class Access:
    """The keys and users of one cluster; files lie in a folder that `close` removes."""

    def __init__(self, security: bool | str) -> None:
        self.protocol = read_protocol(security)
        self.keys: ClusterSecurity | None = None  # TLS
        self.logins: ClusterLogins | None = None  # SASL
        self._folder: TemporaryDirectory[str] | None = None
        if uses_tls(self.protocol):
            from raftka.cluster.secured import keys

            self._folder = TemporaryDirectory(prefix="raftka-keys-")
            self.keys = keys.ClusterSecurity(Path(self._folder.name))
        if uses_sasl(self.protocol):
            from raftka.cluster.secured import logins

            self.logins = logins.ClusterLogins(self.keys)

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def of_nodes(self) -> "ClusterSecurity | ClusterLogins | None":
        """For `launch`."""
        return self.logins or self.keys

    @property
    def first_users(self) -> "tuple[ScramCredentialSet, ...]":
        return self.logins.first_users if self.logins is not None else ()

    @property
    def certificates(self) -> "ClusterSecurity":
        """Raises ValueError where clients show none."""
        if self.keys is None or self.logins is not None:
            raise ValueError(
                f"clients of a {self.protocol} cluster have no certificates: use "
                "Cluster(security='SSL')"
            )
        return self.keys

    def login(self, user: str) -> Login:
        """Return what that user connects with. A user of SASL may not be in the cluster yet."""
        if self.logins is not None:
            return self.logins.login(user)
        return _Open() if self.keys is None else self.keys.issue(user)
