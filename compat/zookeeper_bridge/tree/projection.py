"""Kafka's znodes, computed from one metadata image and the stored znodes beside it, as they are
read. Knows nothing of permissions.

A broker's czxid is its epoch, the version of a partition's state is the partition's epoch, a
topic's znode has the offsets at which it was created and assigned. Settings have a small znode
beside them in the tree, for versions and times, and for those written before their topic exists.
The metadata do not say when other things changed: the caller knows that (`seen`).
"""

import json
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol
from urllib.parse import quote, unquote

from raftka.json_values import JsonObject
from raftka.metadata.configs.dynamic import dynamic_setting
from raftka.metadata.image import BROKER, TOPIC, BrokerImage, MetadataImage, TopicImage
from zookeeper_bridge.protocol.jute import Stat
from zookeeper_bridge.protocol.paths import parent_of
from zookeeper_bridge.tree import kafka_acls
from zookeeper_bridge.tree.acl import GUARDED, OPEN, PRIVATE, READ, Identity, allows
from zookeeper_bridge.tree.rules import FOLDERS, Kind, is_secret, rule_of
from zookeeper_bridge.tree.store import IMPLICIT, NO_FAMILY, Family, NodeKind, Znode, stat_of

# the owner of a broker's znode, and of the controller's: of no client's session
BROKER_SESSION = 1 << 62
DEFAULT = "<default>"  # all brokers, among the entities of /config
BLOCK = 1000  # producer ids at once
IDS, TOPICS, PRODUCER_IDS = "/brokers/ids", "/brokers/topics", "/latest_producer_id_block"
MOVES = "/admin/reassign_partitions"
CONTROLLER, EPOCH, CLUSTER_ID = "/controller", "/controller_epoch", "/cluster/id"
FEATURE = "/feature"
BORN = Counter(parent_of(path) for path in FOLDERS)  # children that nobody has created
KEPT = frozenset(FOLDERS) - {"/consumers"}  # as in Kafka, what consumers keep there is theirs
WITH_MORE = frozenset(("/", "/brokers", "/cluster", "/config", "/admin"))
BROKER_CONFIGS = "/config/brokers/"
CONFIGS = {"topics": TOPIC, "brokers": BROKER}
Partition = tuple[bytes, int]  # topic id, index


class Projected(NamedTuple):
    node: Znode
    family: Family
    children: Sequence[str]


class Controller(NamedTuple):
    leader: int | None
    term: int


class Stored(Protocol):
    """The tree, as projections use it."""

    def node(self, path: str) -> Znode | None: ...

    def family(self, path: str) -> Family: ...

    def child_count(self, path: str) -> int: ...

    def child_names(self, path: str) -> Iterable[str]: ...


def computes(path: str) -> bool:
    rule = rule_of(path)
    return rule is not None and rule.kind is Kind.COMPUTED


class Projection:
    def __init__(
        self,
        tree: Stored,
        image: MetadataImage,
        controller: Controller,
        seen: Mapping[str, int],
        moving: Callable[[], Collection[Partition]],
        *,
        guarded: bool = False,
    ) -> None:
        """`seen`: when what is at a path last changed. `moving`: tells all partitions under
        reassignment. `guarded`: as Rights has it.
        """
        self.tree = tree
        self.image = image
        self.controller = controller
        self.seen = seen
        self.moving = moving
        self.guarded = guarded
        self._written: tuple[TopicImage | None, bytes] = (None, b"")

    # all that is there, stored or computed

    def node(self, path: str) -> Znode | None:
        if computes(path):
            found = self.find(path)
            return None if found is None else found.node
        node = self.tree.node(path)
        return (
            node._replace(acl=GUARDED)
            if self.guarded and path in KEPT and node is not None and node.acl == OPEN
            else node
        )

    def stat(self, path: str, node: Znode) -> Stat:
        if computes(path):
            found = self.find(path)
            return (
                stat_of(node, NO_FAMILY, 0)
                if found is None
                else stat_of(node, found.family, len(found.children))
            )
        family, children = self.tree.family(path), self.tree.child_count(path)
        more = len(self.more(path))
        creates = family.creates + more + BORN.get(path, 0)
        return stat_of(node, family._replace(creates=creates), children + more)

    def more(self, path: str) -> Sequence[str]:
        """Computed children of a znode that is stored."""
        if path not in WITH_MORE:
            return ()
        match path:
            case "/":
                return ["controller"] * (self.controller.leader is not None) + [
                    "controller_epoch",
                    "feature",
                    "latest_producer_id_block",
                ]
            case "/brokers":
                return ["ids", "topics"]
            case "/cluster":
                return ["id"] if self.image.cluster_id else []
            case "/config":
                return ["topics", "brokers"]
            case "/admin":
                return ["reassign_partitions"] if self.moving() else []
        return ()

    def children(self, path: str) -> Sequence[str]:
        if computes(path):
            found = self.find(path)
            return () if found is None else found.children
        return [*self.tree.child_names(path), *self.more(path)]

    # what is computed

    def find(self, path: str) -> Projected | None:
        """One of which `computes` is true; None: it is not there."""
        found = self._compute(path)
        if self.guarded and found is not None and found.node.acl == OPEN:
            return found._replace(node=found.node._replace(acl=GUARDED))
        return found

    def _compute(self, path: str) -> Projected | None:
        match path[1:].split("/"):
            case ["brokers", "ids"]:
                return _folder(
                    [str(each) for each in sorted(self.image.alive_brokers())], self._at(IDS)
                )
            case ["brokers", "ids", number]:
                return self._broker(number)
            case ["brokers", "topics"]:
                return _folder(list(self.image.topic_ids), self._at(TOPICS))
            case ["brokers", "topics", name, *rest]:
                topic = self.image.topic_named(name)
                return None if topic is None else self._within_topic(topic, rest)
            case ["cluster", "id"] if self.image.cluster_id is not None:
                return _leaf({"version": "1", "id": self.image.cluster_id})
            case ["controller"] if self.controller.leader is not None:
                data = {"version": 1, "brokerid": self.controller.leader, "timestamp": "0"}
                return _leaf(
                    data, self._at(CONTROLLER), owner=BROKER_SESSION + self.controller.leader
                )
            case ["controller_epoch"]:
                return _leaf(self.controller.term, 0, self._at(CONTROLLER), self.controller.term)
            case ["config", kind]:
                return self._configs(kind)
            case ["config", kind, entity]:
                return self._config(path, kind, entity)
            case ["admin", "reassign_partitions"] if self.moving():
                return _leaf(self._moves(), self._at(MOVES))
            case ["feature"]:
                return _leaf({"features": {}, "version": 1, "status": 1})
            case ["latest_producer_id_block"]:
                return self._producer_ids()
            case ["kafka-acl" | "kafka-acl-extended", *_] as parts:
                return self._acls(parts)
        return None

    def _acls(self, parts: list[str]) -> Projected | None:
        """For super and sasl:kafka in a cluster that guards its znodes, as DescribeAcls is for
        those that may DESCRIBE the cluster.
        """
        resource = kafka_acls.resource_of_path(parts)
        if resource is None:
            return None
        acls, changed_at = kafka_acls.index_of(self.image.acls), self._at(kafka_acls.LITERAL_FOLDER)
        if not resource.name:
            found = _folder(acls.names(resource), changed_at)
        else:
            data = acls.data(resource) if resource.is_path else None
            if data is None:
                return None
            found = Projected(
                _znode(data, 0, changed_at, kafka_acls.version_of(data), 0), NO_FAMILY, ()
            )
        return found._replace(node=found.node._replace(acl=PRIVATE if self.guarded else GUARDED))

    def shown_to(self, path: str, node: Znode, identities: Sequence[Identity]) -> Znode:
        """Return the znode without the settings of brokers that are passwords, or may be, for a
        client that must not see them.
        """
        if (
            not path.startswith(BROKER_CONFIGS)
            or node.data is None
            or allows(PRIVATE, READ, identities)
        ):
            return node
        configs = self.image.config(BROKER, resource_of(path.removeprefix(BROKER_CONFIGS)))
        shown = {name: value for name, value in configs.items() if not _may_be_secret(name)}
        return (
            node
            if len(shown) == len(configs)
            else node._replace(data=_json({"version": 1, "config": shown}))
        )

    def is_private(self, path: str) -> bool:
        """Return whether it is for super and sasl:kafka alone, also when it is gone."""
        return is_secret(path) or (
            self.guarded
            and path.startswith((f"{kafka_acls.LITERAL_FOLDER}/", f"{kafka_acls.PREFIXED_FOLDER}/"))
        )

    def _at(self, path: str) -> int:
        return self.seen.get(path, 0)

    def _broker(self, number: str) -> Projected | None:
        broker_id = number_of(number)
        broker = None if broker_id is None else self.image.brokers.get(broker_id)
        if broker is None or not broker.alive:
            return None
        return _leaf(
            _registration(broker), broker.epoch, broker.epoch, 1, BROKER_SESSION + broker.broker_id
        )

    def _within_topic(self, topic: TopicImage, rest: Sequence[str]) -> Projected | None:
        created = topic.created_at
        if not rest:
            return Projected(
                _znode(self._topic(topic), created, topic.assigned_at, topic.assigned_times, 0),
                Family(1, created),
                ["partitions"],
            )
        if len(rest) == 1:
            return _folder(
                [str(index) for index in range(len(topic.partitions))], topic.assigned_at, created
            )
        index = number_of(rest[1])
        if index is None or index >= len(topic.partitions):
            return None
        if len(rest) == 2:
            return _folder(["state"], created, created)
        partition = topic.partitions[index]
        state = {
            "controller_epoch": self.controller.term,
            "leader": partition.leader,
            "version": 1,
            "leader_epoch": partition.leader_epoch,
            "isr": list(partition.isr),
        }
        return _leaf(state, created, topic.changed_at, partition.partition_epoch)

    def _topic(self, topic: TopicImage) -> bytes:
        """Keep the last one written: a topic of many partitions takes a while, and a client that
        reads it reads it again.
        """
        if self._written[0] is not topic:
            self._written = topic, _json(_topic(topic))
        return self._written[1]

    def _configs(self, kind: str) -> Projected:
        path = f"/config/{kind}"
        stored = [
            name for name in self.tree.child_names(path) if self.find(f"{path}/{name}") is not None
        ]
        if kind == "topics":
            names: Iterable[str] = self.image.topic_ids
        else:
            names = [
                entity_name(resource)
                for resource_type, resource in self.image.configs
                if resource_type == BROKER
            ]
        children = list(dict.fromkeys([*names, *stored]))
        found = _folder(children, max(self._at(path), self.tree.family(path).pzxid))
        return found if kind == "topics" else found._replace(node=found.node._replace(acl=GUARDED))

    def _config(self, path: str, kind: str, entity: str) -> Projected | None:
        """Its znode in the tree has the version; with the data there only as long as there is no
        topic.
        """
        stored = self.tree.node(path)
        resource = resource_of(entity)
        configs = self.image.configs.get((CONFIGS[kind], resource))
        topic = self.image.topic_named(resource) if kind == "topics" else None
        if kind == "topics" and topic is None:
            return (
                None if stored is None or stored.data is None else Projected(stored, NO_FAMILY, ())
            )
        if topic is None and configs is None and stored is None:
            return None
        if stored is None:
            created = topic.created_at if topic is not None else 0
            stored = _znode(None, created, created, 0, 0)
        data = _json({"version": 1, "config": dict(configs or {})})
        return Projected(
            stored._replace(data=data, acl=OPEN if kind == "topics" else GUARDED), NO_FAMILY, ()
        )

    def _moves(self) -> dict[str, object]:
        moves = []
        for topic_id, index in sorted(self.moving()):
            topic = self.image.topics[topic_id]
            partition = topic.partitions[index]
            target = [each for each in partition.replicas if each not in partition.removing]
            moves.append({"topic": topic.name, "partition": index, "replicas": target})
        return {"version": 1, "partitions": moves}

    def _producer_ids(self) -> Projected:
        """The last block, without the broker that owns it: no record names it."""
        first = self.image.next_producer_id - BLOCK
        if self.image.next_producer_id == 0:
            return Projected(IMPLICIT._replace(data=None), NO_FAMILY, ())
        block = {
            "version": 1,
            "broker": -1,
            "block_start": str(first),
            "block_end": str(first + BLOCK - 1),
        }
        return _leaf(block, 0, self._at(PRODUCER_IDS), self.image.next_producer_id // BLOCK)

    @property
    def computed_count(self) -> int:
        """Znodes that are there, and not in the tree."""
        fixed = sum(len(self.more(path)) for path in ("/", *FOLDERS))
        acls = kafka_acls.index_of(self.image.acls).count
        # with the settings of each
        topics = 3 * len(self.image.topics) + 2 * self.image.partition_count
        configured = self._configs("brokers").children
        kept = [
            name for name in self.tree.child_names("/config/topics") if name in self.image.topic_ids
        ]
        return (
            fixed
            + acls
            + len(self.image.alive_brokers())
            + topics
            + len(configured)
            - len(kept)
            - self.tree.child_count("/config/brokers")
        )


def _may_be_secret(name: str) -> bool:
    """Return whether it is a password, or a name that nobody here knows: a plugin's secret perhaps,
    as for DescribeConfigs.
    """
    setting = dynamic_setting(name)
    return setting is None or setting.sensitive


def is_moving(image: MetadataImage, partition: Partition) -> bool:
    found = image.partition(*partition)
    return found is not None and bool(found.adding or found.removing)


def moving_in(image: MetadataImage) -> list[Partition]:
    """All of them: every partition is looked at."""
    return [
        (topic_id, index)
        for topic_id, topic in image.topics.items()
        for index, partition in enumerate(topic.partitions)
        if partition.adding or partition.removing
    ]


def number_of(name: str) -> int | None:
    """As a path has it, and not otherwise."""
    return (
        int(name)
        if name.isascii() and name.isdigit() and len(name) < 10 and (name == "0" or name[0] != "0")
        else None
    )


def entity_name(resource: str) -> str:
    """As it stands in a path below /config."""
    return quote(resource, safe="") if resource else DEFAULT


def resource_of(entity: str) -> str:
    return "" if entity == DEFAULT else unquote(entity)


def _folder(children: Sequence[str], changed_at: int = 0, created_at: int = 0) -> Projected:
    return Projected(
        _znode(None, created_at, created_at, 0, 0), Family(len(children), changed_at), children
    )


def _leaf(
    data: object,
    czxid: int = 0,
    mzxid: int | None = None,
    version: int = 0,
    owner: int = 0,
    children: Sequence[str] = (),
) -> Projected:
    return Projected(
        _znode(_json(data), czxid, czxid if mzxid is None else mzxid, version, owner),
        Family(len(children), czxid),
        children,
    )


def _json(data: object) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()


def _znode(data: bytes | None, czxid: int, mzxid: int, version: int, owner: int) -> Znode:
    kind = NodeKind.EPHEMERAL if owner else NodeKind.PERSISTENT
    return Znode(czxid, mzxid, 0, 0, version, 0, owner, 0, kind, OPEN, data)


def _registration(broker: BrokerImage) -> JsonObject:
    plain = next((each for each in broker.endpoints if each.security_protocol == "PLAINTEXT"), None)
    found: JsonObject = {
        "features": {},
        "listener_security_protocol_map": {
            each.listener: each.security_protocol for each in broker.endpoints
        },
        "endpoints": [f"{each.listener}://{each.host}:{each.port}" for each in broker.endpoints],
        "jmx_port": -1,
        "port": plain.port if plain is not None else -1,
        "host": plain.host if plain is not None else None,
        "version": 5,
        "timestamp": "0",
    }
    return found if broker.rack is None else {**found, "rack": broker.rack}


def _topic(topic: TopicImage) -> JsonObject:
    numbered = list(enumerate(topic.partitions))
    return {
        "removing_replicas": {
            str(index): list(each.removing) for index, each in numbered if each.removing
        },
        "partitions": {str(index): list(each.replicas) for index, each in numbered},
        "topic_id": urlsafe_b64encode(topic.topic_id).rstrip(b"=").decode(),
        "adding_replicas": {
            str(index): list(each.adding) for index, each in numbered if each.adding
        },
        "version": 3,
    }
