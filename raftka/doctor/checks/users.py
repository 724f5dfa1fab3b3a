"""Checks of groups, share groups and transactions."""

import shlex
from collections.abc import Iterator, Mapping

from raftka.client.blocking.client import Where
from raftka.client.blocking.groups import SHARE
from raftka.doctor.checks.finding import BAD, Found, count, finds, has, places
from raftka.doctor.facts import Facts, Group, Offsets


def _lag(group: Group) -> int:
    return sum(
        max(0, each.end - each.committed)
        for each in group.offsets.values()
        if each.end is not None and each.committed is not None
    )


@finds("group-without-members")
def group_without_members(facts: Facts) -> Iterator[Found]:
    for each in facts.groups:
        if not each.members and (lag := _lag(each)):
            yield Found(
                f"Group {each.id} has no members, and {count(lag, 'record')} wait for it: start "
                "its consumers, or delete the group.",
                f"raftka groups describe {shlex.quote(each.id)}",
            )


def _outside(each: Offsets) -> bool:
    """Return whether the offset is none of the log's: its reset policy decides what is read."""
    return each.committed is not None and (
        (each.begin is not None and each.committed < each.begin)
        or (each.end is not None and each.committed > each.end)
    )


@finds("group-offsets-outside", BAD)
def group_offsets_outside(facts: Facts) -> Iterator[Found]:
    for group in facts.groups:
        found = [where for where, each in group.offsets.items() if _outside(each)]
        if found:
            yield Found(
                f"Group {group.id} has committed offsets that are not in the log "
                f"({places(found)}): records are skipped or read twice; stop its consumers and "
                "set the offsets.",
                f"raftka groups reset-offsets {shlex.quote(group.id)} {min(found)[0]} --to start "
                "--dry-run",
            )


@finds("group-without-offsets")
def group_without_offsets(facts: Facts) -> Iterator[Found]:
    """Members that read and commit nothing: the next one begins anew."""
    for group in facts.groups:
        found = _uncommitted(group.offsets)
        if found and group.type != SHARE:
            yield Found(
                f"Group {group.id} reads {places(found)} and has committed no offset there: after "
                "a restart it begins at auto.offset.reset; let it commit.",
                f"raftka groups describe {shlex.quote(group.id)}",
            )


def _uncommitted(offsets: Mapping[Where, Offsets]) -> list[Where]:
    return [where for where, each in offsets.items() if each.committed is None and each.end]


@finds("share-group-stands")
def share_group_stands(facts: Facts) -> Iterator[Found]:
    for group in facts.groups:
        if group.stands and group.members:
            yield Found(
                f"Share group {group.id} has records that no member finishes "
                f"({places(group.stands)}): see whether its members release or forget them.",
                f"raftka groups describe {shlex.quote(group.id)}",
            )


@finds("transactions-hanging", BAD)
def transactions_hanging(facts: Facts) -> Iterator[Found]:
    if facts.hanging:
        number = len(facts.hanging)
        topic, partition = facts.hanging[0].where
        yield Found(
            f"{count(number, 'transaction')} {has(number, 'is', 'are')} open that no coordinator "
            f"knows ({places({each.where for each in facts.hanging})}): read_committed consumers "
            "wait behind it for ever; abort it.",
            f"raftka transactions abort --topic {topic} --partition {partition} "
            f"--start-offset {facts.hanging[0].start_offset}",
        )
