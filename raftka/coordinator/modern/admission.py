"""Checks of the members of groups of the new protocols, in Kafka's words. `kind`: the group's type,
as consumer. Knows no message.
"""

from collections.abc import Sized

from raftka.coordinator.modern.group import AnyMember, StaticGroup
from raftka.limits import MEMBERS_OF_GROUP
from raftka.wire.errors import Code, KafkaError

NAME_LENGTH = 256  # characters of a client's name that records keep


def refuse(wrong: bool, message: str) -> None:
    """Raise INVALID_REQUEST if the request is wrong."""
    if wrong:
        raise KafkaError(Code.INVALID_REQUEST, message)


def check_size(members: Sized, max_size: int, kind: str) -> None:
    """Raise GROUP_MAX_SIZE_REACHED if there is no room for a member more."""
    most = min(max_size, MEMBERS_OF_GROUP.value)
    if len(members) >= most:
        raise KafkaError(
            Code.GROUP_MAX_SIZE_REACHED,
            f"The {kind} group has reached its maximum capacity of {most} members.",
        )


def unknown(group_id: str, member_id: str) -> KafkaError:
    return KafkaError(
        Code.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


def named_member(
    group: StaticGroup[AnyMember], member_id: str, instance_id: str | None
) -> AnyMember:
    """Return the member that a request names, a static one by its instance id too. Raises
    UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if instance_id is not None:
        return check_instance(group.static_member(instance_id), member_id, instance_id)
    found = group.members.get(member_id)
    if found is None:
        raise unknown(group.group_id, member_id)
    return found


def check_instance(held: AnyMember | None, member_id: str, instance_id: str) -> AnyMember:
    """Return the member that has the instance id. Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    if held is None:
        raise KafkaError(Code.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if held.member_id != member_id:
        raise KafkaError(
            Code.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{held.member_id}.",
        )
    return held


def unreleased(member_id: str, instance_id: str | None, owner_id: str) -> KafkaError:
    return KafkaError(
        Code.UNRELEASED_INSTANCE_ID,
        f"Static member {member_id} with instance id {instance_id} cannot join the group because "
        f"the instance id is owned by {owner_id} member.",
    )


def fenced(kind: str, epoch: int, now: int, more: str = "") -> KafkaError:
    """`now`: the member's epoch; `more`: a part of the sentence."""
    which = "greater" if epoch > now else "smaller"
    return KafkaError(
        Code.FENCED_MEMBER_EPOCH,
        f"The {kind} group member has a {which} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({now}){more}. The member must abandon all its partitions and rejoin.",
    )
