"""Client quotas as values, and AlterClientQuotas in the controller: the checks in Kafka's order,
and the records that follow.

An entity is a tuple of (type, name) in the order of TYPES; the name None is the default of that
type. An entry is altered as a whole or not at all.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from math import isfinite

from raftka.limits import CLIENT_QUOTAS, CLIENT_QUOTAS_OF_REQUEST, QUOTA_NAME_LENGTH, Limit
from raftka.metadata.image import MetadataImage, QuotaEntity
from raftka.metadata.records import ClientQuotaSet, Record
from raftka.metadata.security_commands import AlterClientQuotas, QuotaAlteration, QuotaResult
from raftka.wire.errors import Code, KafkaError, check_limit, limit_of, quoted

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES = (CLIENT_ID, USER, IP)
PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE = "producer_byte_rate", "consumer_byte_rate"
REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE = "request_percentage", "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"
LONG, INT, DOUBLE = "LONG", "INT", "DOUBLE"
LARGEST = {LONG: float((1 << 63) - 1), INT: float((1 << 31) - 1)}
OF_CLIENTS = {
    PRODUCER_BYTE_RATE: LONG,
    CONSUMER_BYTE_RATE: LONG,
    REQUEST_PERCENTAGE: DOUBLE,
    CONTROLLER_MUTATION_RATE: DOUBLE,
}
OF_ADDRESSES = {CONNECTION_CREATION_RATE: INT}
WHOLE = 1e-6  # a number this near to an integer is one


def entity_of(components: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Of a type that is given twice the last one counts. Types that are none come last."""
    by_type = dict(components)
    known = [(kind, by_type.pop(kind)) for kind in TYPES if kind in by_type]
    return (*known, *by_type.items())


def unknown_type(entity: QuotaEntity) -> str | None:
    """Say that an entity has a type that there is not; None: it has not."""
    kind = entity[-1][0] if entity else TYPES[0]
    return (
        None
        if kind in TYPES
        else (
            "Unhandled client quota entity type: "
            f"{quoted(next(kind for kind, _ in entity if kind not in TYPES))}"
        )
    )


def entity_text(entity: QuotaEntity) -> str:
    """As Kafka's messages have it."""
    entries = ", ".join(
        f"{kind}={'null' if name is None else quoted(name)}" for kind, name in entity
    )
    return f"ClientQuotaEntity(entries={{{entries}}})"


def alter_client_quotas(
    image: MetadataImage, command: AlterClientQuotas, hits: list[Limit]
) -> tuple[list[Record], tuple[QuotaResult, ...]]:
    """One result for each entity that is named. `hits` gets the limits that were hit. Raises
    INVALID_REQUEST for a request beyond one.
    """
    check_limit(
        CLIENT_QUOTAS_OF_REQUEST,
        sum(1 + len(each.ops) for each in command.alterations),
        code=Code.INVALID_REQUEST,
    )
    times = Counter(each.entity for each in command.alterations)
    records: list[Record] = []
    results: dict[QuotaEntity, QuotaResult] = {}
    entities = len(image.quotas)
    for alteration in command.alterations:
        entity = alteration.entity
        try:
            if times[entity] > 1 or len({op.key for op in alteration.ops}) < len(alteration.ops):
                raise KafkaError(
                    Code.INVALID_REQUEST, f"Ignoring duplicate entity {entity_text(entity)}"
                )
            changes = _changes(alteration, image.quotas.get(entity, {}))
            if entity not in image.quotas and changes:
                check_limit(CLIENT_QUOTAS, entities + 1, code=Code.INVALID_REQUEST)
                entities += 1
        except KafkaError as error:
            hits += limit_of(error)
            results[entity] = QuotaResult(entity, int(error.code), error.message)
        else:
            records += changes
            results[entity] = QuotaResult(entity, 0, None)
    return records, tuple(results.values())


def _changes(alteration: QuotaAlteration, known: Mapping[str, float]) -> list[ClientQuotaSet]:
    """Raises KafkaError."""
    kinds = _keys_of(alteration.entity)
    changes = []
    for op in alteration.ops:
        if op.remove:
            if op.key in known:
                changes.append(ClientQuotaSet(alteration.entity, op.key, None))
            continue
        _check_value(kinds, op.key, op.value)
        if known.get(op.key) != op.value:
            changes.append(ClientQuotaSet(alteration.entity, op.key, op.value))
    return changes


def _keys_of(entity: QuotaEntity) -> Mapping[str, str]:
    """The keys that such an entity may have, with the types of their values. Raises KafkaError for
    what is no entity.
    """
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in TYPES:
            raise _invalid(f"Unhandled client quota entity type: {quoted(kind)}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        check_limit(QUOTA_NAME_LENGTH, len(name or ""), code=Code.INVALID_REQUEST)
    if entity[-1][0] != IP:
        return OF_CLIENTS
    if len(entity) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or "
            "ClientId"
        )
    address = entity[0][1]
    if address is not None and not _is_address(address):
        raise _invalid(f"{quoted(address)} is not a valid IP or resolvable host.")
    return OF_ADDRESSES


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _check_value(kinds: Mapping[str, str], key: str, value: float) -> None:
    kind = kinds.get(key)
    if kind is None:
        raise _invalid(f"Invalid configuration key {quoted(key)}")
    if not isfinite(value):
        raise _invalid(f"Quota {key} must be a finite number")
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if kind == DOUBLE:
        return
    if value > LARGEST[kind]:
        raise _invalid(
            f"Proposed value for {key} is too large for a{'n' if kind == INT else ''} {kind}."
        )
    if abs(value - round(value)) > WHOLE:
        raise _invalid(f"{key} cannot be a fractional value.")


def _invalid(text: str) -> KafkaError:
    return KafkaError(Code.INVALID_REQUEST, text)
