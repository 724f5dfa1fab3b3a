"""Client properties that secure a connection here, those that are passed over, and those that are
refused by name: a typing mistake must not open it.

Passed over: what tunes Java's own TLS, logins or Kerberos ticket, and all that has nothing to do
with security, as of producers and consumers; Kafka's own classes of logins, too. Refused: other
classes, other sources of tokens, and names of security that no client of Kafka's has.
"""

from collections.abc import Mapping
from difflib import get_close_matches

from raftka.security.tls_settings import NAMES as TLS_NAMES

USED = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
    "sasl.kerberos.service.name",
    "sasl.oauthbearer.token.endpoint.url",
    *TLS_NAMES,
)
PASSED_OVER = (
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
)
# Kafka's own classes do what the client does here; another class cannot be loaded.
CLASSES = (
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "ssl.engine.factory.class",
)
KAFKAS_OWN = "org.apache.kafka."
OF_SECURITY = ("security.", "ssl.", "sasl.")
ALIKE = 0.85  # how much a name must look like one of USED to be taken for a mistake


def is_of_security(name: str) -> bool:
    """Return whether a client of Kafka's has this property for its connections' security."""
    return name in USED or name in PASSED_OVER or name in CLASSES


def check_client_properties(properties: Mapping[str, str]) -> None:
    """Raise ValueError for a property that would be of security and has no effect."""
    for name, value in properties.items():
        if name in USED or name in PASSED_OVER:
            continue
        if name in CLASSES and value.strip().startswith(KAFKAS_OWN):
            continue
        nearest = get_close_matches(name, USED, n=1, cutoff=ALIKE)
        if nearest or name.startswith(OF_SECURITY):
            raise ValueError(
                f"the client property {name} is not one of ours"
                + (f"; did you mean {nearest[0]}?" if nearest else "")
            )
