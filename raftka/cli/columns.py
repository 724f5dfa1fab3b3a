"""The columns of all tables: one word for one thing in every command, as a table's header and as
the key in JSON. Numbers have their unit in the name: _ms, _bytes, _s.
"""

from collections.abc import Callable, Mapping

from raftka.json_values import Json

COLUMNS: Mapping[str, str] = {
    "topic": "name of a topic",
    "partition": "number of a partition",
    "topic_id": "id of a topic",
    "partitions": "number of a topic's partitions",
    "replication_factor": "number of a partition's replicas",
    "leader": "id of the broker that leads",
    "epoch": "of the leader, or of a producer",
    "replicas": "ids of the brokers that have the partition, the preferred leader first",
    "isr": "ids of those in sync",
    "offline": "ids of those that do not live",
    "elr": "ids of eligible leader replicas: they may lead, although they are not in sync",
    "last_known_elr": "ids of the last ones, where no replica may lead any more",
    "wanted": "ids of the brokers that are to have the partition",
    "adding": "ids of those that get the partition",
    "removing": "ids of those that give it up",
    "group": "id of a group",
    "state": "of a group, a transaction, a broker or a flow",
    "protocol_type": "of a group: consumer, connect, ...",
    "group_type": "classic, consumer, share or streams",
    "offset": "committed by a group, or given to a record",
    "before": "the offset or level before the change",
    "end": "the offset behind the last record",
    "lag": "records between offset and end",
    "metadata": "text that stands beside a committed offset",
    "member": "id of a group's member",
    "host": "address of a member, or of what an ACL is about",
    "failure": "class of the exception that made a dead letter, else its message",
    "origin": "topic that dead letters came from",
    "letters": "number of dead letters",
    "message": "text of the newest failure",
    "reason": "of what was not done",
    "transactional_id": "id of a transactional producer",
    "producer_id": "number of a producer",
    "coordinator": "id of the broker that coordinates",
    "coordinator_epoch": "epoch of the coordinator that wrote last",
    "start_offset": "first offset of a transaction in a partition",
    "start_ms": "when it began, ms since 1970",
    "last_timestamp_ms": "of the producer's last record, ms since 1970",
    "age_ms": "so long ago it began, or wrote last",
    "timeout_ms": "of a transaction",
    "topic_partitions": "the partitions that take part",
    "kind": "of a resource with settings: topic, broker, ...; of a stream: STREAM, TABLE, SINK",
    "name": "of a resource, or of an entity with rights",
    "changed": "settings that were changed; of a feature: whether it was",
    "feature": "name of a feature",
    "level": "of a feature, now",
    "lowest": "level that all nodes support",
    "highest": "level that all nodes support",
    "setting": "name of a setting",
    "value": "of a setting or a quota",
    "source": "where a value comes from",
    "broker": "id of a broker",
    "node": "id of a node",
    "directory": "id of the directory with a controller's votes",
    "endpoints": "where a controller listens: NAME://HOST:PORT",
    "address": "HOST:PORT",
    "rack": "of a broker",
    "role": "in the quorum",
    "leads": "number of partitions that a broker leads",
    "holds": "number of replicas that a broker has",
    "size_bytes": "of a broker's replicas",
    "size_after": "bytes, when a plan is carried out",
    "leads_after": "leads, when a plan is carried out",
    "rate_bytes": "bytes a second that producers send to a broker",
    "rate_after": "the same, when a plan is carried out",
    "log_end_offset": "of a node's metadata log",
    "behind": "entries of the metadata log that a node lacks",
    "resource": "type of what an ACL is about",
    "pattern": "literal or prefixed",
    "principal": "User:NAME",
    "operation": "that an ACL is about",
    "permission": "allow or deny",
    "user": "name of a user",
    "mechanism": "of a login",
    "iterations": "of SCRAM",
    "client_id": "id of a client",
    "ip": "address with a quota",
    "quota": "name of a quota",
    "token": "id of a delegation token",
    "hmac": "password of a delegation token",
    "owner": "user that a token stands for",
    "requester": "user that asked for a token",
    "renewers": "users that may renew it",
    "issued": "time of issue",
    "expires": "time of its end",
    "latest": "time of its end at the latest",
    "into": "where a stream writes",
    "error": "what went wrong last",
    "flow": "name of a pipeline's flow",
    "batch": "number of a flow's last batch",
    "read": "rows read since the process began",
    "written": "rows written",
    "read_per_s": "rows read a second in the last batch",
    "lag_s": "age of the first record that was not read",
    "state_rows": "rows that a flow remembers",
    "state_mb": "their size",
    "late_rows": "rows dropped, later than the watermark",
    "failures": "of a flow, since the process began",
    "backup": "name of a backup",
    "cut": "the moment that a backup is of, in UTC",
    "bytes": "size of a backup's files",
    "offsets": "records, with the gaps that compaction has left",
    "topics": "number of topics",
    "cluster_id": "id of a cluster",
    "linked": "bytes that are files of the brokers under another name",
    "copied": "bytes that were copied",
    "known": "bytes that an earlier backup has",
    "held_ms": "so long no transaction was committed",
    "took_s": "seconds that it took",
    "batches": "number of batches",
    "records": "number of records",
    "groups": "number of groups",
    "committed": "number of committed offsets",
    "transactional_ids": "number of transactional ids",
    "nodes": "number of nodes",
    "differing": "partitions, groups and kinds of rights that are not as in the backup",
    "rto_s": "seconds from the start of a restore until clients may come",
    "rpo_s": "age of a backup in seconds: later records would have been lost",
}

GOOD = {"Stable", "alive", "running"}
PASSING = {"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "starting"}
BAD = {"Dead", "fenced", "failed"}


def _of_state(row: Mapping[str, Json]) -> str | None:
    state = row.get("state")
    if state in GOOD:
        return "green"
    return "yellow" if state in PASSING else "red" if state in BAD else None


def _of_isr(row: Mapping[str, Json]) -> str | None:
    return "yellow" if len(row.get("isr") or ()) < len(row.get("replicas") or ()) else None


def _of_leader(row: Mapping[str, Json]) -> str | None:
    leader = row.get("leader")
    return "red" if isinstance(leader, int) and leader < 0 else None


# on terminals alone, and never the only sign of something
COLOURED: Mapping[str, Callable[[Mapping[str, Json]], str | None]] = {
    "state": _of_state,
    "isr": _of_isr,
    "leader": _of_leader,
    "offline": lambda row: "red" if row.get("offline") else None,
    "error": lambda row: "red" if row.get("error") else None,
}


def colour_of(column: str, row: Mapping[str, Json]) -> str | None:
    """Return the colour of a row's cell: red, yellow, green, or None."""
    find = COLOURED.get(column)
    return None if find is None else find(row)
