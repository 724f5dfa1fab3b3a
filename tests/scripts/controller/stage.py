"""The controller on a stage: each command is decided, what it records is shown, encoded, committed
and replayed, as the node around it would.
"""

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

from raftka.metadata.commands import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AllocateProducerIds,
    AlterConfigs,
    AlterPartition,
    AlterReassignments,
    BrokerLost,
    Change,
    Command,
    ConfigChange,
    ConfigResource,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DoomedTopic,
    ElectLeaders,
    FeatureUpdate,
    Heartbeat,
    HeldReplicas,
    ListReassignments,
    MorePartitions,
    Move,
    MovedTopic,
    NewTopic,
    OngoingTopic,
    RegisterBroker,
    ReplicasLost,
    ReplicasOffline,
    TopicPartitions,
    TopicReplicas,
    TopicResults,
    UnregisterBroker,
    UpdateFeatures,
    WriteExtension,
    from_wire,
    to_wire,
)
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.controller.controller import Controller
from raftka.metadata.controller.decision import Context, Outcome
from raftka.metadata.image import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    MetadataImage,
    PartitionImage,
)
from raftka.metadata.records import (
    ConfigSet,
    PartitionChanged,
    PartitionsAdded,
    Record,
    ReplicasMarked,
    TopicCreated,
    TopicDeleted,
    decode_batch,
    encode_batch,
)
from raftka.versions import Features, own_features
from raftka.wire.errors import Code, KafkaError
from tests.scenario import Words

PROPERTIES = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://host:9092,CONTROLLER://host:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@host:9093",
    "broker.session.timeout.ms": "2000",
    "auto.leader.rebalance.enable": "false",
}
NO_ID = bytes(16)
# of config resources
NAMES = {TOPIC: "topic", BROKER: "broker", CLIENT_METRICS: "metrics", GROUP: "group", 3: "nonsense"}


def _features(text: str) -> Features:
    """Levels of this release, but for those that `text` has."""
    ranges = {name: (low, high) for name, low, high in own_features()}
    for each in text.split(",") if text else ():
        name, _, levels = each.partition(":")
        low, _, high = levels.partition("-")
        ranges[name] = int(low), int(high)
    return tuple([(name, *levels) for name, levels in ranges.items()])


def stage() -> "ControllerStage":
    return ControllerStage()


class ControllerStage:
    def __init__(self) -> None:
        self.settings = NodeSettings.from_properties(PROPERTIES)
        self.random = Random(1)
        self.now = 0.0
        self.image = MetadataImage()  # what is committed
        self.ids: dict[str, bytes] = {}  # topic ids that once were, by name
        self.greeted: dict[int, Features] = {}  # what other voters have said of their release
        self.lead()

    def lead(self, heard: dict[int, float] | None = None) -> None:
        self.controller = Controller(
            self.image, self.settings, self.now, heard, greeted=self.greeted
        )

    def do(self, verb: str, words: Words) -> Iterable[str]:
        play: Callable[[Words], Iterable[str]] = getattr(self, f"do_{verb.replace('-', '_')}")
        return play(words)

    # the world

    def do_settings(self, words: Words) -> Iterable[str]:
        """`settings name=value ...`: the controller starts anew with them."""
        self.settings = NodeSettings.from_properties(
            {**PROPERTIES, **{name: words[name] for name in words.named}}
        )
        self.lead()
        return []

    def do_at(self, words: Words) -> Iterator[str]:
        """`at 2.001`: time passes; whatever is due on the way happens when it is due."""
        target = float(words.bare[0])
        while (due := self.controller.deadline()) <= target:
            self.now = max(self.now, due)
            lines = list(self._outcome(self.controller.tick(self._context())))
            if not lines and self.controller.deadline() <= self.now:
                break
            yield from lines
        self.now = target

    def do_asleep_until(self, words: Words) -> Iterator[str]:
        """`asleep-until 9`: the controller's process stands still and sees the time only then."""
        self.now = float(words.bare[0])
        yield from self._outcome(self.controller.tick(self._context()))

    def do_new_controller(self, words: Words) -> Iterator[str]:
        """`new-controller heard=1:0.5`: another node leads from now on, on what is committed, and
        has heard broker 1, the one before, at 0.5.
        """
        heard = dict(each.split(":") for each in words.get("heard").split(",") if each)
        self.lead({int(broker_id): float(when) for broker_id, when in heard.items()})
        # as its driver does at once
        yield from self._outcome(self.controller.tick(self._context()))

    def do_brokers(self, words: Words) -> Iterator[str]:
        """`brokers 1 2 3`: the cluster is formed, they are registered, caught up and unfenced,
        without a word.
        """
        if self.image.cluster_id is None:
            list(self._outcome(self.controller.tick(self._context())))
        for broker_id in map(int, words.bare):
            reply = self._quietly(self._registration(broker_id, Words("")))
            self._quietly(Heartbeat(broker_id, reply.broker_epoch, reply.broker_epoch))
        yield from ()

    def do_alive(self, words: Words) -> Iterator[str]:
        """`alive 1 2`: these send a heartbeat, having applied everything."""
        for broker_id in map(int, words.bare):
            yield from self._decide(
                Heartbeat(broker_id, self._epoch(broker_id), self.image.offset), quiet_reply=True
            )

    # commands

    def do_register(self, words: Words) -> Iterator[str]:
        yield from self._decide(self._registration(words.number("broker"), words))

    def _registration(self, broker_id: int, words: Words) -> RegisterBroker:
        """`directory=1a,1b failed=1 held=1a:t-0,t-1;1b:`: what it can use, how many it cannot, what
        lies in each. `supports=raftka.version:1-2`: levels that are not those of this release.
        `clean`: the process before was shut down in order; `os`: this one does not flush.
        """
        directory, *more = [_id(each) for each in words.get("directory", str(broker_id)).split(",")]
        incarnation = (
            words.get("incarnation", f"{broker_id} at {self.now} {self.image.offset}")
            .encode()
            .ljust(16, b"\0")[:16]
        )
        endpoints = (("PLAINTEXT", "host", 9090 + broker_id, "PLAINTEXT"),)
        held = (
            tuple([self._held(each) for each in words.get("held").split(";")])
            if "held" in words
            else None
        )
        who = (
            broker_id,
            incarnation,
            directory,
            words.get("cluster") or None,
            endpoints,
            words.get("rack") or None,
        )
        features = _features(words.get("supports"))
        previous = self._epoch(broker_id) if words.flag("clean") else -1
        disk = tuple(more), words.number("failed", 0), held
        return RegisterBroker(*who, *disk, features, previous, not words.flag("os"))

    def _held(self, text: str) -> HeldReplicas:
        directory, _, names = text.partition(":")
        return HeldReplicas(
            _id(directory), tuple([self._replica(each) for each in names.split(",") if each])
        )

    def _replica(self, text: str) -> TopicReplicas:
        topic_id, partition = self._partition_named(text)
        return TopicReplicas(topic_id, (partition,))

    def do_offline(self, words: Words) -> Iterator[str]:
        """`offline broker=1 directory=1b t-0 t-1`: they lie in a directory that failed."""
        broker_id = words.number("broker")
        epoch = words.number("epoch", self._epoch(broker_id))
        yield from self._decide(
            ReplicasOffline(
                broker_id, epoch, _id(words["directory"]), tuple(map(self._replica, words.bare))
            )
        )

    def do_lost_records(self, words: Words) -> Iterator[str]:
        """`lost_records broker=1 t-0 t-1`: gone from its disk, which is there."""
        broker_id = words.number("broker")
        epoch = words.number("epoch", self._epoch(broker_id))
        yield from self._decide(
            ReplicasLost(broker_id, epoch, tuple(map(self._replica, words.bare)))
        )

    def do_unregister(self, words: Words) -> Iterator[str]:
        yield from self._decide(UnregisterBroker(words.number("broker")))

    def do_heartbeat(self, words: Words) -> Iterator[str]:
        broker_id = words.number("broker")
        epoch = words.number("epoch", self._epoch(broker_id))
        applied = words.number("applied", self.image.offset)
        yield from self._decide(
            Heartbeat(
                broker_id,
                epoch,
                applied,
                words.flag("want-shutdown"),
                words.flag("want-fenced"),
                words.flag("cordoned"),
            )
        )

    def do_lost(self, words: Words) -> Iterator[str]:
        broker_id = words.number("broker")
        yield from self._decide(
            BrokerLost(broker_id, words.number("epoch", self._epoch(broker_id)))
        )

    def do_alter(self, words: Words) -> Iterator[str]:
        """`alter t-0 by=1 isr=1,2:12 leader-epoch=0 partition-epoch=1`; epochs are the current ones
        when they are not said.
        """
        changes = []
        for topic, index in (self._partition_named(name) for name in words.bare):
            now = self.image.partition(topic, index) or PartitionImage((), (), -1, 0, 0)
            epochs = (
                words.number("leader-epoch", now.leader_epoch),
                words.number("partition-epoch", now.partition_epoch),
            )
            members = [each.partition(":") for each in words.get("isr").split(",") if each]
            isr = tuple(
                (int(broker_id), int(epoch) if epoch else self._epoch(int(broker_id)))
                for broker_id, _, epoch in members
            )
            changes.append(Change(topic, index, *epochs, isr))
        broker_id = words.number("by")
        yield from self._decide(
            AlterPartition(broker_id, words.number("epoch", self._epoch(broker_id)), tuple(changes))
        )

    def do_create(self, words: Words) -> Iterator[str]:
        """`create a b partitions=2 replicas=3 retention.ms=1`, or `create a assign=0:1,2;1:2,1`."""
        known = {"partitions", "replicas", "assign"}
        configs = tuple(
            (name, words[name] if words[name] != "null" else None)
            for name in words.named
            if name not in known
        )
        assignments = tuple(_assignment(each) for each in words.get("assign").split(";") if each)
        counts = words.number("partitions", -1), words.number("replicas", -1)
        names = [name for name in words.bare if name != "validate-only"]
        topics = tuple(
            NewTopic("" if name == "''" else name, *counts, assignments, configs) for name in names
        )
        yield from self._decide(CreateTopics(topics, words.flag("validate-only")))

    def do_delete(self, words: Words) -> Iterator[str]:
        """`delete a id-of:b both:c neither`."""
        yield from self._decide(DeleteTopics(tuple(map(self._doomed, words.bare))))

    def _doomed(self, word: str) -> DoomedTopic:
        how, _, name = word.rpartition(":")
        if word == "neither":
            return DoomedTopic()
        return DoomedTopic(
            None if how == "id-of" else name, self.ids.get(name, b"?" * 16) if how else None
        )

    def do_more(self, words: Words) -> Iterator[str]:
        """`more t u partitions=4`, or `more t partitions=3 assign=1,2;2,1`; `assign=none`: an empty
        list.
        """
        given = words.get("assign")
        assignments = (
            tuple(_numbers(each) for each in given.split(";"))
            if given not in ("", "none")
            else ()
            if given
            else None
        )
        topics = tuple(
            MorePartitions(name, words.number("partitions"), assignments)
            for name in words.bare
            if name != "validate-only"
        )
        yield from self._decide(CreatePartitions(topics, words.flag("validate-only")))

    def do_elect(self, words: Words) -> Iterator[str]:
        """`elect t-0 t-1 type=1`; without a partition: all."""
        by_topic: dict[str, list[int]] = {}
        for name, _, index in (each.rpartition("-") for each in words.bare):
            by_topic.setdefault(name, []).append(int(index))
        topics = (
            tuple(TopicPartitions(name, tuple(indexes)) for name, indexes in by_topic.items())
            or None
        )
        yield from self._decide(ElectLeaders(words.number("type", 0), topics))

    def do_reassign(self, words: Words) -> Iterator[str]:
        """`reassign t-0=2,3 t-1=cancel t-2=`; `same-factor`: the number of replicas must not
        change.
        """
        by_topic: dict[str, list[Move]] = {}
        for name, _, index in (each.rpartition("-") for each in words.named):
            target = words[f"{name}-{index}"]
            by_topic.setdefault(name, []).append(
                Move(int(index), None if target == "cancel" else _numbers(target))
            )
        topics = tuple(MovedTopic(name, tuple(moves)) for name, moves in by_topic.items())
        yield from self._decide(AlterReassignments(topics, not words.flag("same-factor")))

    def do_reassignments(self, words: Words) -> Iterator[str]:
        """`reassignments t-0 nosuch-7`; without a partition: all."""
        named = [each.rpartition("-") for each in words.bare]
        yield from self._decide(
            ListReassignments(
                tuple(TopicPartitions(name, (int(index),)) for name, _, index in named) or None
            )
        )

    def do_greet(self, words: Words) -> Iterator[str]:
        """`greet voter=2 supports=raftka.version:1-1`: a controller that is no broker connects."""
        self.greeted[words.number("voter")] = _features(words.get("supports"))
        yield from ()

    def do_features(self, words: Words) -> Iterator[str]:
        """`features metadata.version=30 type=1`."""
        updates = tuple(
            FeatureUpdate(name, int(words[name]), words.number("type", 1))
            for name in words.named
            if name != "type"
        )
        yield from self._decide(UpdateFeatures(updates, words.flag("validate-only")))

    def do_configs(self, words: Words) -> Iterator[str]:
        """`configs topic:t broker: a=1 b=null -c d+=x d-=y`: set, unset, append, subtract;
        `replace`: what is not named goes, `op=9`: all do that.
        """
        signs = {"+": APPEND, "-": SUBTRACT}
        operation = words.number("op", SET)
        changes = [ConfigChange(word[1:], DELETE, None) for word in words.bare if word[0] == "-"]
        for name in [name for name in words.named if name != "op"]:
            value = None if words[name] == "null" else words[name]
            changes.append(ConfigChange(name.rstrip("+-"), signs.get(name[-1], operation), value))
        kinds = {name: kind for kind, name in NAMES.items()}
        named = [word.partition(":") for word in words.bare if ":" in word]
        resources = tuple(
            [ConfigResource(kinds[kind], name, tuple(changes)) for kind, _, name in named]
        )
        yield from self._decide(
            AlterConfigs(resources, words.flag("replace"), words.flag("validate-only"))
        )

    def do_producer_ids(self, words: Words) -> Iterator[str]:
        broker_id = words.number("broker")
        yield from self._decide(
            AllocateProducerIds(broker_id, words.number("epoch", self._epoch(broker_id)))
        )

    def do_extension(self, words: Words) -> Iterator[str]:
        """`extension zoo /a=1 /b= read-at=10`: a value of nothing deletes."""
        read_at = words.number("read-at") if "read-at" in words else None
        changes = tuple(
            (name.encode(), words[name].encode() or None)
            for name in words.named
            if name != "read-at"
        )
        yield from self._decide(
            WriteExtension(words.bare[0] if words.bare else "", changes, read_at)
        )

    # what is looked at

    def do_show(self, words: Words) -> Iterator[str]:
        for name in words.bare or sorted(self.image.topic_ids):
            topic = self.image.topic_named(name)
            for index, partition in enumerate(topic.partitions if topic else ()):
                yield f"{name}-{index} {_partition(partition)}"

    def do_deadline(self, words: Words) -> Iterator[str]:
        yield f"{self.controller.deadline():.3f}"

    # how it is played

    def _context(self) -> Context:
        return Context(self.now, int(self.now * 1000), self.random, self.image.offset + 1)

    def _quietly(self, command: Command) -> Any:
        outcome = self.controller.decide(command, self._context())
        list(self._outcome(outcome))
        assert outcome.rest is None
        return outcome.reply

    def _decide(self, command: Command, *, quiet_reply: bool = False) -> Iterator[str]:
        assert from_wire(*to_wire(command)) == command
        try:
            outcome = self.controller.decide(command, self._context())
        except KafkaError as error:
            yield f"error {error.code.name}" + (f" {error.message}" if error.message else "")
            return
        yield from self._outcome(outcome)
        assert outcome.rest is None
        if not quiet_reply:
            yield from self._reply(outcome.reply)

    def _outcome(self, outcome: Outcome) -> Iterator[str]:
        """Every node applies what the controller replays, and comes to the same image."""
        if not outcome.records:
            return
        offset = self.image.offset + 1
        entry = encode_batch(outcome.records, offset)
        assert decode_batch(entry) == (offset, list(outcome.records))
        before = self.image
        self.image, _ = self.image.apply_entry(offset, entry)
        self.controller.replay(offset, outcome.records)
        assert (
            self.image
            == self.controller.image
            == MetadataImage.from_snapshot(self.image.to_snapshot())
        )
        self.ids |= self.image.topic_ids
        for record in outcome.records:
            yield f"record {offset} {type(record).__name__} {self._fields(record, before)}"

    def _fields(self, record: Record, before: MetadataImage) -> str:
        match record:
            case TopicCreated(name, _, partitions):
                return " ".join([name, *map(_new_partition, partitions)])
            case PartitionsAdded(topic_id, first, partitions):
                return " ".join(
                    [
                        self.image.topics[topic_id].name,
                        f"from={first}",
                        *map(_new_partition, partitions),
                    ]
                )
            case PartitionChanged(topic_id, index):
                now = self.image.partition(topic_id, index)
                assert now is not None
                replicas = (
                    f" replicas={','.join(map(str, now.replicas))}"
                    if record.replicas is not None and not (now.adding or now.removing)
                    else ""
                )
                return f"{self.image.topics[topic_id].name}-{index} {_partition(now)}{replicas}"
            case TopicDeleted(topic_id):
                return before.topics[topic_id].name
            case ReplicasMarked(broker_id, offline, topics):
                return f"broker_id={broker_id} offline={_text(offline)} " + " ".join(
                    f"{self.image.topics[topic_id].name}-{index}"
                    for topic_id, own in topics
                    for index in own
                )
            case ConfigSet(kind, resource, name, value):
                return f"{'' if kind == TOPIC else f'{NAMES[kind]}:'}{resource} {name}" + (
                    f"={value}" if value is not None else " unset"
                )
        values = record._asdict().items()
        return " ".join(
            f"{name}={_text(value)}"
            for name, value in values
            if name not in ("incarnation_id", "endpoints", "features")
            and value not in (None, ())
            and (name, value) != ("flushes", True)
        )

    def _reply(self, reply: Any) -> Iterator[str]:
        if reply is None or isinstance(reply, int):
            yield f"reply {reply if reply is not None else 'done'}"
        elif hasattr(reply, "_fields"):
            yield f"reply {self._named(reply)}"
        else:
            for each in reply:
                for line in self._results(each):
                    yield f"reply {line}"

    def _results(self, reply: Any) -> Iterator[str]:
        if isinstance(reply, TopicResults | OngoingTopic):
            parts = [
                f"{reply.name}-{each.partition} {self._named(each._replace(partition=-1))}"
                for each in reply.partitions
            ]
            yield from parts or [f"{reply.name} -"]
        else:
            yield self._named(reply)

    def _named(self, reply: Any) -> str:
        parts = []
        for name, value in zip(reply._fields, reply, strict=True):
            if name == "topic_id":
                parts.append(self._topic_id(value))
            elif name == "error":
                parts.append(Code(value).name)
            elif value not in (None, -1, ()):
                parts.append(
                    str(value) if name in ("name", "message") else f"{name}={_text(value)}"
                )
        return " ".join(filter(None, parts))

    def _topic_id(self, topic_id: bytes) -> str:
        topic = self.image.topics.get(topic_id)
        gone = next((name for name, known in self.ids.items() if known == topic_id), "?")
        return "" if topic_id == NO_ID else f"id-of:{topic.name if topic else gone}"

    def _epoch(self, broker_id: int) -> int:
        broker = self.image.brokers.get(broker_id)
        return broker.epoch if broker else -1

    def _partition_named(self, text: str) -> tuple[bytes, int]:
        name, _, index = text.rpartition("-")
        return self.image.topic_ids.get(name, b"?" * 16), int(index)


def _assignment(text: str) -> tuple[int, tuple[int, ...]]:
    index, _, replicas = text.partition(":")
    return int(index), tuple(int(each) for each in replicas.split(",") if each)


def _id(text: str) -> bytes:
    return text.encode().ljust(16, b"\0")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",") if each)


def _new_partition(partition: tuple[Any, ...]) -> str:
    replicas, isr, leader = partition
    return f"{','.join(map(str, replicas))}/{','.join(map(str, isr))}/{leader}"


def _partition(partition: PartitionImage) -> str:
    """The replicas only while they are to be others."""
    isr = ",".join(map(str, partition.isr)) or "-"
    now = (
        f"leader={partition.leader} epoch={partition.leader_epoch} isr={isr} "
        f"partition-epoch={partition.partition_epoch}"
    )
    for name in ("offline", "elr", "last_known_elr"):
        if brokers := getattr(partition, name):
            now += f" {name}={','.join(map(str, brokers))}"
    return f"{now} {_under_way(partition)}" if partition.adding or partition.removing else now


def _under_way(partition: PartitionImage) -> str:
    parts = (
        ("replicas", partition.replicas),
        ("adding", partition.adding),
        ("removing", partition.removing),
    )
    return " ".join(f"{name}={','.join(map(str, value)) or '-'}" for name, value in parts)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.rstrip(b"\0").decode("ascii", "replace")
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(_text, value)) if isinstance(value, tuple) else str(value)
