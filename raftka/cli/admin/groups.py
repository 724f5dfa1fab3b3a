"""`raftka groups ...` and `raftka offsets ...`: consumer groups through Kafka's protocol alone, so
they work against any Kafka.
"""

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import IO, Any, NamedTuple

from raftka.cli.admin.client import ask_all, connect, finish, partitions_of, sentence
from raftka.cli.output import CommandFailed, check_fields, command, show
from raftka.client.blocking.client import Client, Where, check
from raftka.client.blocking.connection import Unsupported
from raftka.client.blocking.member import BY_NAME, commit_request
from raftka.coordinator.protocol import read_assignment
from raftka.wire.errors import Code
from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_DESCRIBE
from raftka.wire.messages.groups import DELETE_GROUPS, DESCRIBE_GROUPS, LIST_GROUPS
from raftka.wire.messages.list_offsets import EARLIEST, LATEST
from raftka.wire.messages.offsets import OFFSET_COMMIT, OFFSET_FETCH

UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# as kafka-consumer-groups takes them
ISO_DURATION = re.compile(
    r"P(?:(?P<D>\d+)D)?(?:T(?:(?P<H>\d+)H)?(?:(?P<M>\d+)M)?(?:(?P<S>\d+)S)?)?"
)
EXPORTED = ["group", "topic", "partition", "offset", "metadata"]
MEMBERS_STAY = "the group has members: stop its consumers first"
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


class Member(NamedTuple):
    member_id: str
    host: str
    assigned: Sequence[Where]


class Group(NamedTuple):
    state: str
    members: Sequence[Member]


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
                "type": each.group_type or None,
                "protocol": each.protocol_type,
            }
            for each in sorted(
                (each for answer in answers for each in answer.groups),
                key=lambda each: str(each.group_id),
            )
        ]
        show(rows, ["group", "state", "type", "protocol"], output)


def _state(given: str) -> str:
    known = {each.lower(): each for each in STATES}
    found = known.get(given.lower().replace("-", "").replace("_", ""))
    if found is None:
        raise CommandFailed(f"--state {given}: groups are {', '.join(STATES)}")
    return found


@command
def describe(groups: Sequence[str], bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        described = {group: _classic(client, group) or _consumer(client, group) for group in groups}
        rows = [
            row
            for group, each in described.items()
            if each is not None
            for row in _rows(client, group, each)
        ]
        missing = [
            sentence(group, Code.GROUP_ID_NOT_FOUND)
            for group, each in described.items()
            if each is None
        ]
        finish(
            rows,
            ["group", "state", "topic", "partition", "offset", "end", "lag", "member", "host"],
            output,
            missing,
        )


def _classic(client: Client, group: str) -> Group | None:
    found = client.ask_coordinator(
        group, DESCRIBE_GROUPS, DESCRIBE_GROUPS.request(groups=[group])
    ).groups[0]
    if found.error_code == Code.GROUP_ID_NOT_FOUND or (
        found.group_state == "Dead" and not found.error_code
    ):
        return None
    check(found.error_code, group)
    members = [
        Member(each.member_id, each.client_host, _assigned(bytes(each.member_assignment)))
        for each in found.members
    ]
    return Group(found.group_state, members)


def _assigned(assignment: bytes) -> list[Where]:
    """Nothing, where the group is none of consumers."""
    try:
        return [
            (topic, index)
            for topic, indexes in read_assignment(assignment).partitions.items()
            for index in indexes
        ]
    except ValueError:
        return []


def _consumer(client: Client, group: str) -> Group | None:
    """A group of the new protocol (KIP-848). None: there is no such group, or the broker does not
    know the protocol.
    """
    try:
        found = client.ask_coordinator(
            group, CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_DESCRIBE.request(group_ids=[group])
        ).groups[0]
    except Unsupported:
        return None
    if found.error_code:
        return None
    members = []
    for each in found.members:
        assigned = [
            (topic.topic_name, index)
            for topic in each.assignment.topic_partitions
            for index in topic.partitions
        ]
        members.append(Member(each.member_id, each.client_host, assigned))
    return Group(found.group_state, members)


def _rows(client: Client, group: str, described: Group) -> Iterator[dict[str, Any]]:
    """One for each partition that has an offset or a member, and one for each member that has
    none.
    """
    offsets = committed(client, group)
    owners = {where: member for member in described.members for where in member.assigned}
    ends = _ends(client, offsets.keys() | owners.keys())
    for where in sorted(offsets.keys() | owners.keys()):
        offset, end = offsets.get(where), ends.get(where)
        lag = max(0, end - offset) if offset is not None and end is not None else None
        place = {"topic": where[0], "partition": where[1], "offset": offset, "end": end, "lag": lag}
        yield {"group": group, "state": described.state, **place, **_who(owners.get(where))}
    idle: list[Member | None] = [member for member in described.members if not member.assigned]
    for row in map(_who, idle or [None] * (not offsets and not owners)):
        yield {"group": group, "state": described.state, **row}


def _who(member: Member | None) -> dict[str, Any]:
    return {"member": member.member_id, "host": member.host} if member is not None else {}


def committed(client: Client, group: str) -> dict[Where, int]:
    """A group's offsets."""
    return {where: offset for where, (offset, _) in _committed(client, group).items()}


def _committed(client: Client, group: str) -> dict[Where, tuple[int, str]]:
    """With their metadata."""
    answer = client.ask_coordinator(
        group,
        OFFSET_FETCH,
        OFFSET_FETCH.request(group_id=group, topics=None),
        BY_NAME[OFFSET_FETCH.key],
    )
    check(answer.error_code, group)
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            check(each.error_code, f"{topic.name}-{each.partition_index}")
            if each.committed_offset >= 0:
                found[topic.name, each.partition_index] = each.committed_offset, each.metadata or ""
    return found


def _ends(client: Client, wheres: Iterable[Where]) -> dict[Where, int]:
    """Return the end offsets of those partitions that exist."""
    wanted = set(wheres)
    topics = client.metadata({topic for topic, _ in wanted}).topics if wanted else ()
    there = {
        (topic.name, each.partition_index)
        for topic in topics
        if not topic.error_code
        for each in topic.partitions
    }
    return client.offsets(dict.fromkeys(wanted & there, LATEST))


@command
def delete(groups: Sequence[str], bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        codes = {
            group: client.ask_coordinator(
                group, DELETE_GROUPS, DELETE_GROUPS.request(groups_names=[group])
            )
            .results[0]
            .error_code
            for group in groups
        }
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
    kind, value = target(to, time.time()) if to is not None else ("by", by or 0)
    with connect(bootstrap_server) as client:
        before = committed(client, group)
        names = list(topics) or sorted({topic for topic, _ in before})
        if not names:
            raise CommandFailed(f"{group} has no offsets: name the topics")
        wanted = _wanted(partitions_of(client, names), partitions)
        after = _targets(client, wanted, kind, value, before)
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


def _targets(
    client: Client, wheres: Sequence[Where], kind: str, value: int, before: Mapping[Where, int]
) -> dict[Where, int]:
    """Always an offset that is there, or the end."""
    begins = client.offsets(dict.fromkeys(wheres, EARLIEST))
    ends = client.offsets(dict.fromkeys(wheres, LATEST))
    found = client.offsets(dict.fromkeys(wheres, value)) if kind == "time" else {}
    if kind == "by" and not before.keys() >= set(wheres):
        topic, partition = min(set(wheres) - before.keys())
        raise CommandFailed(f"{topic}-{partition} has no offset that --by could go from")

    def one(where: Where) -> int:
        match kind:
            case "start":
                return begins[where]
            case "back":
                return ends[where] - value
            case "by":
                return before[where] + value
            case "current":
                return before.get(where, ends[where])
            case "offset":
                return value
            case "time" if found[where] >= 0:
                return found[where]
        return ends[where]

    return {where: max(begins[where], min(one(where), ends[where])) for where in wheres}


def target(to: str, now: float) -> tuple[str, int]:
    """Parse --to: start, end, current, an offset, a distance back from the end, or a time (ms)."""
    if to in ("start", "end", "current"):
        return to, 0
    if re.fullmatch(r"-?\d+", to):
        return ("back", int(to[1:])) if to.startswith("-") else ("offset", int(to))
    if match := re.fullmatch(r"(\d+)([smhd])", to):
        return "time", round((now - int(match[1]) * UNIT_S[match[2]]) * 1000)
    if (match := ISO_DURATION.fullmatch(to)) and any(match.groups()):
        ago_s = sum(
            int(count or 0) * UNIT_S[unit.lower()] for unit, count in match.groupdict().items()
        )
        return "time", round((now - ago_s) * 1000)
    try:
        return "time", round(datetime.fromisoformat(to).timestamp() * 1000)
    except ValueError:
        raise CommandFailed(
            f"--to {to}: start, end, current, an offset, -N, 90m, 2h, 7d, PT1H30M, or a time like "
            "2026-11-21T08:00"
        ) from None


def commit(
    client: Client, group: str, offsets: Mapping[Where, int], metadata: Mapping[Where, str]
) -> list[str]:
    """Commit the offsets; return the refusals as sentences."""
    answer = client.ask_coordinator(
        group,
        OFFSET_COMMIT,
        commit_request(group, offsets, metadata=metadata),
        BY_NAME[OFFSET_COMMIT.key],
    )
    codes = sorted(
        ((topic.name, each.partition_index), each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    )
    return [_refusal(f"{topic}-{index}", code) for (topic, index), code in codes if code]


@command
def export_offsets(groups: Sequence[str], bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        rows = [
            {
                "group": group,
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "metadata": metadata,
            }
            for group in groups
            for (topic, partition), (offset, metadata) in sorted(_committed(client, group).items())
        ]
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
