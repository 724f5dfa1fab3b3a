"""Nodes with ACLs: an administrator, and a user `pat` who may do nothing without one."""

from raftka.metadata.configs.broker import STANDARD_AUTHORIZER
from raftka.security import acls
from raftka.security.acls import Acl
from raftka.wire.messages.acls import CREATE_ACLS, DELETE_ACLS
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, produce, produced
from tests.broker.sasl import SECURE, log_in
from tests.broker.stage import Stage, Wire

WITH_ACLS = {**SECURE, "authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:node"}


def admin_of(stage: Stage, node_id: int = 1) -> Wire:
    wire = Stage.wire(stage, node_id)
    assert log_in(wire, "PLAIN", "node", "n-secret").error_code == 0
    return wire


def pat(stage: Stage) -> Wire:
    wire = Stage.wire(stage)
    assert log_in(wire, "PLAIN", "pat", "pat-secret").error_code == 0
    return wire


def topic_acl(
    operation: int,
    permission: int = acls.ALLOW,
    name: str = "t",
    pattern: int = acls.LITERAL,
    host: str = "*",
) -> Acl:
    return Acl(acls.TOPIC, name, pattern, "User:pat", host, operation, permission)


def create_acls(stage: Stage, *wanted: Acl) -> list[int]:
    row = CREATE_ACLS.request.creations
    creations = [
        row(
            resource_type=acl.resource_type,
            resource_name=acl.name,
            resource_pattern_type=acl.pattern,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
        for acl in wanted
    ]
    return [
        result.error_code
        for result in admin_of(stage)
        .ask(CREATE_ACLS, CREATE_ACLS.request(creations=creations))
        .results
    ]


def delete_acl(stage: Stage, acl: Acl) -> int:
    row = DELETE_ACLS.request.filters
    wanted = row(
        resource_type_filter=acl.resource_type,
        resource_name_filter=acl.name,
        pattern_type_filter=acl.pattern,
        principal_filter=acl.principal,
        host_filter=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
    (result,) = (
        admin_of(stage).ask(DELETE_ACLS, DELETE_ACLS.request(filters=[wanted])).filter_results
    )
    assert result.error_code == 0
    return len(result.matching_acls)


def written(wire: Wire, topic: str = "t") -> int:
    """The error of a record of the client."""
    return produced(wire.ask(PRODUCE, produce(topic, batch(b"x")), 12)).error_code
