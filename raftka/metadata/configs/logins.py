"""Which SASL mechanisms a listener has, and the users of PLAIN: from settings. Knows no connection."""

from collections.abc import Iterable

from raftka.metadata.configs.values import SettingError, Values
from raftka.metadata.image import Endpoint
from raftka.security.client_security import PLAINTEXT, ClientSecurity
from raftka.security.jaas import Jaas, parse_jaas
from raftka.security.plain import PLAIN
from raftka.security.scram import SHA_256, SHA_512

MECHANISMS = (PLAIN, SHA_256, SHA_512)  # that a listener here can have
NO_GSSAPI = "GSSAPI (Kerberos) is not supported; set sasl.enabled.mechanisms to some of " + ", ".join(MECHANISMS)


def uses_sasl(security_protocol: str) -> bool:
    return security_protocol.startswith("SASL_")


def jaas_of(values: Values, listener: str, mechanism: str) -> Jaas | None:
    """The JAAS line of a listener's mechanism; None: there is none that serves it."""
    prefix = f"listener.name.{listener.lower()}."
    own = (values.get(f"{prefix}{mechanism.lower()}.sasl.jaas.config"), values.get(f"{prefix}sasl.jaas.config"))
    text = next((line for line in (*own, values["sasl.jaas.config"]) if line is not None), None)
    if text is None:
        return None
    jaas = parse_jaas(text)
    return jaas if mechanism in jaas.mechanisms else None


def mechanisms_of(values: Values, listener: str) -> tuple[str, ...]:
    own = values.get(f"listener.name.{listener.lower()}.sasl.enabled.mechanisms")
    found: tuple[str, ...] = values["sasl.enabled.mechanisms"] if own is None else own
    return found


def check_logins(values: Values, endpoints: Iterable[Endpoint]) -> None:
    """Raise SettingError for a listener at which nobody could log in."""
    for endpoint in endpoints:
        if not uses_sasl(endpoint.security_protocol):
            continue
        for mechanism in mechanisms_of(values, endpoint.listener):
            if mechanism not in MECHANISMS:
                raise SettingError(f"listener {endpoint.listener}: {NO_GSSAPI if mechanism == 'GSSAPI' else f'there is no mechanism {mechanism}'}")
            if mechanism == PLAIN and jaas_of(values, endpoint.listener, PLAIN) is None:
                name = f"listener.name.{endpoint.listener.lower()}.plain.sasl.jaas.config"
                raise SettingError(f'listener {endpoint.listener}: PLAIN needs its users, user_NAME="PASSWORD" in {name}')


def own_login(values: Values, protocol: str, listener: str, mechanism: str) -> ClientSecurity:
    """How a node connects to others at that listener: username and password of the JAAS line of the listener and the mechanism."""
    if not uses_sasl(protocol):
        return PLAINTEXT
    jaas = jaas_of(values, listener, mechanism)
    options = jaas.options if jaas is not None else {}
    return ClientSecurity(protocol, mechanism, options.get("username", ""), options.get("password", ""))
