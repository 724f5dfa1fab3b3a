"""Planted where nodes that were away, or were sent a snapshot, learn of ACLs, passwords and quotas
that changed meanwhile.
"""

from collections.abc import Mapping
from typing import Any

from raftka.broker.network.access.acl_authorizer import AclAuthorizer
from raftka.broker.network.access.mechanisms import ListenerMechanisms
from raftka.broker.network.connection_quotas import ConnectionQuotas
from raftka.broker.network.quotas.client_quotas import ClientQuotas
from raftka.broker.network.quotas.precedence import Quotas
from raftka.metadata.controller.brokers import Sessions
from raftka.metadata.image import Delta, Endpoint, MetadataImage
from raftka.security.acls import AclIndex
from raftka.security.scram import ScramCredential, ScramServer
from tests.mutants.registry import mutant


@mutant(AclAuthorizer, "on_image")
def snapshot_leaves_deleted_acls(on_image: Any) -> Any:
    """A node that is sent a snapshot adds its ACLs to those that it has: what was deleted meanwhile
    still allows.
    """

    def bug(self: AclAuthorizer, image: MetadataImage, delta: Delta) -> bool:
        before = self._index
        changed: bool = on_image(self, image, delta)
        if delta.reloaded:
            known = [
                acl
                for buckets in (before._literal, before._prefixed)
                for bucket in buckets.values()
                for acl in bucket
            ]
            self._index = AclIndex([*known, *image.acls])
        return changed

    return bug


@mutant(AclAuthorizer, "on_image")
def authorizer_is_not_told_what_is_replayed(on_image: Any) -> Any:
    """The authorizer hears of ACLs only from the time on that the node is registered: it does not
    know those before.
    """

    def bug(self: AclAuthorizer, image: MetadataImage, delta: Delta) -> bool:
        return self._context.metadata.published and bool(on_image(self, image, delta))

    return bug


@mutant(ConnectionQuotas, "acceptor")
def node_serves_before_it_has_caught_up(acceptor: Any) -> Any:
    """A node takes connections as soon as it runs, before it has read the metadata up to its own
    registration.
    """

    def bug(self: ConnectionQuotas, endpoint: Endpoint) -> Any:
        accept, metadata = acceptor(self, endpoint), self._context.metadata

        def early() -> Any:
            published, metadata.published = metadata.published, True
            try:
                return accept()
            finally:
                metadata.published = published

        return early

    return bug


@mutant(ListenerMechanisms, "_start")
def credential_is_looked_up_once(start: Any) -> Any:
    """A listener remembers the credentials that it has looked up: a password that was changed or
    removed still lets in.
    """

    def bug(self: ListenerMechanisms, mechanism: str) -> Any:
        server = start(self, mechanism)
        if isinstance(server, ScramServer):
            lookup, known = server._lookup, self.__dict__.setdefault("_known", {})

            def remembered(user: str) -> ScramCredential | None:
                found = known.get(user) or lookup(user)
                if found is not None:
                    known[user] = found
                return found

            server._lookup = remembered
        return server

    return bug


@mutant(ClientQuotas, "on_image")
def quota_is_not_lowered(on_image: Any) -> Any:
    """A quota that is lowered stays as it was until the node is started again."""

    def bug(self: ClientQuotas, quotas: Quotas) -> None:
        def higher(known: Mapping[str, float], values: Mapping[str, float]) -> Mapping[str, float]:
            return {key: max(value, known.get(key, value)) for key, value in values.items()}

        on_image(
            self,
            {
                entity: higher(self._quotas.get(entity, {}), values)
                for entity, values in quotas.items()
            },
        )

    return bug


@mutant(Sessions, "must_apply")
def returning_broker_is_unfenced_at_once(_: Any) -> Any:
    """A broker that was cut off is unfenced with its first heartbeat, before it has read what
    changed meanwhile (once real).
    """
    return lambda self, broker, now, end: broker.epoch
