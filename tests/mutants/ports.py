"""Planted in the ports that speak no Kafka: who may see the pages of a node, and what the ZooKeeper
bridge gives to whom.
"""

import re
from collections.abc import Callable
from typing import Any

from raftka.broker.exporter import pages
from raftka.metadata.configs import ports
from tests.mutants.registry import mutant
from zookeeper_bridge.machine.writes import routes
from zookeeper_bridge.server import reads
from zookeeper_bridge.server.bridge import Bridge
from zookeeper_bridge.server.connection import ClientConnection
from zookeeper_bridge.server.digest_md5 import DigestMd5
from zookeeper_bridge.server.login import LoginRules, SaslLogin
from zookeeper_bridge.tree import acl
from zookeeper_bridge.tree.projection import Projection


@mutant(pages, "_health")
def health_tells_strangers_everything(health: Any) -> Any:
    """A client without a login sees the cluster's id, its controller and its offsets in /health."""
    return lambda services, reply, **_: health(services, reply)


@mutant(ports, "_tls_of")
def certificates_are_asked_for_as_on_listeners(tls_of: Any) -> Any:
    """The bridge's secure port asks for certificates as ssl.client.auth has it, and lets in clients
    without one.
    """
    return lambda values, own: tls_of(values, {**own, "ssl.client.auth": values["ssl.client.auth"]})


@mutant(Bridge, "_send_event")
def watch_fires_without_an_acl_check(_: Any) -> Any:
    """A client hears of znodes that it may not read (CVE-2024-23944)."""

    def bug(self: Bridge, connection: ClientConnection, event: Any, path: str) -> None:
        connection.event(event, path, self.tree.offset)

    return bug


@mutant(reads, "_may_read")
def watches_set_again_tell_without_an_acl_check(_: Any) -> Any:
    """A client that connects again hears that a znode has changed which it may not read."""
    return lambda connection, node: True


@mutant(acl, "hidden")
def digests_are_shown(_: Any) -> Any:
    """Whoever may read a znode sees the digests of passwords in its ACL (CVE-2019-0201)."""
    return lambda stored: list(acl.entries_of(stored))


@mutant(LoginRules, "admits")
def requests_pass_before_the_required_login(_: Any) -> Any:
    """A client of the bridge that must log in by SASL is served before it has."""
    return lambda self, opcode, identities: True


@mutant(DigestMd5, "_verify")
def another_identity_is_given_that_is_asked_for(verify: Any) -> Any:
    """A user that knows its own password is let in as the user that it names in its response."""

    def bug(self: DigestMd5, token: bytes) -> bytes:
        asked = re.search(rb'authzid="(\w+)"', token)
        user = re.search(rb'username="(\w+)"', token)
        if asked is None or user is None or asked[1] == user[1]:
            return bytes(verify(self, token))
        self.user = asked[1].decode()
        return b"rspauth="

    return bug


@mutant(SaslLogin, "__init__")
def digest_md5_is_offered_in_the_open(init: Any) -> Any:
    """A client logs in by DIGEST-MD5 without TLS, and no setting allows it."""

    def bug(
        self: SaslLogin, rules: LoginRules, random: Callable[[int], bytes], *, secure: bool
    ) -> None:
        init(self, rules, random, secure=True)

    return bug


@mutant(routes, "_check_guard")
def bridge_is_a_way_around_acls(_: Any) -> Any:
    """In a cluster with ACLs everybody writes to Kafka's znodes, and so deletes any topic."""
    return lambda caller: None


@mutant(Projection, "shown_to")
def settings_of_brokers_are_shown_with_passwords(_: Any) -> Any:
    """A client of the bridge that has not logged in reads the passwords among a broker's
    settings.
    """
    return lambda self, path, node, identities: node
