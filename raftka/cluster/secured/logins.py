"""A cluster on this machine whose clients log in with a user and a password, with or without TLS:
for tests.

Users are in the cluster's metadata (SCRAM). The nodes and `admin` may also log in with PLAIN: the
brokers need a login before there is any metadata. `admin` may do everything, others what ACLs
allow. With TLS, clients check the brokers' certificates and show none.
"""

import secrets
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from raftka.cluster.secured.keys import ADMIN, AUTHORIZER, ClusterSecurity
from raftka.metadata.records import ScramCredentialSet
from raftka.security.client_security import ClientSecurity
from raftka.security.plain import PLAIN
from raftka.security.scram import NUMBERS, SALT_BYTES, SHA_256, make_credential
from raftka.security.tls_settings import NO_TLS, StoreSettings, TlsSettings

NODE = "node"  # the brokers' user at each other
PASSWORD_BYTES = 18
MODULES = "org.apache.kafka.common.security"
SCRAM_NUMBER = next(number for number, name in NUMBERS.items() if name == SHA_256)


@dataclass(frozen=True, slots=True)
class ClientLogin:
    """One user's name and password, and what each family of clients is configured with."""

    user: str
    password: str = field(repr=False)
    authority: Path | None = None  # None: no TLS

    @property
    def protocol(self) -> str:
        return "SASL_PLAINTEXT" if self.authority is None else "SASL_SSL"

    @property
    def security(self) -> ClientSecurity:
        """For raftka's own client."""
        tls = NO_TLS
        if self.authority is not None:
            tls = TlsSettings(trust_store=StoreSettings(str(self.authority)))
        return ClientSecurity(self.protocol, SHA_256, self.user, self.password, tls)

    def java(self) -> dict[str, str]:
        """Client properties of Java's clients, and of `raftka`."""
        trust = {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority),
        }
        return {
            "security.protocol": self.protocol,
            "sasl.mechanism": SHA_256,
            "sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required "
            f'username="{self.user}" password="{self.password}";',
            **(trust if self.authority is not None else {}),
        }

    def librdkafka(self) -> dict[str, str]:
        """For confluent-kafka, kcat and all other clients on librdkafka."""
        return {
            "security.protocol": self.protocol.lower(),
            "sasl.mechanism": SHA_256,
            "sasl.username": self.user,
            "sasl.password": self.password,
            **({"ssl.ca.location": str(self.authority)} if self.authority is not None else {}),
        }

    def kafka_python(self) -> dict[str, str]:
        """Arguments of KafkaProducer, KafkaConsumer and KafkaAdminClient."""
        return {
            "security_protocol": self.protocol,
            "sasl_mechanism": SHA_256,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
            **({"ssl_cafile": str(self.authority)} if self.authority is not None else {}),
        }

    def aiokafka(self) -> dict[str, object]:
        """Arguments of AIOKafkaProducer, AIOKafkaConsumer and AIOKafkaAdminClient."""
        arguments: dict[str, object] = {**self.kafka_python()}
        if self.authority is not None:
            del arguments["ssl_cafile"]
            arguments["ssl_context"] = ssl.create_default_context(cafile=str(self.authority))
        return arguments


class ClusterLogins:
    """The users of a cluster. `keys`: its certificates; None: no TLS."""

    def __init__(self, keys: ClusterSecurity | None) -> None:
        self._keys = keys
        self._passwords: dict[str, str] = {}
        self.admin = self.login(ADMIN)
        self.login(NODE)

    @property
    def listener(self) -> str:
        """Name and protocol of the listener for clients."""
        return "SASL_PLAINTEXT" if self._keys is None else "SASL_SSL"

    @property
    def first_users(self) -> tuple[ScramCredentialSet, ...]:
        """With which the cluster is formed."""
        return (self.credential_of(ADMIN),)

    def login(self, user: str) -> ClientLogin:
        """Return the login of a user; the password is drawn at the first call."""
        password = self._passwords.setdefault(user, secrets.token_urlsafe(PASSWORD_BYTES))
        authority = self._keys.folder / "ca.pem" if self._keys is not None else None
        return ClientLogin(user, password, authority)

    def credential_of(self, user: str) -> ScramCredentialSet:
        """Return what the cluster keeps of a user's password. Raises KeyError before `login`."""
        made = make_credential(SHA_256, self._passwords[user], secrets.token_bytes(SALT_BYTES))
        return ScramCredentialSet(SCRAM_NUMBER, user, *made)

    def settings_of(self, node_id: int, nodes: int, brokers: int = 1) -> dict[str, str]:
        """Return the settings of a node; make its key where there is TLS."""
        users = " ".join(f'user_{user}="{self._passwords[user]}"' for user in (NODE, ADMIN))
        controller = "PLAINTEXT"
        settings: dict[str, str] = {}
        supers = [f"User:{ADMIN}", f"User:{NODE}"]
        if self._keys is not None:
            controller = "SSL"
            settings = self._keys.settings_of(node_id, nodes, brokers)
            supers.append(settings["super.users"])
            settings |= {
                f"listener.name.{self.listener.lower()}.ssl.client.auth": "none",
                "listener.name.controller.ssl.client.auth": "required",
            }
        return settings | {
            "listener.security.protocol.map": f"{self.listener}:{self.listener},"
            f"CONTROLLER:{controller}",
            "sasl.enabled.mechanisms": f"{SHA_256},{PLAIN}",
            "sasl.mechanism.inter.broker.protocol": PLAIN,
            f"listener.name.{self.listener.lower()}.plain.sasl.jaas.config": (
                f'{MODULES}.plain.PlainLoginModule required username="{NODE}" '
                f'password="{self._passwords[NODE]}" {users};'
            ),
            "authorizer.class.name": AUTHORIZER,
            "super.users": ";".join(dict.fromkeys(supers)),
        }
