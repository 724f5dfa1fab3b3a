"""The page of one group as JSON: members, partitions with lag, history, findings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.groups import DescribedGroup, GroupMember, subtopology_of
from raftka.console.groups.diagnosis import Finding, diagnose
from raftka.console.groups.facts import Facts, PartitionFacts, read_facts, with_times
from raftka.console.groups.history import Since, host_of, name_member
from raftka.console.groups.memory import Memory
from raftka.console.limits import MEMBERS_SHOWN, PARTITIONS_OF_FINDING
from raftka.console.rows import missing_nodes, rows_of_page
from raftka.json_values import Json

if TYPE_CHECKING:
    from raftka.console.view.view import View

PARTITION_ORDERS = ("-lag", "lag", "place", "-place", "still", "-still")
READERS_SHOWN = 3  # members that read one share partition
SPARKS = 120  # points of the curve of the lag


class PageOfPartitions(NamedTuple):
    sort: str  # of PARTITION_ORDERS
    page: int  # from 1
    size: int


def describe_group(
    view: "View", client: Client, memory: Memory, group_id: str, wanted: PageOfPartitions
) -> dict[str, Json]:
    """Return a group, a page of its partitions, and why it does not move. Raises as `read_facts`
    does.
    """
    facts = read_facts(view, client, group_id, memory.histories, memory.times)
    shown, missing = with_times(
        view,
        memory.times,
        rows_of_page(_sorted(facts.partitions, wanted.sort), wanted.page, wanted.size),
    )
    described = facts.described
    samples = facts.seen.samples[-SPARKS:]
    return {
        "name": group_id,
        "type": facts.type,
        "state": facts.state or None,
        "state_since": _since(facts.seen.state_since),
        "is_described": described is not None,
        "assignor": described.assignor if described is not None else None,
        "coordinator": facts.coordinator,
        "epoch": described.epoch if described is not None else None,
        "assignment_epoch": described.assignment_epoch if described is not None else None,
        "members": [_member(each, facts) for each in facts.members[: MEMBERS_SHOWN.value]],
        "member_count": len(facts.members),
        "lag": facts.lag,
        "partitions": [_partition(each, facts.now_s) for each in shown],
        "partition_count": len(facts.partitions),
        "topics": _topics(facts),
        "topology": _topology(described) if described is not None else [],
        "missing_topics": list(facts.missing_topics),
        "findings": [_finding(each) for each in diagnose(facts)],
        "events": [
            {"at_ms": round(each.at_s * 1000), "what": each.what, "text": each.text}
            for each in reversed(facts.seen.events)
        ],
        "lags": [each.lag for each in samples],
        "lags_from_ms": round(samples[0].at_s * 1000) if samples else None,
        "watched_ms": round(facts.seen.watched_s * 1000),
        "now_ms": round(facts.now_s * 1000),
        "missing": missing_nodes({**facts.missing, **missing}),
    }


def _topics(facts: Facts) -> list[dict[str, Json]]:
    found: dict[str, list[PartitionFacts]] = {}
    for each in facts.partitions:
        found.setdefault(each.where[0], []).append(each)
    return [
        {
            "name": topic,
            "partitions": len(own),
            "committed": sum(each.committed is not None for each in own),
            "lag": sum(each.lag or 0 for each in own),
            "is_read": any(each.owner is not None for each in own),
        }
        for topic, own in sorted(found.items())
    ]


def _topology(group: DescribedGroup) -> list[dict[str, Json]]:
    """Return the subtopologies of a streams group, with the tasks that its members have."""
    active: Counter[str] = Counter()
    copies: Counter[str] = Counter()
    for tasks in filter(None, [member.tasks for member in group.members]):
        active.update(map(subtopology_of, tasks.active))
        copies.update(map(subtopology_of, [*tasks.standby, *tasks.warmup]))
    return [
        {
            "id": each.id,
            "sources": list(each.source_topics),
            "repartition_sources": list(each.repartition_sources),
            "sinks": list(each.sinks),
            "changelogs": list(each.changelogs),
            "active_tasks": active[each.id],
            "copies": copies[each.id],
        }
        for each in group.topology
    ]


def _sorted(partitions: Sequence[PartitionFacts], sort: str) -> list[PartitionFacts]:
    """`partitions`: by their place. Unknown values come last."""
    order, is_descending = sort.removeprefix("-"), sort.startswith("-")
    if order == "place":
        return sorted(partitions, key=lambda each: each.where, reverse=is_descending)
    sign = -1 if is_descending else 1
    if order == "lag":
        return sorted(partitions, key=lambda each: (each.lag is None, sign * (each.lag or 0)))
    # the longest without a commit is the one with the earliest time
    return sorted(
        partitions,
        key=lambda each: (each.still is None, -sign * (each.still.at_s if each.still else 0.0)),
    )


def _since(since: Since | None) -> Json:
    if since is None:
        return None
    return {"at_ms": round(since.at_s * 1000), "is_exact": since.is_exact}


def _member(member: GroupMember, facts: Facts) -> dict[str, Json]:
    target = set(member.target) if member.target is not None else None
    to_revoke = [where for where in member.assigned if target is not None and where not in target]
    names = {each.member_id: name_member(each) for each in facts.members}
    awaited = {
        where: each
        for where, (each, _) in facts.seen.awaited.items()
        if each.waiter == member.member_id
    }
    return {
        "id": member.member_id,
        "client_id": member.client_id,
        "host": host_of(member),
        "instance_id": member.instance_id,
        "rack": member.rack,
        "epoch": member.epoch,
        "speaks_classic": member.speaks_classic,
        "subscribed": list(member.subscribed),
        "assigned": _places(member.assigned),
        "target": _places(member.target) if member.target is not None else None,
        "to_revoke": _places(to_revoke),
        "waits_for": [
            {"partition": f"{where[0]}-{where[1]}", "holder": names.get(each.holder or "")}
            for where, each in sorted(awaited.items())
        ],
        "tasks": {kind: list(own) for kind, own in member.tasks._asdict().items()}
        if member.tasks is not None
        else None,
        "process_id": member.process_id,
        "endpoint": f"{member.endpoint[0]}:{member.endpoint[1]}" if member.endpoint else None,
    }


def _places(wheres: Sequence[Where]) -> list[str]:
    return [f"{topic}-{partition}" for topic, partition in sorted(wheres)]


def _partition(each: PartitionFacts, now_s: float) -> dict[str, Json]:
    record = each.next_record
    return {
        "topic": each.where[0],
        "partition": each.where[1],
        "committed": each.committed,
        "start": each.start,
        "end": each.end,
        "stable": each.stable,
        "lag": each.lag,
        "seconds": rounded(each.seconds(now_s)),
        "seconds_why": record.why if record is not None else "",
        "leader": each.leader,
        "error": each.error,
        "done_ahead": each.done_ahead,
        "owner": _names(each.readers),
        "owner_id": each.owner.member_id if each.owner is not None else None,
        "still": _since(each.still),
        "is_held_back": each.is_held_back,
    }


def _names(members: Sequence[GroupMember]) -> str | None:
    names = ", ".join(map(name_member, members[:READERS_SHOWN]))
    more = len(members) - READERS_SHOWN
    return f"{names} and {more} more" if more > 0 else names or None


def rounded(seconds: float | None) -> float | None:
    """Times of records are in ms."""
    return round(seconds, 3) if seconds is not None else None


def _finding(finding: Finding) -> Mapping[str, Json]:
    return {
        "cause": finding.cause,
        "level": finding.level,
        "text": finding.text,
        "next_step": finding.next_step,
        "command": finding.command,
        "partitions": _places(finding.partitions)[: PARTITIONS_OF_FINDING.value],
        "since_ms": round(finding.since_s * 1000) if finding.since_s is not None else None,
    }
