"""AlterClientQuotas: v0-1 (KIP-546). Answered when the controller has committed the change; every
node applies the quotas when it replays the records.
"""

from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.image import QuotaEntity
from raftka.metadata.quotas import TYPES, entity_of
from raftka.metadata.security_commands import (
    AlterClientQuotas,
    QuotaAlteration,
    QuotaOp,
    QuotaResult,
)
from raftka.wire.errors import Code, KafkaError, quoted
from raftka.wire.messages.client_quotas import (
    ALTER_CLIENT_QUOTAS,
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)

response = ALTER_CLIENT_QUOTAS.response


def _refuse_request(
    request: Request[AlterClientQuotasRequest], code: Code
) -> Steps[AlterClientQuotasResponse]:
    return _refuse_all(
        request,
        code,
        "Cluster authorization failed." if code is Code.CLUSTER_AUTHORIZATION_FAILED else None,
    )


@handles(ALTER_CLIENT_QUOTAS, _refuse_request)
async def alter_client_quotas(
    request: Request[AlterClientQuotasRequest], controller: ControllerClient
) -> AlterClientQuotasResponse:
    if not request.may("ALTER_CONFIGS", THE_CLUSTER):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED)
    command, refused = await request.finish(_make_command(request.body))
    try:
        results: tuple[QuotaResult, ...] = (
            await controller.ask(command) if command.alterations else ()
        )
    except KafkaError as error:
        return await request.finish(_refuse_all(request, error.code, error.message))
    return await request.finish(_make_response(request, (*refused, *results)))


def _make_command(
    body: AlterClientQuotasRequest,
) -> Steps[tuple[AlterClientQuotas, tuple[QuotaResult, ...]]]:
    """Return the command, and the results of entities that are refused without the controller:
    those may have thousands of types.
    """
    alterations: list[QuotaAlteration] = []
    refused: dict[QuotaEntity, QuotaResult] = {}
    for entry in body.entries:
        ops = []
        for op in entry.ops:
            ops.append(QuotaOp(op.key, op.value, op.remove))
            yield
        entity = yield from _read_entity(entry)
        if (fault := _find_unknown_type(entity)) is not None:
            refused[entity] = QuotaResult(entity, int(Code.INVALID_REQUEST), fault)
        else:
            alterations.append(QuotaAlteration(entity, tuple(ops)))
        yield
    return AlterClientQuotas(tuple(alterations), body.validate_only), tuple(refused.values())


def _read_entity(entry: AlterClientQuotasEntry) -> Steps[QuotaEntity]:
    components: dict[str, str | None] = {}
    for each in entry.entity:
        components[each.entity_type] = each.entity_name
        yield
    return entity_of(components.items())


def _find_unknown_type(entity: QuotaEntity) -> str | None:
    """Return Kafka's words if a component has an unknown type. Unknown types come last."""
    if not entity or entity[-1][0] in TYPES:
        return None
    unknown = next(kind for kind, _ in entity if kind not in TYPES)
    return f"Unhandled client quota entity type: {quoted(unknown)}"


def _refuse_all(
    request: Request[AlterClientQuotasRequest], code: Code, message: str | None
) -> Steps[AlterClientQuotasResponse]:
    """Return a response with the same error for every entity."""
    entities: dict[QuotaEntity, None] = {}
    for entry in request.body.entries:
        entities[(yield from _read_entity(entry))] = None
        yield
    return (
        yield from _make_response(
            request, tuple([QuotaResult(entity, int(code), message) for entity in entities])
        )
    )


def _make_response(
    request: Request[AlterClientQuotasRequest], results: tuple[QuotaResult, ...]
) -> Steps[AlterClientQuotasResponse]:
    rows = request.encoded_rows(response.entries)
    for result in results:
        entity = request.encoded_rows(response.entries.entity)
        for kind, name in result.entity:
            entity.add(response.entries.entity(entity_type=kind, entity_name=name))
            yield
        rows.add(
            response.entries(error_code=result.error, error_message=result.message, entity=entity)
        )
        yield
    return response(entries=rows)
