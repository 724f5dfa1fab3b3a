"""Rules for the paths of Kafka's layout: computed from the metadata, or stored beside them, and the
meaning of a write. Only tables.

A path that no rule matches is the clients' own: stored, and of no meaning to the cluster. `*`
stands for one name, `**` for whatever lies below.
"""

from enum import Enum
from functools import lru_cache
from typing import NamedTuple


class Kind(Enum):
    # of the metadata image; a write is a command to the controller, or refused
    COMPUTED = "computed"
    # a write is a command to the controller; it is done in the same entry of the log, and the znode
    # is gone with it
    MARKER = "marker"
    STORED = "stored"  # as anywhere else
    RESERVED = "reserved"  # a folder that stays as it is, or nothing; nobody writes there


class Rule(NamedTuple):
    pattern: str
    kind: Kind
    shows: str
    written: str  # what a write to it does


NOBODY = "NoAuth: it follows from what the cluster does."
ACLS_SHOWN = (
    "the ACLs of the resource. version follows from the content; where Kafka's znodes are "
    "guarded, for super and sasl:kafka alone"
)
ACLS_WRITTEN = (
    "For super and sasl:kafka, where the cluster has an authorizer: create and set replace all "
    "ACLs of the resource, delete takes them away; "
    "what is no ACL answers BadArguments. All else: NoAuth."
)
RULES = (
    Rule(
        "/brokers",
        Kind.RESERVED,
        "a folder",
        "NoAuth; what may be written below, topics and seqid say.",
    ),
    Rule(
        "/brokers/ids",
        Kind.COMPUTED,
        "the brokers that are alive: registered, not fenced, not shutting down",
        NOBODY,
    ),
    Rule(
        "/brokers/ids/*",
        Kind.COMPUTED,
        "the broker's registration. czxid is the broker's epoch; the owner is no session of a "
        "client's",
        "NoAuth: brokers register with the controller. A broker that needs ZooKeeper runs in a "
        "chroot, /legacy say.",
    ),
    Rule("/brokers/topics", Kind.COMPUTED, "all topics", NOBODY),
    Rule(
        "/brokers/topics/*",
        Kind.COMPUTED,
        "the topic's replicas, those that come and those that go, and its id. version: how often "
        "that has changed",
        "create: creates the topic, with the settings that stand in /config/topics. set: adds "
        "partitions; the id, and all that is left out, stays. "
        "Replicas that differ from those there, fewer partitions, unknown brokers and what is no "
        "JSON answer BadArguments. delete: NoAuth; "
        "that is what /admin/delete_topics is for.",
    ),
    Rule("/brokers/topics/*/partitions", Kind.COMPUTED, "the topic's partitions", NOBODY),
    Rule("/brokers/topics/*/partitions/*", Kind.COMPUTED, "a folder", NOBODY),
    Rule(
        "/brokers/topics/*/partitions/*/state",
        Kind.COMPUTED,
        "leader, ISR and leader epoch. version is the partition's epoch",
        NOBODY,
    ),
    Rule(
        "/brokers/seqid",
        Kind.STORED,
        "nothing; its version counts",
        "set: the next version is the next broker id, as in Kafka.",
    ),
    Rule("/brokers/**", Kind.RESERVED, "nothing", NOBODY),
    Rule("/cluster", Kind.RESERVED, "a folder", NOBODY),
    Rule("/cluster/id", Kind.COMPUTED, "the cluster's id", NOBODY),
    Rule("/cluster/**", Kind.RESERVED, "nothing", NOBODY),
    Rule(
        "/controller",
        Kind.COMPUTED,
        "the leader of the metadata quorum, as this node knows it",
        "delete: the leadership is handed to the voter that has most of the log; where nobody "
        "else votes, BadArguments. All else: NoAuth.",
    ),
    Rule(
        "/controller_epoch",
        Kind.COMPUTED,
        "the term of the metadata quorum; its version as well",
        NOBODY,
    ),
    Rule(
        "/config",
        Kind.RESERVED,
        "a folder",
        "NoAuth; what may be written below, topics, brokers and changes say.",
    ),
    Rule(
        "/config/topics",
        Kind.COMPUTED,
        "all topics, and those that have settings and are not there yet",
        NOBODY,
    ),
    Rule(
        "/config/topics/*",
        Kind.COMPUTED,
        "the topic's own settings",
        "set: all of the topic's settings are replaced, at once, and that is announced in "
        "/config/changes. create, where there is no such topic: "
        "kept, and taken over by the topic that is created at /brokers/topics. Unknown settings, "
        "bad values and what is no JSON answer BadArguments. "
        "delete: only before there is a topic.",
    ),
    Rule("/config/brokers", Kind.COMPUTED, "brokers that have settings, and <default>", NOBODY),
    Rule(
        "/config/brokers/*",
        Kind.COMPUTED,
        "the broker's own settings; those that are passwords, or may be, are shown to super and "
        "sasl:kafka alone",
        "For super and sasl:kafka: as a topic's. For others: NoAuth.",
    ),
    Rule("/config/changes", Kind.RESERVED, "announcements", "NoAuth; below it: see there."),
    Rule(
        "/config/changes/*",
        Kind.STORED,
        "changed settings: written by the bridge for every change by any client, and by tools. "
        "Removed after 15 minutes",
        "Stored, and of no effect: settings take effect when they are written.",
    ),
    Rule(
        "/config/**",
        Kind.RESERVED,
        "nothing: users' SCRAM credentials and quotas are not shown here",
        "NoAuth: settings that would have no effect are not stored.",
    ),
    Rule("/admin", Kind.RESERVED, "a folder", "NoAuth; znodes of clients below it are stored."),
    Rule(
        "/admin/delete_topics",
        Kind.RESERVED,
        "nothing: a topic is deleted in the same moment in which its marker is created",
        "NoAuth; below it: see there.",
    ),
    Rule(
        "/admin/delete_topics/*",
        Kind.MARKER,
        "nothing: a topic is deleted in the same moment in which its marker is created",
        "create: deletes the topic; watchers hear of the marker's coming and going. No such "
        "topic: the marker goes, as Kafka's does. "
        "With delete.topic.enable=false: NoAuth.",
    ),
    Rule(
        "/admin/reassign_partitions",
        Kind.COMPUTED,
        "moving partitions, also those moved by other clients, with their target replicas; it "
        "exists while any partition moves",
        "create: moves partitions; NodeExists while any moves. set: moves those it names, too. "
        "delete: calls off all that move. A plan without "
        "partitions is taken away at once; of a partition that it names twice the last replicas "
        "count. Unknown topics, partitions or brokers, "
        "log_dirs and what is no JSON answer BadArguments, and nothing moves.",
    ),
    Rule(
        "/admin/preferred_replica_election",
        Kind.MARKER,
        "nothing: the election is held in the same moment",
        "create: elects the preferred leaders of those it names, where they are in sync; of none, "
        "where it names none. Unknown partitions and "
        "what is no JSON answer BadArguments.",
    ),
    Rule(
        "/isr_change_notification",
        Kind.RESERVED,
        "nothing: brokers tell the controller themselves",
        NOBODY,
    ),
    Rule("/isr_change_notification/**", Kind.RESERVED, "nothing", NOBODY),
    Rule(
        "/log_dir_event_notification",
        Kind.RESERVED,
        "nothing: brokers tell the controller themselves",
        NOBODY,
    ),
    Rule("/log_dir_event_notification/**", Kind.RESERVED, "nothing", NOBODY),
    Rule("/feature", Kind.COMPUTED, "that no feature of ZooKeeper's time is finalized", NOBODY),
    Rule(
        "/latest_producer_id_block",
        Kind.COMPUTED,
        "the producer ids that were given out last. version: how many blocks there were",
        "set, with the version that was read or -1: takes the next 1000 ids, which have to be "
        "those that come next; else BadArguments.",
    ),
    *(
        Rule(f"/{leaf}/**", Kind.RESERVED, "nothing", NOBODY)
        for leaf in ("controller", "controller_epoch", "feature", "latest_producer_id_block")
    ),
    Rule("/migration/**", Kind.RESERVED, "nothing: there is nothing to migrate", NOBODY),
    Rule(
        "/delegation_token/**",
        Kind.RESERVED,
        "nothing: delegation tokens are not shown here",
        NOBODY,
    ),
    Rule("/kafka-acl", Kind.RESERVED, "a folder", NOBODY),
    Rule("/kafka-acl-extended", Kind.RESERVED, "a folder", NOBODY),
    Rule("/kafka-acl-extended/prefixed", Kind.RESERVED, "a folder", NOBODY),
    *(
        rule
        for folder, names in (
            ("/kafka-acl", "names"),
            ("/kafka-acl-extended/prefixed", "prefixes of names"),
        )
        for rule in (
            Rule(
                f"{folder}/*",
                Kind.COMPUTED,
                f"{names} that ACLs are about, without those that cannot stand in a path",
                NOBODY,
            ),
            Rule(f"{folder}/*/*", Kind.COMPUTED, ACLS_SHOWN, ACLS_WRITTEN),
            Rule(f"{folder}/*/*/**", Kind.RESERVED, "nothing", NOBODY),
        )
    ),
    Rule("/kafka-acl-extended/**", Kind.RESERVED, "nothing", NOBODY),
    *(
        rule
        for folder in ("/kafka-acl-changes", "/kafka-acl-extended-changes")
        for rule in (
            Rule(folder, Kind.RESERVED, "a folder", "NoAuth; below it: see there."),
            Rule(
                f"{folder}/*",
                Kind.STORED,
                "announcements of tools. Removed after 15 minutes",
                "Stored, and of no effect: ACLs count when they are written.",
            ),
            Rule(f"{folder}/**", Kind.RESERVED, "nothing", NOBODY),
        )
    ),
    Rule(
        "/consumers",
        Kind.RESERVED,
        "a folder",
        "NoAuth; all below is stored: groups that keep their offsets in ZooKeeper, and owners and "
        "ids of their members.",
    ),
)
OWN = Rule("/**", Kind.STORED, "stored by clients", "Stored, and of no meaning to the cluster.")

ACL_KINDS = ("Cluster", "DelegationToken", "Group", "Topic", "TransactionalId")
FOLDERS = (  # of Kafka's, there from the beginning beside what is computed, and they stay
    "/admin",
    "/admin/delete_topics",
    "/brokers",
    "/brokers/seqid",
    "/cluster",
    "/config",
    "/config/changes",
    "/config/clients",
    "/config/ips",
    "/config/users",
    "/consumers",
    "/delegation_token",
    "/delegation_token/token_changes",
    "/delegation_token/tokens",
    "/isr_change_notification",
    "/kafka-acl",
    *(f"/kafka-acl/{kind}" for kind in ACL_KINDS),
    "/kafka-acl-changes",
    "/kafka-acl-extended",
    "/kafka-acl-extended/prefixed",
    *(f"/kafka-acl-extended/prefixed/{kind}" for kind in ACL_KINDS),
    "/kafka-acl-extended-changes",
    "/log_dir_event_notification",
)
SECRET = ("/config/users", "/delegation_token")  # these, and all below: for nobody but super
# a list of names, and empty: kafka-configs --entity-type users --describe reads it
NO_SECRETS = "/config/users"
TOPS = frozenset(rule.pattern.split("/")[1] for rule in RULES)
_OF: dict[str, tuple[Rule, ...]] = {
    top: tuple(rule for rule in RULES if rule.pattern.split("/")[1] == top) for top in TOPS
}


def rule_of(path: str) -> Rule | None:
    """None: it is no path of Kafka's."""
    top = path[1:].partition("/")[0]
    return _rule_of(path) if top in _OF else None


@lru_cache(4096)
def _rule_of(path: str) -> Rule | None:
    parts = path.split("/")
    return next((rule for rule in _OF[parts[1]] if _matches(rule.pattern.split("/"), parts)), None)


def _matches(pattern: list[str], parts: list[str]) -> bool:
    if pattern[-1] == "**":
        return len(parts) >= len(pattern) - 1 and _matches(pattern[:-1], parts[: len(pattern) - 1])
    return len(parts) == len(pattern) and all(
        name in ("*", part) for name, part in zip(pattern, parts, strict=True)
    )


def is_secret(path: str) -> bool:
    return path != NO_SECRETS and any(
        path == each or path.startswith(each + "/") for each in SECRET
    )
