"""`raftka groups ...` and `raftka offsets ...`: consumer groups through Kafka's protocol alone, so
they work against any Kafka.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from raftka.cli.admin.client import (
    ask_all,
    connect,
    finish,
    partitions_of,
    sentence,
    warn_of_lost,
)
from raftka.cli.output import CommandFailed, check_fields, command, show, warn_of_lack
from raftka.cli.records.positions import read_position
from raftka.client.blocking.client import Client, Where, check
from raftka.client.blocking.groups import (
    SHARE,
    SHARES,
    Committed,
    DescribedGroup,
    GroupMember,
    committed,
    delete_group,
    delete_offsets,
    describe_groups,
    describe_groups_by,
    fetch_offsets,
    find_ends,
    find_targets,
)
from raftka.client.blocking.positions import Position
from raftka.client.blocking.share_groups import (
    ShareOffset,
    delete_share_offsets,
    is_share_group,
    move_offsets,
    offsets_of_group,
    share_offsets,
)
from raftka.wire.errors import Code
from raftka.wire.messages.groups import LIST_GROUPS

EXPORTED = ["group", "topic", "partition", "offset", "metadata"]
MEMBERS_STAY = "the group has members: stop its consumers first"
SUBSCRIBED = "a member of the group reads the topic: stop its consumers first"
STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
)


@command
def list_all(states: Sequence[str], bootstrap_server: str, output: str) -> None:
    request = LIST_GROUPS.request(states_filter=[_state(each) for each in states])
    with connect(bootstrap_server) as client:
        answers = ask_all(
            client, LIST_GROUPS, request, "groups that it coordinates may be missing"
        ).values()
        for answer in answers:
            check(answer.error_code)
        rows = [
            {
                "group": each.group_id,
                "state": each.group_state or None,
                "group_type": each.group_type or None,
                "protocol_type": each.protocol_type,
            }
            for each in sorted(
                (each for answer in answers for each in answer.groups),
                key=lambda each: str(each.group_id),
            )
        ]
        show(rows, ["group", "state", "group_type", "protocol_type"], output)


def _state(given: str) -> str:
    known = {each.lower(): each for each in STATES}
    found = known.get(given.lower().replace("-", "").replace("_", ""))
    if found is None:
        raise CommandFailed(f"--state {given}: groups are {', '.join(STATES)}")
    return "NOT_READY" if found == "NotReady" else found  # as brokers want it


@command
def describe(groups: Sequence[str], bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        described, lost = describe_groups(client, groups)
        consumers = [name for name, each in described.items() if each.type != SHARE]
        offsets, lost_offsets = fetch_offsets(client, consumers)
        assigned = {where for name in consumers for where in described[name].owners}
        ends, lacks = find_ends(client, assigned.union(*offsets.values()))
        for lack in lacks:
            warn_of_lack(lack)
        rows: list[dict[str, Any]] = []
        for group in dict.fromkeys(each for each in groups if each in described):
            found = described[group]
            places = (
                _share_places(found, share_offsets(client, group))
                if found.type == SHARE
                else _places(found, offsets.get(group, {}), ends)
            )
            rows += _rows(group, found, places)
        warn_of_lost({**lost_offsets, **lost})
        missing = [
            sentence(group, Code.GROUP_ID_NOT_FOUND)
            for group in dict.fromkeys(groups)
            if group not in described and group not in lost
        ]
        finish(
            rows,
            ["group", "state", "topic", "partition", "offset", "end", "lag", "member", "host"],
            output,
            missing,
        )


def _places(
    described: DescribedGroup, offsets: Mapping[Where, Committed], ends: Mapping[Where, int]
) -> dict[Where, dict[str, int | None]]:
    found = {}
    for where in offsets.keys() | described.owners.keys():
        offset = offsets[where].offset if where in offsets else None
        end = ends.get(where)
        lag = max(0, end - offset) if offset is not None and end is not None else None
        found[where] = {"offset": offset, "end": end, "lag": lag}
    return found


def _share_places(
    described: DescribedGroup, offsets: Mapping[Where, ShareOffset]
) -> dict[Where, dict[str, int | None]]:
    found = {}
    for where in offsets.keys() | described.owners.keys():
        start, lag = offsets.get(where, ShareOffset(None, None))
        found[where] = {"offset": start, "lag": lag}
    return found


def _rows(
    group: str, described: DescribedGroup, places: Mapping[Where, Mapping[str, int | None]]
) -> Iterator[dict[str, Any]]:
    """One for each partition and member that reads it, and one for each member that reads none."""
    head, readers = {"group": group, "state": described.state}, described.readers
    for (topic, partition), place in sorted(places.items()):
        row = {**head, "topic": topic, "partition": partition, **place}
        of_members: list[GroupMember | None] = [*readers.get((topic, partition), ())]
        yield from ({**row, **_who(each)} for each in of_members or [None])
    idle: list[GroupMember | None] = [each for each in described.members if not each.assigned]
    yield from ({**head, **_who(each)} for each in idle or [None] * (not places))


def _who(member: GroupMember | None) -> dict[str, Any]:
    return {"member": member.member_id, "host": member.host} if member is not None else {}


@command
def delete(groups: Sequence[str], bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        codes = {group: delete_group(client, group) for group in groups}
        deleted = [{"group": group} for group, code in codes.items() if code == Code.NONE]
        refused = [_refusal(group, code) for group, code in codes.items() if code != Code.NONE]
        finish(deleted, ["group"], output, refused)


def _refusal(name: str, code: int) -> str:
    return sentence(
        name, code, MEMBERS_STAY if code in (Code.NON_EMPTY_GROUP, Code.UNKNOWN_MEMBER_ID) else None
    )


# offsets


@command
def reset_offsets(
    group: str,
    topics: Sequence[str],
    partitions: Sequence[int],
    to: str | None,
    by: int | None,
    dry_run: bool,
    bootstrap_server: str,
    output: str,
) -> None:
    if (to is None) == (by is None):
        raise CommandFailed("say where to: either --to or --by")
    words = ("start", "end", "current")
    position = (
        read_position("--to", to, time.time(), words) if to is not None else Position("by", by or 0)
    )
    with connect(bootstrap_server) as client:
        before = offsets_of_group(client, group)
        names = list(topics) or sorted({topic for topic, _ in before})
        if not names:
            raise CommandFailed(f"{group} has no offsets: name the topics")
        wanted = _wanted(partitions_of(client, names), partitions)
        after = find_targets(client, wanted, position, before)
        refused = [] if dry_run else commit(client, group, after, {})
        bad = {text.partition(":")[0] for text in refused}
        rows = [
            {
                "group": group,
                "topic": topic,
                "partition": partition,
                "before": before.get((topic, partition)),
                "offset": after[topic, partition],
            }
            for topic, partition in sorted(after)
            if f"{topic}-{partition}" not in bad
        ]
        finish(rows, ["group", "topic", "partition", "before", "offset"], output, refused)


def _wanted(there: Iterable[Where], partitions: Sequence[int]) -> list[Where]:
    wanted = [where for where in there if not partitions or where[1] in partitions]
    missing = set(partitions) - {partition for _, partition in wanted}
    if missing:
        raise CommandFailed(f"there is no partition {min(missing)}")
    return wanted


def commit(
    client: Client, group: str, offsets: Mapping[Where, int], metadata: Mapping[Where, str]
) -> list[str]:
    """Move the offsets of the group; return the refusals as sentences."""
    refused = move_offsets(client, group, offsets, metadata)
    return [_refusal(f"{topic}-{index}", code) for (topic, index), code in sorted(refused.items())]


@command
def delete_committed(
    group: str,
    topics: Sequence[str],
    partitions: Sequence[int],
    bootstrap_server: str,
    output: str,
) -> None:
    """Delete the offsets that a group has committed in topics, or in some partitions of them."""
    with connect(bootstrap_server) as client:
        if is_share_group(client, group):
            _delete_of_share_group(client, group, topics, partitions, output)
            return
        wanted = [
            (topic, partition)
            for topic, partition in sorted(committed(client, group))
            if topic in topics and (not partitions or partition in partitions)
        ]
        if not wanted:
            raise CommandFailed(f"{group} has no offset there: `raftka groups describe {group}`")
        bad = delete_offsets(client, group, wanted)
        rows = [
            {"group": group, "topic": topic, "partition": partition}
            for topic, partition in wanted
            if (topic, partition) not in bad
        ]
        refused = [
            sentence(
                f"{topic}-{index}",
                code,
                SUBSCRIBED if code == Code.GROUP_SUBSCRIBED_TO_TOPIC else None,
            )
            for (topic, index), code in sorted(bad.items())
        ]
        finish(rows, ["group", "topic", "partition"], output, refused)


def _delete_of_share_group(
    client: Client, group: str, topics: Sequence[str], partitions: Sequence[int], output: str
) -> None:
    """Delete the start offsets of whole topics: Kafka has no request for some partitions."""
    if partitions:
        raise CommandFailed(f"{group} is a share group: offsets of whole topics are deleted")
    bad = delete_share_offsets(client, group, topics)
    rows = [{"group": group, "topic": topic} for topic in topics if topic not in bad]
    finish(rows, ["group", "topic"], output, [_refusal(*each) for each in sorted(bad.items())])


@command
def export_offsets(groups: Sequence[str], bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        found, lost = fetch_offsets(client, groups)
        for group in describe_groups_by(client, SHARES, groups)[0]:
            starts = offsets_of_group(client, group)
            found[group] = {where: Committed(offset, "") for where, offset in starts.items()}
        rows = [
            {
                "group": group,
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "metadata": metadata,
            }
            for group in dict.fromkeys(groups)
            for (topic, partition), (offset, metadata) in sorted(found.get(group, {}).items())
        ]
        warn_of_lost(lost)
        show(rows, EXPORTED, output)


@command
def import_offsets(
    file: IO[str], group: str | None, dry_run: bool, bootstrap_server: str, output: str
) -> None:
    offsets: dict[str, dict[Where, int]] = {}
    metadata: dict[str, dict[Where, str]] = {}
    for number, line in enumerate(file, 1):
        try:
            row = json.loads(line)
            check_fields(row, EXPORTED, f"line {number}")
            name, where = group or str(row["group"]), (str(row["topic"]), int(row["partition"]))
            offsets.setdefault(name, {})[where] = int(row["offset"])
            metadata.setdefault(name, {})[where] = str(row.get("metadata") or "")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CommandFailed(
                f"line {number} is not an offset in JSON, as `raftka offsets export -o json` "
                f"prints them: {error!r}"
            ) from None
    with connect(bootstrap_server) as client:
        rows, refused = [], []
        for name, wanted in offsets.items():
            texts = [] if dry_run else commit(client, name, wanted, metadata[name])
            bad = {text.partition(":")[0] for text in texts}
            refused += [f"{name}: {text}" for text in texts]
            rows += [
                {"group": name, "topic": topic, "partition": partition, "offset": offset}
                for (topic, partition), offset in wanted.items()
                if f"{topic}-{partition}" not in bad
            ]
        finish(rows, ["group", "topic", "partition", "offset"], output, refused)
