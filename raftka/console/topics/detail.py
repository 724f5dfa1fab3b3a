"""One topic: its figures, its partitions with their replicas, and the groups that read it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.topics import EligibleReplicas, find_eligible_replicas
from raftka.console.dead_letters.finding import PATTERNS, matching
from raftka.console.rows import missing_nodes
from raftka.console.topics.table import SOUND
from raftka.console.view.metadata import Partition, Topic
from raftka.console.view.sizes import Replica, Replicas
from raftka.console.view.view import View
from raftka.json_values import Json, JsonObject
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.list_offsets import EARLIEST, LATEST

PARTITION_KEYS = ("index", "leader", "bytes", "messages", "rate")
PARTITION_ORDERS = (*PARTITION_KEYS, *(f"-{key}" for key in PARTITION_KEYS))
GROUP_KEYS = ("lag", "group", "state", "type")
GROUP_ORDERS = (*GROUP_KEYS, *(f"-{key}" for key in GROUP_KEYS))


class Page(NamedTuple):
    sort: str
    page: int
    size: int

    def cut(self, rows: list[JsonObject], name: str) -> JsonObject:
        """Return the rows of the page under `name`, ordered; unknown values come last."""
        key, sign = self.sort.removeprefix("-"), self.sort.startswith("-")
        known = [row for row in rows if row[key] is not None]
        known.sort(key=lambda row: row[key], reverse=sign)
        ordered = known + [row for row in rows if row[key] is None]
        last_page = max(1, -(-len(rows) // self.size))
        page = min(self.page, last_page)
        first = (page - 1) * self.size
        return {
            name: ordered[first : first + self.size],
            "page": page,
            "size": self.size,
            "total": len(rows),
        }


def find_topic(view: View, name: str) -> Topic:
    """Raises KafkaError."""
    # a topic that is not there could be a new one
    topic = view.metadata().topics.get(name) or view.metadata(0.0).topics.get(name)
    if topic is None:
        raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
    return topic


def describe_topic(view: View, name: str) -> JsonObject:
    """Return the figures of a topic as a whole. Those of all topics that are not read yet are
    null.
    """
    topic = find_topic(view, name)
    metadata, overview = view.metadata(), view.overview()
    health = metadata.health.get(name, SOUND)
    wheres = _wheres(topic)
    starts, ends = view.starts(wheres), view.ends(wheres)
    replicas = view.replicas(name)
    sizes = _largest(replicas)
    lags = overview.lags
    rates = overview.ends.rates_by_topic if overview.ends is not None else {}
    return {
        "name": name,
        "topic_id": topic.topic_id,
        "internal": topic.internal,
        "has_dead_letters": matching(name, PATTERNS) is not None,
        "error": topic.error,
        "partitions": len(topic.partitions),
        "replication": topic.replication,
        "under_replicated": health.under_replicated,
        "offline": health.offline,
        "messages": _sum_of(_messages(wheres, starts, ends)),
        "bytes": sum(sizes.values()) if sizes else None,
        "rate": rates.get(name),
        "lag": lags.by_topic.get(name, 0) if lags is not None else None,
        "groups": len(lags.of_topic.get(name, ())) if lags is not None else None,
        "missing": missing_nodes(replicas.missing),
    }


def list_partitions(view: View, client: Client, name: str, page: Page) -> JsonObject:
    """Return a page of partitions with their offsets and replicas."""
    topic = find_topic(view, name)
    lacking = any(len(each.isr) < len(each.replicas) for each in topic.partitions)
    eligible = find_eligible_replicas(client, [name] if lacking else [])
    wheres = _wheres(topic)
    starts, ends = view.offsets(wheres, EARLIEST), view.offsets(wheres, LATEST)
    replicas = view.replicas(name)
    ends_of_all = view.overview().ends
    rates = ends_of_all.rates if ends_of_all is not None and ends_of_all.has_rates else None
    sizes = _largest(replicas)
    messages = _messages(wheres, starts.of, ends.of)
    rows = [
        {
            "index": each.index,
            "leader": each.leader if each.leader >= 0 else None,
            "leader_epoch": each.leader_epoch,
            "start": starts.of.get(where),
            "end": ends.of.get(where),
            "error": ends.failed.get(where),
            "messages": messages.get(where),
            "bytes": sizes.get(each.index),
            "rate": rates.get(where, 0.0) if rates is not None else None,
            "replicas": _replicas(
                each,
                replicas.by_partition.get(each.index, ()),
                eligible.get(where, EligibleReplicas()),
            ),
        }
        for each, where in zip(topic.partitions, wheres, strict=True)
    ]
    missing = {**replicas.missing, **ends.missing}
    return {
        **page.cut(rows, "partitions"),
        "missing": missing_nodes(missing),
    }


def list_readers(view: View, name: str, page: Page) -> JsonObject:
    """Return a page of the groups that have committed offsets of the topic, with their lag."""
    find_topic(view, name)
    lags, groups = view.lags(), view.groups()
    rows = []
    for group_id, lag in lags.of_topic.get(name, {}).items():
        group = groups.of.get(group_id)
        rows.append(
            {
                "group": group_id,
                "type": group.type if group is not None else None,
                "state": group.state if group is not None else None,
                "coordinator": group.coordinator if group is not None else None,
                "lag": lag,
            }
        )
    missing = {**groups.missing, **lags.missing}
    return {
        **page.cut(rows, "groups"),
        "missing": missing_nodes(missing),
    }


def _wheres(topic: Topic) -> list[Where]:
    return [(topic.name, each.index) for each in topic.partitions]


def _messages(
    wheres: list[Where], starts: Mapping[Where, int], ends: Mapping[Where, int]
) -> dict[Where, int]:
    return {
        where: max(0, ends[where] - starts[where])
        for where in wheres
        if where in ends and where in starts
    }


def _sum_of(messages: Mapping[Where, int]) -> int | None:
    return sum(messages.values()) if messages else None


def _largest(replicas: Replicas) -> dict[int, int]:
    """Bytes of the largest replica of each partition."""
    return {
        index: max(each.size for each in found)
        for index, found in replicas.by_partition.items()
        if found
    }


def _replicas(
    partition: Partition, found: Sequence[Replica], eligible: EligibleReplicas
) -> list[Json]:
    """The replicas in the order of the assignment, whose first is the preferred leader."""
    own = {each.node_id: each for each in found if not each.future}
    moving = {each.node_id: each for each in found if each.future}
    rows = []
    for node_id in partition.replicas:
        replica = own.get(node_id)
        rows.append(
            {
                "broker": node_id,
                "in_sync": node_id in partition.isr,
                "eligible": node_id in eligible.elr,
                "last_known": node_id in eligible.last_known,
                "offline": node_id in partition.offline,
                "bytes": replica.size if replica is not None else None,
                "lag": replica.lag if replica is not None else None,
                "path": replica.path if replica is not None else None,
                "moves_to": moving[node_id].path if node_id in moving else None,
            }
        )
    return rows
