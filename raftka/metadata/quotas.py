"""Client quotas as values: types of entities, keys and the types of their values.

An entity is a tuple of (type, name) in the order of TYPES; the name None is the default of that
type.
"""

from collections.abc import Iterable

from raftka.metadata.image import QuotaEntity
from raftka.wire.errors import quoted

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES = (CLIENT_ID, USER, IP)
PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE = "producer_byte_rate", "consumer_byte_rate"
REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE = "request_percentage", "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"
LONG, INT, DOUBLE = "LONG", "INT", "DOUBLE"
OF_CLIENTS = {
    PRODUCER_BYTE_RATE: LONG,
    CONSUMER_BYTE_RATE: LONG,
    REQUEST_PERCENTAGE: DOUBLE,
    CONTROLLER_MUTATION_RATE: DOUBLE,
}
OF_ADDRESSES = {CONNECTION_CREATION_RATE: INT}


def entity_of(components: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Put components in the order of TYPES, unknown types last. The last one of a type counts."""
    by_type = dict(components)
    known = [(kind, by_type.pop(kind)) for kind in TYPES if kind in by_type]
    return (*known, *by_type.items())


def entity_text(entity: QuotaEntity) -> str:
    """Return the entity as Kafka's error messages show it."""
    entries = ", ".join(
        f"{kind}={'null' if name is None else quoted(name)}" for kind, name in entity
    )
    return f"ClientQuotaEntity(entries={{{entries}}})"
