"""Client quotas of simulated nodes, as clients set and read them."""

from collections.abc import Mapping

from raftka.wire.messages.client_quotas import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from tests.broker.stage import Wire

Entity = tuple[tuple[str, str | None], ...]


def alter(wire: Wire, entity: Mapping[str, str | None], **values: float | None) -> int:
    """Set the values of one entity; None removes one. Returns the error."""
    row = ALTER_CLIENT_QUOTAS.request.entries
    components = [row.entity(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    ops = [row.ops(key=key, value=0.0 if value is None else value, remove=value is None) for key, value in values.items()]
    (result,) = wire.ask(ALTER_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS.request(entries=[row(entity=components, ops=ops)])).entries
    return result.error_code


def described(wire: Wire) -> dict[Entity, dict[str, float]]:
    """All quotas."""
    answer = wire.ask(DESCRIBE_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS.request())
    assert answer.error_code == 0
    return {
        tuple((each.entity_type, each.entity_name) for each in entry.entity): {value.key: value.value for value in entry.values}
        for entry in answer.entries or ()
    }
