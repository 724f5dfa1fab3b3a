"""DescribeClientQuotas: v0-1 (KIP-546). All components of the filter must hold; a strict one finds
no entity with other types.
"""

from typing import NamedTuple

from raftka.broker.context import MetadataCache
from raftka.broker.network.access.authorizer import THE_CLUSTER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.work.long_work import Steps
from raftka.metadata.image import QuotaEntity
from raftka.metadata.quotas import CLIENT_ID, IP, TYPES, USER
from raftka.wire.errors import Code, KafkaError, quoted
from raftka.wire.messages.client_quotas import (
    DESCRIBE_CLIENT_QUOTAS,
    DescribeClientQuotasComponent,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

response = DESCRIBE_CLIENT_QUOTAS.response
EXACT, DEFAULT, ANY = 0, 1, 2


class Wanted(NamedTuple):
    """One component of the filter."""

    name: str | None  # None: the default
    any_name: bool


def _refused(
    request: Request[DescribeClientQuotasRequest], code: Code
) -> DescribeClientQuotasResponse:
    return response(error_code=int(code), entries=None)


@handles(DESCRIBE_CLIENT_QUOTAS, _refused)
def describe_client_quotas(
    request: Request[DescribeClientQuotasRequest], metadata: MetadataCache
) -> Steps[DescribeClientQuotasResponse]:
    if not request.may("DESCRIBE_CONFIGS", THE_CLUSTER):
        raise KafkaError(Code.CLUSTER_AUTHORIZATION_FAILED)
    filters: dict[str, Wanted] = {}
    try:
        for component in request.body.components:
            _add(filters, component)
            yield
        if IP in filters and (USER in filters or CLIENT_ID in filters):
            text = (
                "Invalid entity filter component combination. IP filter component should not be "
                "used with user or clientId filter component."
            )
            raise KafkaError(Code.INVALID_REQUEST, text)
    except KafkaError as error:
        return response(error_code=int(error.code), error_message=error.message, entries=None)
    rows = request.encoded_rows(response.entries)
    for entity, values in metadata.image.quotas.items():
        if _matches(entity, filters, request.body.strict):
            rows.add(
                response.entries(
                    entity=[
                        response.entries.entity(entity_type=kind, entity_name=name)
                        for kind, name in entity
                    ],
                    values=[
                        response.entries.values(key=key, value=value)
                        for key, value in values.items()
                    ],
                )
            )
        yield
    return response(error_message="", entries=rows)


def _add(filters: dict[str, Wanted], component: DescribeClientQuotasComponent) -> None:
    """Raises KafkaError."""
    kind, match, name = component.entity_type, component.match_type, component.match
    if not kind:
        raise KafkaError(Code.INVALID_REQUEST, "Invalid empty entity type.")
    if kind in filters:
        raise KafkaError(
            Code.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter."
        )
    if kind not in TYPES:
        raise KafkaError(Code.UNSUPPORTED_VERSION, f"Unsupported entity type {quoted(kind)}")
    if match not in (EXACT, DEFAULT, ANY):
        raise KafkaError(Code.INVALID_REQUEST, f"Unknown match type {match}")
    if match == EXACT and name is None:
        raise KafkaError(
            Code.INVALID_REQUEST,
            "Request specified MATCH_TYPE_EXACT, but set match string to null.",
        )
    if match != EXACT and name is not None:
        given = "MATCH_TYPE_DEFAULT" if match == DEFAULT else "MATCH_TYPE_SPECIFIED"
        raise KafkaError(
            Code.INVALID_REQUEST, f"Request specified {given}, but also specified a match string."
        )
    filters[kind] = Wanted(name, match == ANY)


def _matches(entity: QuotaEntity, filters: dict[str, Wanted], strict: bool) -> bool:
    found = 0
    for kind, name in entity:
        wanted = filters.get(kind)
        if wanted is None:
            if strict:
                return False
        elif wanted.any_name or wanted.name == name:
            found += 1
        else:
            return False
    return found == len(filters)
