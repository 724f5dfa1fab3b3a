"""The Kerberos identity of a node or a client, from a JAAS line. The line is data; its module is
known by name and never loaded.
"""

import re

from raftka.security.jaas import Jaas
from raftka.security.kerberos.library import MISSING, KerberosLogin, is_installed
from raftka.security.kerberos.local_names import PRINCIPAL

SERVICE = "sasl.kerberos.service.name"


def node_login(jaas: Jaas, service: str | None) -> KerberosLogin:
    """Of a node, which has a keytab. `service`: of the settings. Raises ValueError."""
    keytab = _keytab(jaas)
    if not keytab:
        raise ValueError(
            'the JAAS line must have useKeyTab=true and keyTab="/path": tickets and passwords are '
            "no keys for a node"
        )
    principal = jaas.options.get("principal", "")
    match = PRINCIPAL.fullmatch(principal)
    if match is None or match[2] is None:
        raise ValueError('the JAAS line must have principal="service/host@REALM", with its realm')
    wanted = service or jaas.options.get("serviceName") or match[1]
    if wanted != match[1]:
        raise ValueError(f"the principal {principal} is not one of {SERVICE}, {wanted}")
    return KerberosLogin(wanted, principal, keytab)


def client_login(jaas: Jaas | None, service: str | None) -> KerberosLogin:
    """Of a client: with a keytab, or with the tickets that `kinit` got. Raises ValueError."""
    if not is_installed():
        raise ValueError(MISSING)
    options = jaas.options if jaas is not None else {}
    name = service or options.get("serviceName")
    if not name:
        raise ValueError(f"GSSAPI needs the first part of the brokers' principals, {SERVICE}")
    keytab = _keytab(jaas) if jaas is not None else ""
    if keytab and not options.get("principal"):
        raise ValueError("a keytab in sasl.jaas.config needs a principal beside it")
    return (
        KerberosLogin(name, options.get("principal", ""), keytab) if keytab else KerberosLogin(name)
    )


def _keytab(jaas: Jaas) -> str:
    """The path, which is absolute: the library takes other things than files by their prefix.
    Empty: none.
    """
    if jaas.options.get("useKeyTab", "").lower() != "true":
        return ""
    path = re.sub(r"^file:(//)?", "", jaas.options.get("keyTab", ""), flags=re.IGNORECASE)
    if not path.startswith("/"):
        raise ValueError('keyTab in the JAAS line must be an absolute path, "/path"')
    return path
