"""Security settings of ports without Kafka's protocol: the pages of `metrics.port` and the
ZooKeeper bridge.
"""

from collections.abc import Mapping

from raftka.metadata.configs.values import SettingError, Values
from raftka.security.jaas import JaasError, parse_jaas
from raftka.security.tls_settings import TlsError, TlsSettings

DIGEST_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
SCHEMES = ("digest", "sasl", "x509")  # that a client of the bridge can be made to show
NEEDED = {"sasl": "zookeeper.bridge.sasl.jaas.config", "x509": "zookeeper.bridge.secure.port"}
CLIENT_AUTH = {"need": "required", "want": "requested"}  # ZooKeeper's words for Kafka's


def metrics_tls_of(values: Values) -> TlsSettings:
    """Raises TlsError."""
    own = {
        "ssl.client.auth": values["metrics.ssl.client.auth"],
        "ssl.key.password": values["metrics.ssl.key.password"],
        "ssl.keystore.location": values["metrics.ssl.keystore.location"],
        "ssl.keystore.password": values["metrics.ssl.keystore.password"],
        "ssl.truststore.location": values["metrics.ssl.truststore.location"],
        "ssl.truststore.password": values["metrics.ssl.truststore.password"],
    }
    return _tls_of(values, own)


def bridge_tls_of(values: Values) -> TlsSettings:
    """Raises TlsError."""
    asked = values["zookeeper.bridge.ssl.client.auth"]
    own = {
        "ssl.client.auth": CLIENT_AUTH.get(asked, asked),
        "ssl.key.password": values["zookeeper.bridge.ssl.key.password"],
        "ssl.keystore.location": values["zookeeper.bridge.ssl.keystore.location"],
        "ssl.keystore.password": values["zookeeper.bridge.ssl.keystore.password"],
        "ssl.truststore.location": values["zookeeper.bridge.ssl.truststore.location"],
        "ssl.truststore.password": values["zookeeper.bridge.ssl.truststore.password"],
    }
    return _tls_of(values, own)


def bridge_users_of(text: str | None) -> dict[str, str]:
    """SASL's users of the bridge, with their passwords. Raises JaasError."""
    if text is None:
        return {}
    users = parse_jaas(text, (DIGEST_MODULE,)).users
    if not users:
        raise JaasError('it has no users: user_NAME="PASSWORD"')
    if not all(name and password for name, password in users.items()):
        raise JaasError("a user has no name, or no password")
    return users


def _tls_of(values: Values, own: Mapping[str, str | None]) -> TlsSettings:
    """The port's own settings are stronger than the node's `ssl.*`; a store of its own takes
    nothing from the node's store.
    """

    def value(name: str) -> object:
        if name == "ssl.client.auth" or own.get(name) is not None:
            return own[name]
        of_keys = name.startswith("ssl.keystore.") or name == "ssl.key.password"
        store = (
            "ssl.keystore.location"
            if of_keys
            else "ssl.truststore.location"
            if name.startswith("ssl.truststore.")
            else ""
        )
        return None if own.get(store) is not None else values[name]

    return TlsSettings.of(value)


def check_ports(values: Values) -> None:
    """Raise SettingError for ports that nobody could use, or that somebody meant to be secured and
    that would be open.
    """
    checks = (
        ("metrics.ssl.enable", values["metrics.ssl.enable"], metrics_tls_of),
        (
            "zookeeper.bridge.secure.port",
            values["zookeeper.bridge.secure.port"] is not None,
            bridge_tls_of,
        ),
    )
    for name, given, tls_of in checks:
        if given:
            try:
                tls_of(values)
            except TlsError as error:
                raise SettingError(f"{name}: {error}") from None
    try:
        bridge_users_of(values["zookeeper.bridge.sasl.jaas.config"])
    except JaasError as error:
        raise SettingError(f"zookeeper.bridge.sasl.jaas.config: {error}") from None
    missing = next(
        (
            each
            for each in values["zookeeper.bridge.enforce.auth.schemes"]
            if not _can_be_shown(values, each)
        ),
        None,
    )
    if missing is not None:
        raise SettingError(
            f"zookeeper.bridge.enforce.auth.schemes: nobody can log in by {missing}, for "
            f"{NEEDED[missing]} is not set"
        )
    for name in LOGINS:
        if values[name] is not None and not values[name].strip():
            raise SettingError(f"{name} is empty: take it out, or nobody could log in")


def _can_be_shown(values: Values, scheme: str) -> bool:
    needed = NEEDED.get(scheme)
    return needed is None or values[needed] is not None


LOGINS = (  # who may see the pages, if not everybody
    "metrics.auth.basic.users",
    "metrics.auth.basic.users.location",
    "metrics.auth.bearer.token",
    "metrics.auth.bearer.token.location",
)
