"""`raftka groups ...` and `raftka offsets ...`: consumer groups through kafka-python's admin client, so they work against any Kafka."""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import IO, Any

from raftka.cli.admin import consumer_groups
from raftka.cli.admin.client import admin, finish, partitions_of, sentence
from raftka.cli.output import CommandFailed, command, show
from raftka.json_values import Json, JsonObject
from raftka.wire.errors import Code

PATIENCE_S = 10.0  # for a coordinator that is on its way
UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}
ISO_DURATION = re.compile(r"P(?:(?P<D>\d+)D)?(?:T(?:(?P<H>\d+)H)?(?:(?P<M>\d+)M)?(?:(?P<S>\d+)S)?)?")  # as kafka-consumer-groups takes them
MEMBERS_STAY = "the group has members: stop its consumers first"

Where = tuple[str, int]  # topic, partition


@command
def list_all(states: Sequence[str], bootstrap_server: str, output: str) -> None:
    with admin(bootstrap_server) as connected:
        found = _patiently(lambda: connected.list_groups(states_filter=list(states) or None))
        rows = [
            {"group": each["group_id"], "state": each.get("group_state"), "type": each.get("group_type"), "protocol": each["protocol_type"]}
            for each in sorted(found, key=lambda each: str(each["group_id"]))
        ]
        show(rows, ["group", "state", "type", "protocol"], output)


@command
def describe(groups: Sequence[str], bootstrap_server: str, output: str) -> None:
    with admin(bootstrap_server) as connected:
        described = _patiently(lambda: connected.describe_groups(list(groups)))
        for group in [group for group in groups if described[group]["group_state"] == "Dead"]:
            described[group] = consumer_groups.described(bootstrap_server, group) or described[group]
        missing = [group for group in groups if described[group]["group_state"] == "Dead"]
        there = [group for group in groups if group not in missing]
        rows = [row for group in there for row in _rows(connected, group, described[group])]
        finish(
            rows,
            ["group", "state", "topic", "partition", "offset", "end", "lag", "member", "host"],
            output,
            [sentence(group, Code.GROUP_ID_NOT_FOUND) for group in missing],
        )


def _rows(connected: Any, group: str, described: Mapping[str, Json]) -> Iterator[JsonObject]:
    """One for each partition that has an offset or a member, and one for each member that has none."""
    offsets = committed(connected, group)
    owners = {where: member for member in described["members"] for where in _owned(member)}
    ends = _ends(connected, offsets.keys() | owners.keys())
    for where in sorted(offsets.keys() | owners.keys()):
        offset, end = offsets.get(where), ends.get(where)
        lag = max(0, end - offset) if offset is not None and end is not None else None
        place = {"topic": where[0], "partition": where[1], "offset": offset, "end": end, "lag": lag}
        yield {"group": group, "state": described["group_state"], **place, **_who(owners.get(where))}
    idle = [member for member in described["members"] if not _owned(member)]
    for row in map(_who, idle or [None] * (not offsets and not owners)):
        yield {"group": group, "state": described["group_state"], **row}


def _who(member: Mapping[str, Json] | None) -> JsonObject:
    return {"member": member["member_id"], "host": member["client_host"]} if member is not None else {}


def _owned(member: Mapping[str, Json]) -> list[Where]:
    assignment = member["member_assignment"]
    topics = assignment["assigned_partitions"] if isinstance(assignment, dict) else ()
    return [(topic["topic"], partition) for topic in topics for partition in topic["partitions"]]


def committed(connected: Any, group: str) -> dict[Where, int]:
    """A group's offsets."""
    found = _patiently(lambda: connected.list_group_offsets(group))[group]
    return {(where.topic, where.partition): each.offset for where, each in found.items() if each.offset >= 0}


def _ends(connected: Any, wheres: Iterable[Where]) -> dict[Where, int]:
    """Of those that are there."""
    from kafka.admin import OffsetSpec

    return _at(connected, dict.fromkeys(_there(connected, wheres), OffsetSpec.LATEST))


def _there(connected: Any, wheres: Iterable[Where]) -> list[Where]:
    topics = {topic for topic, _ in wheres} & set(connected.list_topics())
    known = partitions_of(connected, sorted(topics)) if topics else {}
    return [where for where in wheres if where in known]


def _at(connected: Any, specs: Mapping[Where, Json]) -> dict[Where, int]:
    from kafka import TopicPartition

    found = connected.list_partition_offsets({TopicPartition(*where): spec for where, spec in specs.items()}) if specs else {}
    return {(where.topic, where.partition): each.offset for where, each in found.items()}


@command
def delete(groups: Sequence[str], bootstrap_server: str, output: str) -> None:
    with admin(bootstrap_server) as connected:
        answers = _patiently(lambda: connected.delete_groups(list(groups)))
        codes = {group: _code(name) for group, name in answers.items()}
        deleted = [{"group": group} for group, code in codes.items() if code == Code.NONE]
        refused = [_refusal(group, code) for group, code in codes.items() if code != Code.NONE]
        finish(deleted, ["group"], output, refused)


def _code(name: str) -> int:
    """Of an error as kafka-python names it."""
    import kafka.errors

    return 0 if name == "OK" else int(getattr(kafka.errors, name).errno)


def _refusal(name: str, code: int) -> str:
    return sentence(name, code, MEMBERS_STAY if code in (Code.NON_EMPTY_GROUP, Code.UNKNOWN_MEMBER_ID) else None)


# offsets


@command
def reset_offsets(
    group: str, topics: Sequence[str], partitions: Sequence[int], to: str | None, by: int | None, dry_run: bool, bootstrap_server: str, output: str
) -> None:
    if (to is None) == (by is None):
        raise CommandFailed("say where to: either --to or --by")
    kind, value = target(to, time.time()) if to is not None else ("by", by or 0)
    with admin(bootstrap_server) as connected:
        before = committed(connected, group)
        names = list(topics) or sorted({topic for topic, _ in before})
        if not names:
            raise CommandFailed(f"{group} has no offsets: name the topics")
        wanted = _wanted(partitions_of(connected, names), partitions)
        after = _targets(connected, wanted, kind, value, before)
        refused = [] if dry_run else commit(connected, group, after, {})
        bad = {text.partition(":")[0] for text in refused}
        rows = [
            {"group": group, "topic": topic, "partition": partition, "before": before.get((topic, partition)), "offset": after[topic, partition]}
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


def _targets(connected: Any, wheres: Sequence[Where], kind: str, value: int, before: Mapping[Where, int]) -> dict[Where, int]:
    """Always an offset that is there, or the end."""
    from kafka.admin import OffsetSpec, OffsetTimestamp

    begins = _at(connected, dict.fromkeys(wheres, OffsetSpec.EARLIEST))
    ends = _at(connected, dict.fromkeys(wheres, OffsetSpec.LATEST))
    found = _at(connected, dict.fromkeys(wheres, OffsetTimestamp(value))) if kind == "time" else {}
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
    """What --to means: start, end, current, an offset, so many back from the end, or a time (ms)."""
    if to in ("start", "end", "current"):
        return to, 0
    if re.fullmatch(r"-?\d+", to):
        return ("back", int(to[1:])) if to.startswith("-") else ("offset", int(to))
    if match := re.fullmatch(r"(\d+)([smhd])", to):
        return "time", round((now - int(match[1]) * UNIT_S[match[2]]) * 1000)
    if (match := ISO_DURATION.fullmatch(to)) and any(match.groups()):
        ago_s = sum(int(count or 0) * UNIT_S[unit.lower()] for unit, count in match.groupdict().items())
        return "time", round((now - ago_s) * 1000)
    try:
        return "time", round(datetime.fromisoformat(to).timestamp() * 1000)
    except ValueError:
        raise CommandFailed(f"--to {to}: start, end, current, an offset, -N, 90m, 2h, 7d, PT1H30M, or a time like 2026-11-21T08:00") from None


def commit(connected: Any, group: str, offsets: Mapping[Where, int], metadata: Mapping[Where, str]) -> list[str]:
    """What was refused, as sentences."""
    from kafka import OffsetAndMetadata, TopicPartition

    given = {TopicPartition(*where): OffsetAndMetadata(offset, metadata.get(where, ""), -1) for where, offset in offsets.items()}
    answers = _patiently(lambda: connected.alter_group_offsets(group, given))
    return [_refusal(f"{where.topic}-{where.partition}", error.errno) for where, error in sorted(answers.items()) if error.errno]


@command
def export_offsets(groups: Sequence[str], bootstrap_server: str, output: str) -> None:
    with admin(bootstrap_server) as connected:
        rows = []
        for group in groups:
            found = _patiently(lambda group=group: connected.list_group_offsets(group))[group]  # type: ignore[misc]
            rows += [
                {"group": group, "topic": where.topic, "partition": where.partition, "offset": each.offset, "metadata": each.metadata or ""}
                for where, each in sorted(found.items())
                if each.offset >= 0
            ]
        show(rows, ["group", "topic", "partition", "offset", "metadata"], output)


@command
def import_offsets(file: IO[str], group: str | None, dry_run: bool, bootstrap_server: str, output: str) -> None:
    offsets: dict[str, dict[Where, int]] = {}
    metadata: dict[str, dict[Where, str]] = {}
    for number, line in enumerate(file, 1):
        try:
            row = json.loads(line)
            name, where = group or str(row["group"]), (str(row["topic"]), int(row["partition"]))
            offsets.setdefault(name, {})[where] = int(row["offset"])
            metadata.setdefault(name, {})[where] = str(row.get("metadata") or "")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CommandFailed(f"line {number} is not an offset in JSON, as `raftka offsets export -o json` prints them: {error!r}") from None
    with admin(bootstrap_server) as connected:
        rows, refused = [], []
        for name, wanted in offsets.items():
            texts = [] if dry_run else commit(connected, name, wanted, metadata[name])
            bad = {text.partition(":")[0] for text in texts}
            refused += [f"{name}: {text}" for text in texts]
            rows += [
                {"group": name, "topic": topic, "partition": partition, "offset": offset}
                for (topic, partition), offset in wanted.items()
                if f"{topic}-{partition}" not in bad
            ]
        finish(rows, ["group", "topic", "partition", "offset"], output, refused)


def _patiently(ask: Callable[[], Any]) -> Any:
    """A coordinator may be on its way: the first question of all creates its topic."""
    import kafka.errors

    passing = (kafka.errors.CoordinatorNotAvailableError, kafka.errors.CoordinatorLoadInProgressError, kafka.errors.NotCoordinatorError)
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except passing:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
