"""Security settings of a listener: TLS, SASL mechanisms, the users of PLAIN."""

from collections.abc import Iterable

from raftka.metadata.configs.kerberos import kerberos_of, service_of
from raftka.metadata.configs.oauth import oauth_of
from raftka.metadata.configs.prefixes import JAAS, MECHANISMS, TOKEN_ENDPOINT, AtListener, own_value
from raftka.metadata.configs.values import SettingError, Values
from raftka.metadata.image import Endpoint
from raftka.security.client_security import (
    PLAINTEXT,
    ClientSecurity,
    is_token,
    token_source,
    uses_sasl,
    uses_tls,
)
from raftka.security.jaas import Jaas, parse_jaas
from raftka.security.kerberos.library import MISSING, is_installed
from raftka.security.kerberos.logins import node_login
from raftka.security.mechanism import GSSAPI
from raftka.security.oauth.oauthbearer import OAUTHBEARER
from raftka.security.plain import PLAIN
from raftka.security.tls_settings import TlsError, TlsSettings

NO_GSSAPI = f"{MISSING}; or set sasl.enabled.mechanisms to some of {', '.join(MECHANISMS[:-1])}"


def tls_of(values: Values, listener: str, security_protocol: str) -> TlsSettings:
    """The listener's own settings are stronger; a login leaves no use for a client's certificate,
    so only the listener's own asks for one.
    """
    strongest = AtListener(values, listener)

    def value(name: str) -> object:
        only_own = name == "ssl.client.auth" and uses_sasl(security_protocol)
        return own_value(values, listener, name) if only_own else strongest[name]

    return TlsSettings.of(value)


def jaas_of(values: Values, listener: str, mechanism: str) -> Jaas | None:
    """The JAAS line of a listener's mechanism; None: there is none that serves it."""
    line = AtListener(values, listener, mechanism)[JAAS]
    if line is None:
        return None
    jaas = parse_jaas(str(line))
    return jaas if mechanism in jaas.mechanisms else None


def mechanisms_of(values: Values, listener: str) -> tuple[str, ...]:
    return AtListener(values, listener).names("sasl.enabled.mechanisms")


def check_logins(values: Values, endpoints: Iterable[Endpoint]) -> None:
    """Raise SettingError for a listener to which nobody could connect, or at which nobody could log
    in.
    """
    for endpoint in endpoints:
        if uses_tls(endpoint.security_protocol):
            try:
                tls_of(values, endpoint.listener, endpoint.security_protocol)
            except TlsError as error:
                raise SettingError(f"listener {endpoint.listener}: {error}") from None
        if not uses_sasl(endpoint.security_protocol):
            continue
        for mechanism in mechanisms_of(values, endpoint.listener):
            if mechanism not in MECHANISMS:
                raise SettingError(
                    f"listener {endpoint.listener}: there is no mechanism {mechanism}"
                )
            if mechanism == PLAIN and jaas_of(values, endpoint.listener, PLAIN) is None:
                name = f"listener.name.{endpoint.listener.lower()}.plain.sasl.jaas.config"
                raise SettingError(
                    f'listener {endpoint.listener}: PLAIN needs its users, user_NAME="PASSWORD" '
                    f"in {name}"
                )
            if mechanism == OAUTHBEARER:
                oauth_of(values, endpoint.listener, jaas_of(values, endpoint.listener, OAUTHBEARER))
            if mechanism == GSSAPI:
                if not is_installed():
                    raise SettingError(f"listener {endpoint.listener}: {NO_GSSAPI}")
                kerberos_of(values, endpoint.listener, jaas_of(values, endpoint.listener, GSSAPI))


def check_controllers(values: Values, endpoints: Iterable[Endpoint]) -> None:
    """Raise SettingError for a controller's listener that could not tell a node from a stranger."""
    check_logins(values, endpoints)
    for endpoint in endpoints:
        name, protocol = endpoint.listener, endpoint.security_protocol
        if protocol == "SSL" and tls_of(values, name, protocol).client_auth != "required":
            raise SettingError(
                f"listener {name}: ssl.client.auth must be required: by their certificates "
                "controllers know the nodes of the cluster"
            )
        if not uses_sasl(protocol):
            continue
        own: str = values["sasl.mechanism.controller.protocol"]
        if own not in mechanisms_of(values, name):
            raise SettingError(
                f"listener {name}: sasl.mechanism.controller.protocol is {own}, which "
                "sasl.enabled.mechanisms does not have"
            )
        for mechanism in mechanisms_of(values, name):
            if mechanism == GSSAPI:
                raise SettingError(
                    f"listener {name}: nodes do not log in at controllers with GSSAPI (Kerberos), "
                    "but with PLAIN or SCRAM"
                )
            jaas = jaas_of(values, name, mechanism)
            if jaas is None or not jaas.users:
                line = f"listener.name.{name.lower()}.{mechanism.lower()}.sasl.jaas.config"
                raise SettingError(
                    f'listener {name}: {mechanism} needs the users of nodes, user_NAME="PASSWORD" '
                    f"in {line}"
                )


def own_login(values: Values, protocol: str, listener: str, mechanism: str) -> ClientSecurity:
    """Return the login with which a node connects to others at that listener, from the JAAS line of
    the listener and the mechanism.
    """
    if protocol == PLAINTEXT.security_protocol:
        return PLAINTEXT
    tls = tls_of(values, listener, protocol) if uses_tls(protocol) else TlsSettings()
    if not uses_sasl(protocol):
        return ClientSecurity(protocol, tls=tls)
    jaas = jaas_of(values, listener, mechanism)
    if mechanism == OAUTHBEARER:
        return ClientSecurity(
            protocol,
            mechanism,
            tls=tls,
            source=token_source(jaas, AtListener(values, listener, mechanism).text(TOKEN_ENDPOINT)),
        )
    if mechanism == GSSAPI:
        try:
            return ClientSecurity(
                protocol,
                mechanism,
                tls=tls,
                kerberos=node_login(jaas, service_of(values, listener))
                if jaas is not None
                else None,
            )
        # set while the node runs: it is told where the listener's own logins are
        except ValueError:
            return ClientSecurity(protocol, mechanism, tls=tls)
    options = jaas.options if jaas is not None else {}
    return ClientSecurity(
        protocol,
        mechanism,
        options.get("username", ""),
        options.get("password", ""),
        tls,
        token_auth=is_token(jaas),
    )
