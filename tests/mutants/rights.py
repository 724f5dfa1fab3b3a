"""Planted in what clients are allowed to do: how ACLs are matched, and when a change of them
counts.
"""

from dataclasses import replace
from typing import Any

from raftka.broker.coordinators.commit_plan import CommitPlan
from raftka.broker.network.access.acl_authorizer import AclAuthorizer
from raftka.broker.produce.plan import ProducePlan
from raftka.metadata.image import Delta, MetadataImage
from raftka.security import acls
from raftka.security.acls import Acl, AclIndex
from tests.mutants.registry import mutant


@mutant(AclIndex, "decide")
def an_acl_that_denies_is_beaten(decide: Any) -> Any:
    """A client that one ACL allows something and another one denies it is allowed."""

    def bug(
        self: AclIndex, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> Any:
        mine = [
            each
            for each in self.reaching(resource_type, name)
            if each.principal == principal and each.operation in (operation, acls.ALL)
        ]
        return any(each.permission == acls.ALLOW for each in mine) or decide(
            self, principal, host, operation, resource_type, name
        )

    return bug


@mutant(AclIndex, "add")
def denial_by_prefix_is_by_name(add: Any) -> Any:
    """An ACL that denies all names with a prefix denies that one name alone."""

    def bug(self: AclIndex, acl: Acl) -> None:
        add(self, acl._replace(pattern=acls.LITERAL) if acl.permission == acls.DENY else acl)

    return bug


@mutant(AclIndex, "add")
def denial_by_network_is_by_address(add: Any) -> Any:
    """An ACL that denies a network denies the address in front of its prefix length alone."""

    def bug(self: AclIndex, acl: Acl) -> None:
        host = acl.host.partition("/")[0] if acl.permission == acls.DENY else acl.host
        add(self, acl._replace(host=host))

    return bug


@mutant(AclAuthorizer, "on_image")
def change_of_acls_counts_for_new_connections_alone(on_image: Any) -> Any:
    """A connection goes on with what it was allowed before an ACL was deleted."""

    def bug(self: AclAuthorizer, image: MetadataImage, delta: Delta) -> bool:
        changed: bool = on_image(self, image, delta)
        self._epoch = 0
        return changed

    return bug


@mutant(AclAuthorizer, "on_image")
def node_that_comes_back_forgets_what_was_revoked(on_image: Any) -> Any:
    """A node that reads the metadata again skips ACLs that were removed: it allows what was revoked
    while it was away.
    """

    def bug(self: AclAuthorizer, image: MetadataImage, delta: Delta) -> bool:
        if not self._context.metadata.published:
            delta = replace(
                delta, acls_changed=[each for each in delta.acls_changed if each in image.acls]
            )
        changed: bool = on_image(self, image, delta)
        return changed

    return bug


@mutant(ProducePlan, "_may_use_its_id")
def short_way_does_not_ask_for_the_id(_: Any) -> Any:
    """A producer that has lost the right on its transactional id goes on, as long as its requests
    look alike (once real).
    """
    return lambda self, connection: self.transactional is not None


@mutant(CommitPlan, "_may_commit")
def short_way_does_not_ask_for_topics(_: Any) -> Any:
    """A consumer that has lost the right to read a topic goes on to commit its offsets, as long as
    its requests look alike.
    """
    return lambda self, connection: True
