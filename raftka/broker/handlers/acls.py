"""DescribeAcls, CreateAcls, DeleteAcls: v1-3. Without an authorizer all of them are refused with SECURITY_DISABLED."""

from raftka.broker.handlers.services import Services
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.long_work import Steps
from raftka.broker.network.request import Request
from raftka.metadata.security_commands import CreateAcls, DeleteAcls
from raftka.security.acls import ALLOW, ANY, PREFIXED, TWO_PHASE_COMMIT, USER, Acl, AclFilter, fault_of_acl
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.acls import (
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

LOOKS_BETWEEN = 500  # ACLs that are looked at in one go
DISABLED = "No Authorizer is configured on the broker"
REFUSED = "Cluster authorization failed."


def _check(request: Request[DescribeAclsRequest | CreateAclsRequest | DeleteAclsRequest], services: Services, operation: str) -> None:
    """Raises SECURITY_DISABLED and CLUSTER_AUTHORIZATION_FAILED."""
    if services.acls is None:
        raise KafkaError(Code.SECURITY_DISABLED, DISABLED)
    if not request.may(operation, THE_CLUSTER):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED, REFUSED)


def _fault_of_filter(filter_: AclFilter) -> str | None:
    if not ANY <= filter_.resource_type <= USER:
        return f"Invalid resource type {filter_.resource_type}"
    if not ANY <= filter_.pattern <= PREFIXED:
        return f"Invalid pattern type {filter_.pattern}"
    if not ANY <= filter_.operation <= TWO_PHASE_COMMIT:
        return f"Invalid operation {filter_.operation}"
    return None if ANY <= filter_.permission <= ALLOW else f"Invalid permission type {filter_.permission}"


@handles(DESCRIBE_ACLS)
def describe_acls(request: Request[DescribeAclsRequest], services: Services) -> Steps[DescribeAclsResponse]:
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
        _check(request, services, "DESCRIBE")
        if (fault := _fault_of_filter(wanted)) is not None:
            raise KafkaError(Code.INVALID_REQUEST, fault)
    except KafkaError as error:
        return response(error_code=int(error.code), error_message=error.message)
    rows: dict[tuple[int, str, int], list[AclDescription]] = {}
    row = response.resources
    for at, acl in enumerate(services.metadata.image.acls):
        if wanted.matches(acl):
            told = row.acls(principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission)
            rows.setdefault((acl.resource_type, acl.name, acl.pattern), []).append(told)
        if not at % LOOKS_BETWEEN:
            yield
    resources: list[DescribeAclsResource] = []
    for (kind, name, pattern), found in rows.items():
        resources.append(row(resource_type=kind, resource_name=name, pattern_type=pattern, acls=found))
        yield
    return response(error_message="", resources=resources)


def _none_created(request: Request[CreateAclsRequest], error: KafkaError) -> Steps[CreateAclsResponse]:
    rows = []
    for _ in request.body.creations:
        rows.append(CREATE_ACLS.response.results(error_code=int(error.code), error_message=error.message))
        yield
    return CREATE_ACLS.response(results=rows)


@handles(CREATE_ACLS, lambda request, code: _none_created(request, KafkaError(code)))
async def create_acls(request: Request[CreateAclsRequest], services: Services) -> CreateAclsResponse:
    try:
        _check(request, services, "ALTER")
        faults, command = await request.finish(_creations(request.body))
        if command.acls:
            await services.controller.ask(command)
    except KafkaError as error:
        return await request.finish(_none_created(request, error))
    return await request.finish(_created(faults))


def _creations(body: CreateAclsRequest) -> Steps[tuple[list[str | None], CreateAcls]]:
    """What is wrong with each, and a command for the others."""
    faults: list[str | None] = []
    acls: list[Acl] = []
    for each in body.creations:
        host, name = each.host, each.resource_name
        acl = Acl(each.resource_type, name, each.resource_pattern_type, each.principal, host, each.operation, each.permission_type)
        faults.append(fault_of_acl(acl))
        if faults[-1] is None:
            acls.append(acl)
        yield
    return faults, CreateAcls(tuple(acls))


def _created(faults: list[str | None]) -> Steps[CreateAclsResponse]:
    row, rows = CREATE_ACLS.response.results, []
    for fault in faults:
        rows.append(row(error_code=int(Code.NONE if fault is None else Code.INVALID_REQUEST), error_message=fault or ""))
        yield
    return CREATE_ACLS.response(results=rows)


def _none_deleted(request: Request[DeleteAclsRequest], error: KafkaError) -> Steps[DeleteAclsResponse]:
    rows = []
    for _ in request.body.filters:
        rows.append(DELETE_ACLS.response.filter_results(error_code=int(error.code), error_message=error.message))
        yield
    return DELETE_ACLS.response(filter_results=rows)


@handles(DELETE_ACLS, lambda request, code: _none_deleted(request, KafkaError(code)))
async def delete_acls(request: Request[DeleteAclsRequest], services: Services) -> DeleteAclsResponse:
    try:
        _check(request, services, "ALTER")
        faults, command = await request.finish(_filters(request.body))
        found: tuple[tuple[Acl, ...], ...] = await services.controller.ask(command) if command.filters else ()
    except KafkaError as error:
        return await request.finish(_none_deleted(request, error))
    return await request.finish(_deleted(faults, found))


def _filters(body: DeleteAclsRequest) -> Steps[tuple[list[str | None], DeleteAcls]]:
    faults: list[str | None] = []
    filters: list[AclFilter] = []
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
        faults.append(_fault_of_filter(wanted))
        if faults[-1] is None:
            filters.append(wanted)
        yield
    return faults, DeleteAcls(tuple(filters))


def _deleted(faults: list[str | None], found: tuple[tuple[Acl, ...], ...]) -> Steps[DeleteAclsResponse]:
    row, rows, answers = DELETE_ACLS.response.filter_results, list[DeleteAclsFilterResult](), iter(found)
    for fault in faults:
        if fault is not None:
            rows.append(row(error_code=int(Code.INVALID_REQUEST), error_message=fault))
            continue
        acls: list[DeleteAclsMatchingAcl] = []
        for acl in next(answers):
            acls.append(
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
        rows.append(row(matching_acls=acls))
        yield
    return DELETE_ACLS.response(filter_results=rows)
