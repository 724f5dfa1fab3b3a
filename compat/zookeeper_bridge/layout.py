"""Kafka's znodes out of the cluster's metadata: /brokers, /controller, /controller_epoch, /cluster. All is computed as it is read.

A broker's czxid is its epoch, the version of a partition's state is the partition's epoch. When a topic or the controller last changed, the metadata
do not say: that is what this node has seen, and the offset it began with for all that was there before, so no change is missed after a reconnect.
Knows no client; nobody writes here.
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from raftka.metadata.image import BrokerImage, Delta, MetadataImage, TopicImage
from zookeeper_bridge.acl import OPEN
from zookeeper_bridge.jute import STRINGS
from zookeeper_bridge.paths import ROOT
from zookeeper_bridge.store import Family, NodeKind, Znode
from zookeeper_bridge.watches import EventType

TOPS = ("brokers", "cluster", "controller", "controller_epoch")
ALWAYS = frozenset(("/brokers", "/brokers/ids", "/brokers/topics", "/cluster", "/cluster/id", "/controller", "/controller_epoch"))  # or nearly
IDS, TOPICS = "/brokers/ids/", "/brokers/topics/"
BROKER_SESSION = 1 << 62  # the owner of a broker's znode, and of the controller's: of no client's session
Happening = tuple[EventType, str]


class Projected(NamedTuple):
    node: Znode
    family: Family
    children: Sequence[str]


class Controller(NamedTuple):
    leader: int | None
    term: int


def owns(path: str) -> bool:
    return path[1:].partition("/")[0] in TOPS


class Layout:
    def __init__(self) -> None:
        self.image = MetadataImage()
        self.controller = Controller(None, 0)
        self._loaded_at = 0
        self._controller_at = 0  # when it last changed
        self._topics_at: dict[bytes, tuple[int, int]] = {}  # by id: when it was created and last changed; those that did since we began
        self._lists_at = {IDS: 0, TOPICS: 0}  # when something came or went
        self._packed: tuple[object, bytes] = (None, b"")

    # what happens

    def load(self, image: MetadataImage, controller: Controller) -> None:
        self.image, self.controller = image, controller
        self._loaded_at = self._controller_at = image.offset
        self._topics_at.clear()
        self._lists_at = dict.fromkeys(self._lists_at, image.offset)

    def apply(self, image: MetadataImage, delta: Delta) -> Iterable[Happening]:
        """What clients may hear of, in an order in which it may have happened; to be looked at now or never."""
        before, self.image = self.image, image
        for topic_id in delta.topics_deleted:
            self._topics_at.pop(topic_id, None)
        for topic_id in delta.topics_changed:
            created_at = self._topic_at(topic_id)[0] if topic_id in before.topics else image.offset
            self._topics_at[topic_id] = created_at, image.offset
        if before.topic_ids is not image.topic_ids:
            self._lists_at[TOPICS] = image.offset
        if delta.brokers_changed:
            self._lists_at[IDS] = image.offset
        return chain([(EventType.CREATED, "/cluster/id")] if delta.cluster_formed else (), self._brokers(before, delta), self._topics(before, delta))

    def _brokers(self, before: MetadataImage, delta: Delta) -> Iterator[Happening]:
        for broker_id in sorted(delta.brokers_changed):
            was, now = before.alive(broker_id), self.image.alive(broker_id)
            if was != now:
                yield EventType.CREATED if now else EventType.DELETED, f"{IDS}{broker_id}"

    def _topics(self, before: MetadataImage, delta: Delta) -> Iterator[Happening]:
        for topic in delta.topics_deleted.values():
            yield from ((EventType.DELETED, path) for path in reversed(_paths_of(topic, 0)))
        for topic_id in delta.topics_changed:
            topic, known = self.image.topics[topic_id], before.topics.get(topic_id)
            if known is None:
                yield from ((EventType.CREATED, path) for path in _paths_of(topic, 0))
            elif _assignment(known) != _assignment(topic):
                yield EventType.CHANGED, f"{TOPICS}{topic.name}"
                yield from ((EventType.CREATED, path) for path in _paths_of(topic, len(known.partitions))[2:])
        for topic_id, index in dict.fromkeys(delta.partitions_changed):
            if before.partition(topic_id, index) is not None and topic_id in self.image.topics:
                yield EventType.CHANGED, f"{TOPICS}{self.image.topics[topic_id].name}/partitions/{index}/state"

    def elected(self, controller: Controller) -> list[Happening]:
        """Who leads is no entry of the log: it is looked at with each one, and now and then."""
        before, happened = self.controller, list[Happening]()
        if before == controller:
            return happened
        self.controller, self._controller_at = controller, self.image.offset
        if before.leader != controller.leader:
            happened += [(EventType.DELETED, "/controller")] * (before.leader is not None)
            happened += [(EventType.CREATED, "/controller")] * (controller.leader is not None)
        if before.term != controller.term:
            happened.append((EventType.CHANGED, "/controller_epoch"))
        return happened

    def _topic_at(self, topic_id: bytes) -> tuple[int, int]:
        return self._topics_at.get(topic_id, (self._loaded_at, self._loaded_at))

    # what is there

    def find(self, path: str) -> Projected | None:
        """One that this owns; None: it is not there."""
        match path[1:].split("/"):
            case ["brokers"]:
                return _folder(["ids", "topics"])
            case ["brokers", "ids"]:
                return _folder([str(each) for each in sorted(self.image.alive_brokers())], self._lists_at[IDS])
            case ["brokers", "ids", number]:
                return self._broker(number)
            case ["brokers", "topics"]:
                return _folder(list(self.image.topic_ids), self._lists_at[TOPICS])
            case ["brokers", "topics", name, *rest]:
                topic = self.image.topic_named(name)
                return None if topic is None else self._within_topic(topic, rest)
            case ["cluster"]:
                return _folder(["id"] if self.image.cluster_id else [])
            case ["cluster", "id"] if self.image.cluster_id is not None:
                return _leaf({"version": "1", "id": self.image.cluster_id})
            case ["controller"] if self.controller.leader is not None:
                data = {"version": 1, "brokerid": self.controller.leader, "timestamp": "0"}
                return _leaf(data, self._controller_at, self._controller_at, owner=BROKER_SESSION + self.controller.leader)
            case ["controller_epoch"]:
                return _leaf(self.controller.term, 0, self._controller_at, self.controller.term)
        return None

    def _broker(self, number: str) -> Projected | None:
        broker = self.image.brokers.get(int(number)) if number.isascii() and number.isdigit() and len(number) < 10 else None
        if broker is None or not broker.alive or str(broker.broker_id) != number:
            return None
        return _leaf(_registration(broker), broker.epoch, broker.epoch, 1, BROKER_SESSION + broker.broker_id)

    def _within_topic(self, topic: TopicImage, rest: Sequence[str]) -> Projected | None:
        created, changed = self._topic_at(topic.topic_id)
        if not rest:
            return _leaf(_topic(topic), created, changed, children=["partitions"])
        if rest[0] != "partitions" or len(rest) > 3:
            return None
        if len(rest) == 1:
            return _folder([str(index) for index in range(len(topic.partitions))], created)
        index = int(rest[1]) if rest[1].isascii() and rest[1].isdigit() and len(rest[1]) < 10 else -1
        if not 0 <= index < len(topic.partitions) or str(index) != rest[1]:
            return None
        if len(rest) == 2:
            return _folder(["state"], created)
        partition = topic.partitions[index]
        if rest[2] != "state":
            return None
        state = {
            "controller_epoch": self.controller.term,
            "leader": partition.leader,
            "version": 1,
            "leader_epoch": partition.leader_epoch,
            "isr": list(partition.isr),
        }
        return _leaf(state, created, changed, partition.partition_epoch)

    @property
    def node_count(self) -> int:
        there = sum(self.find(path) is not None for path in ALWAYS)
        return there + len(self.image.alive_brokers()) + 2 * len(self.image.topics) + 2 * self.image.partition_count

    def packed_children(self, path: str, found: Projected) -> bytes:
        if path != "/brokers/topics":
            return STRINGS.encode(found.children)
        if self._packed[0] is not self.image.topic_ids:
            self._packed = self.image.topic_ids, STRINGS.encode(found.children)
        return self._packed[1]


def top_names(layout: Layout) -> list[str]:
    """What is shown among the children of the root."""
    return [name for name in TOPS if layout.find(ROOT + name) is not None]


def _folder(children: Sequence[str], changed_at: int = 0) -> Projected:
    return Projected(_znode(None, 0, 0, 0, 0), Family(len(children), changed_at), children)


def _leaf(data: object, czxid: int = 0, mzxid: int = 0, version: int = 0, owner: int = 0, children: Sequence[str] = ()) -> Projected:
    text = json.dumps(data, separators=(",", ":")).encode()
    return Projected(_znode(text, czxid, mzxid, version, owner), Family(len(children), czxid), children)


def _znode(data: bytes | None, czxid: int, mzxid: int, version: int, owner: int) -> Znode:
    kind = NodeKind.EPHEMERAL if owner else NodeKind.PERSISTENT
    return Znode(czxid, mzxid, 0, 0, version, 0, owner, 0, kind, OPEN, data)


def _registration(broker: BrokerImage) -> dict[str, Any]:
    plain = next((each for each in broker.endpoints if each.security_protocol == "PLAINTEXT"), None)
    found: dict[str, Any] = {
        "features": {},
        "listener_security_protocol_map": {each.listener: each.security_protocol for each in broker.endpoints},
        "endpoints": [f"{each.listener}://{each.host}:{each.port}" for each in broker.endpoints],
        "jmx_port": -1,
        "port": plain.port if plain is not None else -1,
        "host": plain.host if plain is not None else None,
        "version": 5,
        "timestamp": "0",
    }
    return found if broker.rack is None else {**found, "rack": broker.rack}


def _topic(topic: TopicImage) -> dict[str, Any]:
    numbered = list(enumerate(topic.partitions))
    return {
        "removing_replicas": {str(index): list(each.removing) for index, each in numbered if each.removing},
        "partitions": {str(index): list(each.replicas) for index, each in numbered},
        "topic_id": urlsafe_b64encode(topic.topic_id).rstrip(b"=").decode(),
        "adding_replicas": {str(index): list(each.adding) for index, each in numbered if each.adding},
        "version": 3,
    }


def _assignment(topic: TopicImage) -> list[Any]:
    """What a topic's own znode shows."""
    return [(each.replicas, each.adding, each.removing) for each in topic.partitions]


def _paths_of(topic: TopicImage, first: int) -> list[str]:
    """Its znodes, parents first; of its partitions those from `first` on."""
    within = f"{TOPICS}{topic.name}/partitions"
    numbers = range(first, len(topic.partitions))
    return [f"{TOPICS}{topic.name}", within, *[path for index in numbers for path in (f"{within}/{index}", f"{within}/{index}/state")]]
