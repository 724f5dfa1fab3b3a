"""Settings with a prefix: every name that Kafka takes for a listener or a mechanism, in every
place: it counts, or the node says that it does not.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from raftka.metadata.configs import logins, prefixes
from raftka.metadata.configs.broker import BROKER_SETTINGS
from raftka.metadata.configs.dynamic import check_dynamic_configs, check_places
from raftka.metadata.configs.kerberos import kerberos_of
from raftka.metadata.configs.logins import jaas_of, mechanisms_of, tls_of
from raftka.metadata.configs.oauth import HANDLERS, oauth_of
from raftka.metadata.configs.prefixes import (
    LISTENER,
    MECHANISMS,
    OF_ALL_LISTENERS,
    OF_MECHANISM,
    ONLY_OF_FILE,
    AtListener,
    Prefixed,
    split_prefix,
)
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.configs.values import SettingError, Type
from raftka.metadata.image import BROKER, MetadataImage
from raftka.metadata.records import ConfigSet
from raftka.security.mechanism import GSSAPI
from raftka.security.oauth.oauthbearer import OAUTHBEARER
from raftka.security.plain import PLAIN
from raftka.security.tls_settings import NAMES as TLS_NAMES

# What Kafka 4.3.1 reads through a listener's prefix: SslConfigs, SaslConfigs,
# BrokerSecurityConfigs, and the limits of SocketServer.
KAFKA = [name for name in BROKER_SETTINGS if name.startswith(("ssl.", "sasl."))]
KAFKA += [
    "principal.builder.class",
    "connections.max.reauth.ms",
    "max.connections",
    "max.connection.creation.rate",
    "num.network.threads",
]
# Kafka has no prefix for these
NODE_WIDE = [
    "connections.max.idle.ms",
    "connection.failed.authentication.delay.ms",
    "max.connections.per.ip",
]

PLAIN_LINE = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="n" password="s" '
    'user_n="s";'
)
TOKEN_LINE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
KERBEROS_LINE = (
    "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
    'keyTab="/keys" principal="kafka/h@HOME";'
)
LINES = {PLAIN: PLAIN_LINE, OAUTHBEARER: TOKEN_LINE, GSSAPI: KERBEROS_LINE}
FILE = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "IN.SIDE://h:9092,CLEAR://h:9091,CONTROLLER://h:9093",
    "listener.security.protocol.map": "IN.SIDE:SASL_SSL,CLEAR:PLAINTEXT,CONTROLLER:SSL",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@h:9093",
    "inter.broker.listener.name": "IN.SIDE",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER,GSSAPI",
    "ssl.keystore.location": "/node.pem",
    "ssl.truststore.location": "/ca.pem",
    "ssl.client.auth": "required",
    "listener.name.in.side.plain.sasl.jaas.config": PLAIN_LINE,
    "listener.name.in.side.oauthbearer.sasl.jaas.config": TOKEN_LINE,
    "listener.name.in.side.gssapi.sasl.jaas.config": KERBEROS_LINE,
    "sasl.oauthbearer.jwks.endpoint.url": "file:///keys.json",
    "sasl.oauthbearer.expected.audience": "kafka",
    "sasl.oauthbearer.expected.issuer": "https://issuer",
}
STORES = {
    "ssl.keystore.key": "k",
    "ssl.keystore.certificate.chain": "c",
    "ssl.truststore.certificates": "c",
}
INLINE = {
    name: text for name, text in {**FILE, **STORES}.items() if not name.endswith("store.location")
}


@pytest.fixture(autouse=True)
def _with_kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "is_installed", lambda: True)


def node(changes: Mapping[str, str] | None = None) -> NodeSettings:
    return NodeSettings.from_properties({**FILE, **(changes or {})})


def text_for(name: str, mechanism: str | None, number: int = 7) -> str:
    """Return a valid value that differs from the default, by number."""
    setting = BROKER_SETTINGS[name]
    chosen = {
        "sasl.jaas.config": LINES.get(mechanism or PLAIN, PLAIN_LINE),
        "sasl.enabled.mechanisms": ("PLAIN", "PLAIN,GSSAPI")[number % 2],
        "sasl.server.callback.handler.class": HANDLERS[0],
        "sasl.oauthbearer.jwks.endpoint.url": f"file:///keys{number}.json",
        "sasl.oauthbearer.jwt.validator.class": (
            "org.apache.kafka.common.security.oauthbearer."
            f"{('Default', 'Broker')[number % 2]}JwtValidator"
        ),
        "sasl.kerberos.principal.to.local.rules": ("DEFAULT", "RULE:[1:$1]")[number % 2],
        "sasl.kerberos.service.name": "kafka",
        "ssl.client.auth": ("requested", "required")[number % 2],
        "ssl.enabled.protocols": ("TLSv1.2", "TLSv1.3")[number % 2],
        "ssl.principal.mapping.rules": ("DEFAULT", "RULE:^CN=(.*)$/$1/")[number % 2],
        "ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    }
    if name in chosen:
        return chosen[name]
    if name.endswith("store.type"):
        return ("PEM", "PKCS12")[number % 2]
    if setting.type is Type.BOOLEAN:
        return ("true", "false")[number % 2]
    if setting.type in (Type.INT, Type.SHORT, Type.LONG, Type.DOUBLE):
        return str(10000 + number)
    return f"/x{number}"


def in_every_place() -> Iterator[tuple[str, str, str | None]]:
    """The full name, the setting and the mechanism."""
    for name in KAFKA + NODE_WIDE:
        for mechanism in (None, *MECHANISMS):
            yield (
                f"{LISTENER}in.side.{'' if mechanism is None else mechanism.lower() + '.'}{name}",
                name,
                mechanism,
            )


class Recorder(dict[str, Any]):
    """Values that remember the names under which they were looked up."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.asked.add(name)
        return super().get(name, default)


EVERY_PLACE = list(in_every_place())


@pytest.mark.parametrize(
    ("full", "name", "mechanism"), EVERY_PLACE, ids=[full for full, _, _ in EVERY_PLACE]
)
def test_prefixed_setting_counts_or_is_named_as_unused(
    full: str, name: str, mechanism: str | None
) -> None:
    basis = (
        INLINE
        if name
        in ("ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.certificates")
        else FILE
    )
    settings = NodeSettings.from_properties({**basis, full: text_for(name, mechanism)})

    assert (full in settings.unused) == (full not in looked_up(settings)), (
        "the node says what is true"
    )
    if full not in settings.unused:
        assert settings.values[full] == BROKER_SETTINGS[name].parse(text_for(name, mechanism))


def looked_up(settings: NodeSettings) -> set[str]:
    """Return the names that the code which secures this node's listeners, and its connections, asks
    for.
    """
    values = Recorder(settings.values)
    for endpoint in settings.listeners:
        at = AtListener(values, endpoint.listener)
        for limit in ("max.connections", "max.connection.creation.rate"):
            prefixes.own_value(values, endpoint.listener, limit)
        if endpoint.security_protocol == "PLAINTEXT":
            continue
        tls_of(values, endpoint.listener, endpoint.security_protocol)
        at.number("sasl.server.max.receive.size")
        for mechanism in mechanisms_of(values, endpoint.listener):
            jaas = jaas_of(values, endpoint.listener, mechanism)
            AtListener(values, endpoint.listener, mechanism).number("connections.max.reauth.ms")
            if mechanism == OAUTHBEARER:
                oauth_of(values, endpoint.listener, jaas)
            if mechanism == GSSAPI:
                kerberos_of(values, endpoint.listener, jaas)
    logins.own_login(values, "SASL_SSL", "IN.SIDE", PLAIN)
    return {name for name in values.asked if name.startswith(LISTENER)}


def test_mechanism_beats_listener_and_listener_beats_node() -> None:
    for name in prefixes.OF_LISTENER:
        setting, own = BROKER_SETTINGS[name], f"{LISTENER}in.side.{name}"
        values = {
            name: setting.parse(text_for(name, None, 2)),
            own: setting.parse(text_for(name, None, 3)),
        }
        assert AtListener(values, "IN.SIDE")[name] == values[own]
        assert AtListener(values, "OTHER")[name] == values[name]
    for mechanism, names in OF_MECHANISM.items():
        for name in names - {"sasl.jaas.config"}:
            own = f"{LISTENER}in.side.{name}"
            of_mechanism = f"{LISTENER}in.side.{mechanism.lower()}.{name}"
            setting = BROKER_SETTINGS[name]
            texts = {
                name: text_for(name, mechanism, 2),
                own: text_for(name, mechanism, 3),
                of_mechanism: text_for(name, mechanism, 4),
            }
            for given in ((name,), (name, own), (name, own, of_mechanism)):
                values = {each: setting.parse(texts[each]) for each in given}
                assert AtListener(values, "IN.SIDE", mechanism)[name] == values[given[-1]], given
            others = {
                name: setting.parse(texts[name]),
                of_mechanism: setting.parse(texts[of_mechanism]),
            }
            assert AtListener(others, "OTHER", mechanism)[name] == others[name], (
                "another listener's"
            )
            assert AtListener(others, "IN.SIDE")[name] == others[name], "a mechanism's"


@pytest.mark.parametrize(
    ("full", "name", "mechanism"), EVERY_PLACE, ids=[full for full, _, _ in EVERY_PLACE]
)
def test_prefixed_setting_of_run_time_counts_or_is_refused_by_name(
    full: str, name: str, mechanism: str | None
) -> None:
    text, settings = text_for(name, mechanism), node()
    prefixed = split_prefix(full)
    assert prefixed == Prefixed("in.side", mechanism, name)
    image = MetadataImage().apply(1, [ConfigSet(BROKER, "1", full, text)])[0]
    now = settings.with_dynamic(image)
    try:
        check_dynamic_configs({full: text}, one_broker=True)
        check_places([full])
    except SettingError as error:
        assert full in str(error)  # noqa: PT017
        assert not prefixed.is_looked_up or name in ONLY_OF_FILE
        return
    assert prefixed.is_looked_up
    if full in now.unused_of(image):
        assert (
            name in OF_ALL_LISTENERS
            or name in TLS_NAMES
            or name == "sasl.oauthbearer.token.endpoint.url"
        )
    else:
        assert AtListener(now.values, "IN.SIDE", mechanism or "")[name] == BROKER_SETTINGS[
            name
        ].parse(text)
    taken_back = now.with_dynamic(MetadataImage())
    assert taken_back.values == settings.values


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.nowhere.connections.max.reauth.ms",  # there is no such listener
        "listener.name.IN.SIDE.connections.max.reauth.ms",  # prefixes are in lower case
        "listener.name.in.side.PLAIN.connections.max.reauth.ms",
        "listener.name.in.side.plain.conections.max.reauth.ms",
        "listener.name.clear.connections.max.reauth.ms",  # clients do not log in there
        "listener.name.clear.ssl.client.auth",
        "listener.name.controller.connections.max.reauth.ms",  # nodes log in once
        "listener.name.controller.max.connections",
        "listener.name.in.side.ssl.principal.mapping.rules",  # the login names the client
        "listener.name.in.side.num.network.threads",
        "listener.name.in.side.plain.sasl.oauthbearer.expected.audience",
        "listener.name.in.side.plain.sasl.server.callback.handler.class",
        "listener.name.in.side.sasl.oauthbearer.token.endpoint.url",  # brokers log in with PLAIN
    ],
)
def test_prefixed_setting_that_nothing_uses_is_named(name: str) -> None:
    text = (
        HANDLERS[0]
        if name.endswith("class")
        else "none"
        if name.endswith("auth")
        else "DEFAULT"
        if name.endswith("rules")
        else "1000"
    )
    assert node({name: text}).unused == (name,)
    image = MetadataImage().apply(1, [ConfigSet(BROKER, "1", name, text)])[0]
    assert node().with_dynamic(image).unused_of(image) == (name,)


def test_mechanism_that_a_listener_has_not_makes_its_settings_unused() -> None:
    name = "listener.name.in.side.gssapi.connections.max.reauth.ms"
    assert node({name: "1000"}).unused == ()
    without = node({name: "1000", "listener.name.in.side.sasl.enabled.mechanisms": "PLAIN"})
    assert name in without.unused


def test_brokers_log_in_with_the_token_of_their_listener() -> None:
    tokens = {
        "sasl.mechanism.inter.broker.protocol": OAUTHBEARER,
        "sasl.oauthbearer.token.endpoint.url": "file:///everywhere",
    }
    for place in ("", "oauthbearer."):
        settings = node(
            {
                **tokens,
                f"{LISTENER}in.side.{place}sasl.oauthbearer.token.endpoint.url": "file:///here",
            }
        )
        assert settings.unused == ()
        assert "here" in repr(settings.between_brokers.source)
