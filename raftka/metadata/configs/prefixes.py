"""Settings with a listener's prefix, and a mechanism's behind it: which there are, their
precedence, and which of them a node uses.

Stronger first, as in Kafka: `listener.name.L.MECHANISM.NAME`, `listener.name.L.NAME`, `NAME`.
Listeners and mechanisms are in lower case.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from raftka.metadata.configs.names import KAFKA
from raftka.metadata.configs.values import Values
from raftka.metadata.image import Endpoint
from raftka.security.client_security import uses_sasl, uses_tls
from raftka.security.mechanism import GSSAPI
from raftka.security.oauth.oauthbearer import OAUTHBEARER
from raftka.security.plain import PLAIN
from raftka.security.scram import SHA_256, SHA_512
from raftka.security.tls_settings import NAMES as TLS_NAMES

LISTENER = "listener.name."
MECHANISMS = (PLAIN, SHA_256, SHA_512, OAUTHBEARER, GSSAPI)  # that a listener here can have
JAAS, REAUTH = "sasl.jaas.config", "connections.max.reauth.ms"
TOKEN_ENDPOINT, SERVICE = "sasl.oauthbearer.token.endpoint.url", "sasl.kerberos.service.name"

# one listener's or not, for all brokers too
OF_ALL_LISTENERS = frozenset(
    {"max.connections", "max.connection.creation.rate", "num.network.threads"}
)
OF_TOKENS = frozenset(  # how tokens are checked
    {
        "sasl.server.callback.handler.class",
        "sasl.oauthbearer.allow.unverified.audience",
        "sasl.oauthbearer.allow.unverified.issuer",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
    }
)
# a user who could change these at run time would decide who everybody is
ONLY_OF_FILE = OF_TOKENS | {TOKEN_ENDPOINT}
# before the client has named its mechanism
OF_SASL = frozenset({"sasl.enabled.mechanisms", "sasl.server.max.receive.size"})
OF_EACH_MECHANISM = frozenset({JAAS, REAUTH})
OF_MECHANISM = {
    **dict.fromkeys((PLAIN, SHA_256, SHA_512), OF_EACH_MECHANISM),
    OAUTHBEARER: OF_EACH_MECHANISM | ONLY_OF_FILE,
    GSSAPI: OF_EACH_MECHANISM | {"sasl.kerberos.principal.to.local.rules", SERVICE},
}
OF_LISTENER = (
    OF_ALL_LISTENERS | frozenset(TLS_NAMES) | OF_SASL | frozenset().union(*OF_MECHANISM.values())
)

OF_SERVER_SIDE = {"ssl.client.auth", "ssl.principal.mapping.rules"}
OF_CLIENT_SIDE = {"ssl.endpoint.identification.algorithm"}
_BY_LOWER_NAME = {mechanism.lower(): mechanism for mechanism in MECHANISMS}
_KNOWN = frozenset(line.split()[0] for line in KAFKA.strip().splitlines())
_MOST_PARTS = max(name.count(".") + 1 for name in _KNOWN)


class Prefixed(NamedTuple):
    """The parts of a name. `setting` is any text: a plugin's, or a mistake."""

    listener: str
    mechanism: str | None  # as Kafka writes it; None: the listener's own
    setting: str

    @property
    def is_looked_up(self) -> bool:
        """Return whether a node with that listener and that mechanism could use it."""
        return self.setting in (
            OF_LISTENER if self.mechanism is None else OF_MECHANISM[self.mechanism]
        )


def split_prefix(name: str) -> Prefixed | None:
    """Split a name into its parts; None: it has no listener's prefix."""
    parts = name.removeprefix(LISTENER).split(".")
    if not name.startswith(LISTENER) or len(parts) < 2:
        return None
    first = max(1, len(parts) - _MOST_PARTS)  # a listener's name may have dots
    begin = next(
        (at for at in range(first, len(parts)) if ".".join(parts[at:]) in _KNOWN),
        2 if parts[1] in _BY_LOWER_NAME else 1,
    )
    mechanism = _BY_LOWER_NAME.get(parts[begin - 1]) if begin > 1 else None
    return Prefixed(
        ".".join(parts[: begin - (mechanism is not None)]), mechanism, ".".join(parts[begin:])
    )


class AtListener:
    """Values of settings at a listener, for one of its mechanisms or for none, the strongest of
    each.
    """

    def __init__(self, values: Values, listener: str, mechanism: str = "") -> None:
        own = f"{LISTENER}{listener.lower()}."
        self._values = values
        self._prefixes = (f"{own}{mechanism.lower()}.", own, "") if mechanism else (own, "")

    def __getitem__(self, name: str) -> object:
        return next(
            (
                value
                for prefix in self._prefixes
                if (value := self._values.get(prefix + name)) is not None
            ),
            None,
        )

    def number(self, name: str) -> int:
        value = self[name]
        assert isinstance(value, int)
        return value

    def text(self, name: str) -> str | None:
        """Return None for an empty text too."""
        value = self[name]
        return None if value in (None, "") else str(value)

    def names(self, name: str) -> tuple[str, ...]:
        value = self[name]
        return value if isinstance(value, tuple) else ()


def own_value(values: Values, listener: str, name: str) -> object:
    """Return the listener's own value; None: it has none."""
    return values.get(f"{LISTENER}{listener.lower()}.{name}")


def names_in_use(
    values: Values,
    clients: Iterable[Endpoint],
    controllers: Iterable[Endpoint],
    dialed: Iterable[tuple[str, str, str]],
) -> frozenset[str]:
    """Return every prefixed name that a node with these listeners looks up. `dialed`: name,
    security protocol and mechanism of its connections.
    """
    found: set[str] = set()
    for endpoint in clients:
        found.update(_named(endpoint.listener, OF_ALL_LISTENERS - {"num.network.threads"}))
        found.update(_served(values, endpoint))
    for endpoint in controllers:
        of_logins = {
            f"{LISTENER}{endpoint.listener.lower()}.{name}"
            for name in ("sasl.enabled.mechanisms", JAAS)
        }
        names = set(_served(values, endpoint))
        found.update(
            name
            for name in names
            if ".ssl." in name or name in of_logins or name.endswith(f".{JAAS}")
        )
    for listener, protocol, mechanism in dialed:
        if uses_tls(protocol):
            found.update(_named(listener, TLS_NAMES, OF_SERVER_SIDE))
        if uses_sasl(protocol):
            for name in {
                JAAS,
                *({TOKEN_ENDPOINT, SERVICE} & OF_MECHANISM.get(mechanism, frozenset())),
            }:
                found.update(_at_both(listener, mechanism, name))
    return frozenset(found)


def _served(values: Values, endpoint: Endpoint) -> Iterator[str]:
    """Names that the side which accepts connections looks up."""
    listener, with_sasl = endpoint.listener, uses_sasl(endpoint.security_protocol)
    if uses_tls(endpoint.security_protocol):
        yield from _named(
            listener,
            TLS_NAMES,
            OF_CLIENT_SIDE | ({"ssl.principal.mapping.rules"} if with_sasl else set()),
        )
    if not with_sasl:
        return
    yield from _named(listener, OF_SASL)
    for mechanism in AtListener(values, listener).names("sasl.enabled.mechanisms"):
        for name in OF_MECHANISM.get(mechanism, frozenset()) - {TOKEN_ENDPOINT}:
            yield from _at_both(listener, mechanism, name)


def _named(listener: str, names: Iterable[str], without: Iterable[str] = ()) -> Iterator[str]:
    return (f"{LISTENER}{listener.lower()}.{name}" for name in names if name not in without)


def _at_both(listener: str, mechanism: str, name: str) -> tuple[str, str]:
    own = f"{LISTENER}{listener.lower()}."
    return f"{own}{mechanism.lower()}.{name}", own + name
