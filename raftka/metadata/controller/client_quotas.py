"""Decisions on client quotas: AlterClientQuotas, with its checks in Kafka's order."""

from collections import Counter
from collections.abc import Mapping
from ipaddress import ip_address
from math import isfinite

from raftka.limits import CLIENT_QUOTAS, CLIENT_QUOTAS_OF_REQUEST, QUOTA_NAME_LENGTH
from raftka.metadata.controller.decision import Decision
from raftka.metadata.controller.draft import Draft
from raftka.metadata.image import QuotaEntity
from raftka.metadata.quotas import DOUBLE, INT, IP, LONG, OF_ADDRESSES, OF_CLIENTS, entity_text
from raftka.metadata.records import ClientQuotaSet, Record
from raftka.metadata.security_commands import AlterClientQuotas, QuotaAlteration, QuotaResult
from raftka.wire.errors import Code, KafkaError, check_limit, limit_of, quoted

LARGEST = {LONG: float((1 << 63) - 1), INT: float((1 << 31) - 1)}
WHOLE = 1e-6  # a number counts as an integer if it is this near to one


def decide_alter_client_quotas(draft: Draft, command: AlterClientQuotas) -> Decision:
    """Set and remove quotas; the reply has a QuotaResult for each entity.

    An entity is altered as a whole or not at all; one that is refused does not affect the others.
    Raises INVALID_REQUEST for a request with too many changes.
    """
    image = draft.image
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
            changes = _make_changes(alteration, image.quotas.get(entity, {}))
            if entity not in image.quotas and changes:
                check_limit(CLIENT_QUOTAS, entities + 1, code=Code.INVALID_REQUEST)
                entities += 1
        except KafkaError as error:
            draft.environment.hits.extend(limit_of(error))
            results[entity] = QuotaResult(entity, int(error.code), error.message)
        else:
            records += changes
            results[entity] = QuotaResult(entity, 0, None)
    return [] if command.validate_only else records, tuple(results.values())


def _make_changes(alteration: QuotaAlteration, known: Mapping[str, float]) -> list[ClientQuotaSet]:
    """Raises INVALID_REQUEST."""
    types = _check_entity(alteration.entity)
    changes = []
    for op in alteration.ops:
        if op.remove:
            if op.key in known:
                changes.append(ClientQuotaSet(alteration.entity, op.key, None))
            continue
        _check_value(types, op.key, op.value)
        if known.get(op.key) != op.value:
            changes.append(ClientQuotaSet(alteration.entity, op.key, op.value))
    return changes


def _check_entity(entity: QuotaEntity) -> Mapping[str, str]:
    """Return the keys that such an entity may have, with the types of their values.

    The handler has checked the entity's types. Raises INVALID_REQUEST.
    """
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity:
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


def _check_value(types: Mapping[str, str], key: str, value: float) -> None:
    kind = types.get(key)
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
