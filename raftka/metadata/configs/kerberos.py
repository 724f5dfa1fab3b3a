"""Settings of a listener for Kerberos logins: the keys of the node, and the rules that turn
principals into users.
"""

from typing import NamedTuple

from raftka.metadata.configs.prefixes import SERVICE, AtListener
from raftka.metadata.configs.values import SettingError, Values
from raftka.security.jaas import KRB5_MODULE, Jaas
from raftka.security.kerberos.library import KerberosLogin
from raftka.security.kerberos.local_names import LocalRule, parse_local_rules
from raftka.security.kerberos.logins import node_login
from raftka.security.mechanism import GSSAPI


class KerberosSettings(NamedTuple):
    login: KerberosLogin
    realm: str  # the node's own
    rules: tuple[LocalRule, ...]


def kerberos_of(values: Values, listener: str, jaas: Jaas | None) -> KerberosSettings:
    """Raises SettingError. `jaas`: the listener's line for GSSAPI."""
    if jaas is None:
        line = f"listener.name.{listener.lower()}.gssapi.sasl.jaas.config"
        example = (
            f'{KRB5_MODULE} required useKeyTab=true keyTab="/path" principal="kafka/host@REALM";'
        )
        raise SettingError(f"listener {listener}: GSSAPI needs the node's keys: {line}={example}")
    try:
        login = node_login(jaas, service_of(values, listener))
    except ValueError as error:
        raise SettingError(f"listener {listener}: {GSSAPI}: {error}") from None
    rules = AtListener(values, listener, GSSAPI).names("sasl.kerberos.principal.to.local.rules")
    return KerberosSettings(login, login.principal.rpartition("@")[2], parse_local_rules(rules))


def service_of(values: Values, listener: str) -> str | None:
    return AtListener(values, listener, GSSAPI).text(SERVICE)
