"""DescribeAcls, CreateAcls, DeleteAcls: v1-3. Without an authorizer all of them are refused with
SECURITY_DISABLED.
"""

from collections.abc import Sequence

from raftka.broker.context import MetadataCache
from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.handlers.parts import AccessParts
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.telemetry.metrics import Metrics
from raftka.broker.work.long_work import Steps
from raftka.limits import ACLS_OF_REQUEST, FILTERED_ACLS, Limit
from raftka.metadata.security_commands import CreateAcls, DeleteAcls
from raftka.security.acls import (
    ALLOW,
    ANY,
    PREFIXED,
    TWO_PHASE_COMMIT,
    USER,
    Acl,
    AclFilter,
    fault_of_acl,
)
from raftka.wire.encoder import EncodedRows
from raftka.wire.errors import Code, KafkaError, check_limit
from raftka.wire.messages.acls import (
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

ACLS_OF_COMMAND = 200  # the controller decides a command in one piece
ACLS_OF_STEP = 500  # compared with a filter between two yields
DISABLED = "No Authorizer is configured on the broker"
REFUSED = "Cluster authorization failed."


def _check_rights(
    request: Request[DescribeAclsRequest | CreateAclsRequest | DeleteAclsRequest],
    access: AccessParts,
    operation: str,
) -> None:
    """Raise SECURITY_DISABLED without an authorizer, or CLUSTER_AUTHORIZATION_FAILED."""
    if access.acls is None:
        raise KafkaError(Code.SECURITY_DISABLED, DISABLED)
    if not request.may(operation, THE_CLUSTER):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED, REFUSED)


def _check_limit(metrics: Metrics, limit: Limit, value: int) -> None:
    """Raise INVALID_REQUEST and count the hit if the value is above the limit."""
    try:
        check_limit(limit, value, code=Code.INVALID_REQUEST)
    except KafkaError:
        metrics.hit(limit)
        raise


def _find_fault(filter_: AclFilter) -> str | None:
    """Return a text if a field of the filter is invalid."""
    if not ANY <= filter_.resource_type <= USER:
        return f"Invalid resource type {filter_.resource_type}"
    if not ANY <= filter_.pattern <= PREFIXED:
        return f"Invalid pattern type {filter_.pattern}"
    if not ANY <= filter_.operation <= TWO_PHASE_COMMIT:
        return f"Invalid operation {filter_.operation}"
    return (
        None
        if ANY <= filter_.permission <= ALLOW
        else f"Invalid permission type {filter_.permission}"
    )


@handles(DESCRIBE_ACLS)
def describe_acls(
    request: Request[DescribeAclsRequest], metadata: MetadataCache, access: AccessParts
) -> Steps[DescribeAclsResponse]:
    body, response = request.body, DESCRIBE_ACLS.response
    wanted = AclFilter(
        body.resource_type_filter,
        body.resource_name_filter,
        body.pattern_type_filter,
        body.principal_filter,
        body.host_filter,
        body.operation,
        body.permission_type,
    )
    try:
        _check_rights(request, access, "DESCRIBE")
        if (fault := _find_fault(wanted)) is not None:
            raise KafkaError(Code.INVALID_REQUEST, fault)
    except KafkaError as error:
        return response(error_code=int(error.code), error_message=error.message)
    rows: dict[tuple[int, str, int], EncodedRows[AclDescription]] = {}
    row = response.resources
    for at, acl in enumerate(metadata.image.acls):
        if wanted.matches(acl):
            description = row.acls(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            resource = acl.resource_type, acl.name, acl.pattern
            if resource not in rows:
                rows[resource] = request.encoded_rows(row.acls)
            rows[resource].add(description)
            yield
        elif not at % ACLS_OF_STEP:
            yield
    resources = request.encoded_rows(row)
    for (kind, name, pattern), found in rows.items():
        resources.add(row(resource_type=kind, resource_name=name, pattern_type=pattern, acls=found))
        yield
    return response(error_message="", resources=resources)


def _refuse_creations(
    request: Request[CreateAclsRequest], error: KafkaError
) -> Steps[CreateAclsResponse]:
    rows = request.encoded_rows(CREATE_ACLS.response.results)
    for _ in request.body.creations:
        rows.add(
            CREATE_ACLS.response.results(error_code=int(error.code), error_message=error.message)
        )
        yield
    return CREATE_ACLS.response(results=rows)


@handles(CREATE_ACLS, lambda request, code: _refuse_creations(request, KafkaError(code)))
async def create_acls(
    request: Request[CreateAclsRequest],
    metadata: MetadataCache,
    controller: ControllerClient,
    access: AccessParts,
) -> CreateAclsResponse:
    try:
        _check_rights(request, access, "ALTER")
        faults, acls = await request.finish(
            _read_creations(request.body, metadata, request.dispatcher.metrics)
        )
        for first in range(0, len(acls), ACLS_OF_COMMAND):
            await controller.ask(CreateAcls(tuple(acls[first : first + ACLS_OF_COMMAND])))
    except KafkaError as error:
        return await request.finish(_refuse_creations(request, error))
    return await request.finish(_make_created(request, faults))


def _read_creations(
    body: CreateAclsRequest, metadata: MetadataCache, metrics: Metrics
) -> Steps[tuple[list[str | None], list[Acl]]]:
    """Return the fault of each ACL, or None; and the valid ACLs that are new, each once. Raises
    INVALID_REQUEST for too many.
    """
    faults: list[str | None] = []
    acls: dict[Acl, None] = {}
    known = metadata.image.acls
    for each in body.creations:
        host, name = each.host, each.resource_name
        acl = Acl(
            each.resource_type,
            name,
            each.resource_pattern_type,
            each.principal,
            host,
            each.operation,
            each.permission_type,
        )
        faults.append(fault_of_acl(acl))
        if faults[-1] is None and acl not in known:
            acls[acl] = None
        yield
    _check_limit(metrics, ACLS_OF_REQUEST, len(acls))
    return faults, list(acls)


def _make_created(
    request: Request[CreateAclsRequest], faults: list[str | None]
) -> Steps[CreateAclsResponse]:
    row = CREATE_ACLS.response.results
    rows = request.encoded_rows(row)
    for fault in faults:
        rows.add(
            row(
                error_code=int(Code.NONE if fault is None else Code.INVALID_REQUEST),
                error_message=fault or "",
            )
        )
        yield
    return CREATE_ACLS.response(results=rows)


def _refuse_deletions(
    request: Request[DeleteAclsRequest], error: KafkaError
) -> Steps[DeleteAclsResponse]:
    rows = request.encoded_rows(DELETE_ACLS.response.filter_results)
    for _ in request.body.filters:
        rows.add(
            DELETE_ACLS.response.filter_results(
                error_code=int(error.code), error_message=error.message
            )
        )
        yield
    return DELETE_ACLS.response(filter_results=rows)


@handles(DELETE_ACLS, lambda request, code: _refuse_deletions(request, KafkaError(code)))
async def delete_acls(
    request: Request[DeleteAclsRequest],
    metadata: MetadataCache,
    controller: ControllerClient,
    access: AccessParts,
) -> DeleteAclsResponse:
    try:
        _check_rights(request, access, "ALTER")
        faults, filters = await request.finish(
            _read_filters(request.body, metadata, request.dispatcher.metrics)
        )
        found: list[tuple[Acl, ...]] = []
        for first in range(0, len(filters), ACLS_OF_COMMAND):
            found += await controller.ask(
                DeleteAcls(tuple(filters[first : first + ACLS_OF_COMMAND]))
            )
    except KafkaError as error:
        return await request.finish(_refuse_deletions(request, error))
    return await request.finish(_make_deleted(request, faults, found))


def _read_filters(
    body: DeleteAclsRequest, metadata: MetadataCache, metrics: Metrics
) -> Steps[tuple[list[str | None], list[AclFilter]]]:
    """Return the fault of each filter, or None; and the valid filters. Raises INVALID_REQUEST for
    too many comparisons with ACLs.
    """
    faults: list[str | None] = []
    filters: list[AclFilter] = []
    known, comparisons = len(metadata.image.acls), 0
    for each in body.filters:
        wanted = AclFilter(
            each.resource_type_filter,
            each.resource_name_filter,
            each.pattern_type_filter,
            each.principal_filter,
            each.host_filter,
            each.operation,
            each.permission_type,
        )
        faults.append(_find_fault(wanted))
        if faults[-1] is None:
            filters.append(wanted)
            comparisons += known if wanted.exact is None else 0
        yield
    _check_limit(metrics, FILTERED_ACLS, comparisons)
    return faults, filters


def _make_deleted(
    request: Request[DeleteAclsRequest], faults: list[str | None], found: Sequence[tuple[Acl, ...]]
) -> Steps[DeleteAclsResponse]:
    row, matches = DELETE_ACLS.response.filter_results, iter(found)
    rows = request.encoded_rows(row)
    for fault in faults:
        if fault is not None:
            rows.add(row(error_code=int(Code.INVALID_REQUEST), error_message=fault))
            yield
            continue
        acls = request.encoded_rows(row.matching_acls)
        for acl in next(matches):
            acls.add(
                row.matching_acls(
                    resource_type=acl.resource_type,
                    resource_name=acl.name,
                    pattern_type=acl.pattern,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
            )
            yield
        rows.add(row(matching_acls=acls))
        yield
    return DELETE_ACLS.response(filter_results=rows)
