"""How a client connects to brokers: Kafka's `security.protocol` and what goes with it. Knows no connection."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from raftka.security.jaas import parse_jaas
from raftka.security.mechanism import ClientMechanism
from raftka.security.plain import PLAIN, PlainClient
from raftka.security.scram import HASHES, ScramClient
from raftka.security.tls_settings import TlsSettings

NONCE_BYTES = 18
NO_TLS = TlsSettings()
MECHANISMS = (PLAIN, *HASHES)


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    security_protocol: str = "PLAINTEXT"
    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    tls: TlsSettings = NO_TLS

    @property
    def uses_tls(self) -> bool:
        return uses_tls(self.security_protocol)

    def login(self, random: Random) -> Callable[[], ClientMechanism] | None:
        """What begins a login; None where there is none. `random`: for nonces."""
        if not uses_sasl(self.security_protocol):
            return None

        def begin() -> ClientMechanism:
            if self.mechanism == PLAIN:
                return PlainClient(self.user, self.password)
            return ScramClient(self.mechanism, self.user, self.password, random.randbytes(NONCE_BYTES).hex())

        return begin


PLAINTEXT = ClientSecurity()
PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")


def uses_sasl(security_protocol: str) -> bool:
    return security_protocol.startswith("SASL_")


def uses_tls(security_protocol: str) -> bool:
    return security_protocol.endswith("SSL")


def client_security(properties: Mapping[str, str]) -> ClientSecurity:
    """Of Kafka's client properties: `security.protocol`, `ssl.*`, `sasl.mechanism`, and `sasl.jaas.config` or `sasl.username` and `sasl.password`.

    Properties that have nothing to do with security are left alone. Raises ValueError, without any secret in its text.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise ValueError(f"security.protocol must be {' or '.join(PROTOCOLS)}")
    tls = TlsSettings.of(properties.get) if uses_tls(protocol) else TlsSettings()
    if not uses_sasl(protocol):
        return ClientSecurity(protocol, tls=tls)
    mechanism = properties.get("sasl.mechanism", "")
    if mechanism not in MECHANISMS:
        raise ValueError(f"sasl.mechanism must be {', '.join(MECHANISMS)}")
    user, password = properties.get("sasl.username"), properties.get("sasl.password")
    if "sasl.jaas.config" in properties:
        jaas = parse_jaas(properties["sasl.jaas.config"])
        if mechanism not in jaas.mechanisms:
            raise ValueError(f"the login module of sasl.jaas.config is not one for {mechanism}")
        user, password = jaas.options.get("username"), jaas.options.get("password")
    if not user or password is None:
        raise ValueError("sasl.jaas.config must have a username and a password")
    return ClientSecurity(protocol, mechanism, user, password, tls)
