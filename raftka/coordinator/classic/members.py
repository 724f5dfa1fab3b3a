"""Check that the member id and the instance id of a request belong together. Knows no request."""

from raftka.coordinator.classic.group import ClassicGroup, Member
from raftka.wire.errors import Code, KafkaError


def check_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> Member:
    """Raises FENCED_INSTANCE_ID when another is this instance now, UNKNOWN_MEMBER_ID."""
    if instance_id is not None:
        known = group.static.get(instance_id)
        if known is not None and known != member_id:
            raise KafkaError(Code.FENCED_INSTANCE_ID)
        if known is None:
            raise KafkaError(Code.UNKNOWN_MEMBER_ID)
    member = group.members.get(member_id)
    if member is None:
        raise KafkaError(Code.UNKNOWN_MEMBER_ID)
    return member
