"""The controller: decides what brokers ask for and what their silence means, and answers with records for the metadata log.

decide() and tick() change nothing that is replicated, replay() does, on an image of its own that runs ahead of what is committed. Whoever drives it
appends each Outcome's records as one entry at `next_offset`, replays them at once, and holds the reply until the entry is committed; with the loss of
leadership the whole object is dropped, and a new leader makes one of its committed image. Knows no Raft, no connection, no clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from random import Random
from typing import Any

from raftka.limits import Limit
from raftka.metadata.brokers import Sessions, Wish, check_registration, current, registered_already, wish
from raftka.metadata.commands import (
    TELL_HELD,
    AllocateProducerIds,
    AlterPartition,
    BrokerLost,
    Command,
    ExtensionCommand,
    Heartbeat,
    HeartbeatAnswer,
    ProducerIdBlock,
    RegisterBroker,
    Registered,
    ReplicasLost,
    ReplicasOffline,
    UnregisterBroker,
    WriteExtension,
)
from raftka.metadata.directories import DirectoriesHere, when_lost, when_offline, when_registered
from raftka.metadata.draft import Draft, Standing
from raftka.metadata.extension import ExtensionMachine, write
from raftka.metadata.features import FORMED_WITH
from raftka.metadata.image import BrokerImage, MetadataImage
from raftka.metadata.partitions import Unclean, alter, to_preferred, when_back, when_gone
from raftka.metadata.records import (
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnfenced,
    BrokerUnregistered,
    ClusterFormed,
    FeatureLevelSet,
    ProducerIdsAllocated,
    Record,
    Replicas,
    TopicCreated,
    TopicDeleted,
)
from raftka.metadata.settings import NodeSettings, TopicConfigs
from raftka.metadata.topics import TopicNames
from raftka.wire.errors import Code, KafkaError

PRODUCER_IDS = 1000  # one block, as Kafka's
REBALANCED_AT_ONCE = 1000  # partitions that go back to their first replica in one batch, as Kafka's
REBALANCE_PAUSE_S = 1.0
NO_MACHINES: Mapping[str, ExtensionMachine] = {}
BASE64_URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@dataclass(frozen=True, slots=True)
class Context:
    """What a decision may know besides its command."""

    now: float  # seconds, on the node's monotonic clock
    wall_ms: int
    random: Random
    next_offset: int  # index that the records of this decision will have


@dataclass(frozen=True, slots=True)
class Outcome:
    records: Sequence[Record] = ()  # one atomic batch
    reply: Any = None  # plain values; what type, says the command's REPLY
    confirm: bool = False  # a reply without records: only when it is sure that no other controller has decided meanwhile
    hand_over: bool = False  # once it is committed and answered, another node shall be the controller


class Controller:
    def __init__(
        self,
        image: MetadataImage,
        settings: NodeSettings,
        now: float,
        heard: Mapping[int, float] | None = None,
        machines: Mapping[str, ExtensionMachine] = NO_MACHINES,
    ) -> None:
        """`image`: all that is committed. `heard`: when other nodes were last heard by Raft. `machines`: of the packages that this node has.

        So the session of the leader before this one, whose silence led to the election, does not begin anew.
        """
        self.image = image
        self.settings = settings
        self.sessions = Sessions(settings.seconds("broker.session.timeout.ms"), now, heard or {})
        self._machines = machines
        self._configs = TopicConfigs(settings)
        self._names = TopicNames(image)
        self._shutdown_at: dict[int, int] = {}  # soft: offset of the record that took a broker's leaderships
        self._began_at = image.offset
        self._hits: list[Limit] = []  # soft: limits that decisions hit, until somebody counts them
        self._rebalance_every = float(settings["leader.imbalance.check.interval.seconds"]) if settings["auto.leader.rebalance.enable"] else inf
        self._rebalance_at = now + self._rebalance_every

    def decide(self, command: Command, context: Context) -> Outcome:
        """With what packages write beside it. Raises KafkaError for what is refused as a whole."""
        package = command.package if isinstance(command, ExtensionCommand) else None
        return self._beside(self._decided(command, context), context, package)

    def _decided(self, command: Command, context: Context) -> Outcome:
        match command:
            case Heartbeat():
                return self._heartbeat(command, context)
            case AlterPartition():
                current(self.image, command.broker_id, command.broker_epoch)
                return Outcome(*alter(self.image, command))
            case ReplicasOffline(broker_id, broker_epoch):
                broker = current(self.image, broker_id, broker_epoch)
                return Outcome(when_offline(self.image, broker, command, frozenset(self.image.alive_brokers()), self._unclean(frozenset())))
            case ReplicasLost(broker_id, broker_epoch):
                current(self.image, broker_id, broker_epoch)
                return Outcome(when_lost(self.image, command, frozenset(self.image.alive_brokers()), self._unclean(frozenset())))
            case AllocateProducerIds():
                return self._allocate_producer_ids(command)
            case RegisterBroker():
                return self._register(command, context)
            case UnregisterBroker(broker_id):
                return self._unregister(broker_id)
            case BrokerLost(broker_id, broker_epoch):
                broker = current(self.image, broker_id, broker_epoch)
                self.sessions.forget(broker_id)
                return Outcome(() if broker.fenced else self._gone([broker]))
            case WriteExtension():
                return Outcome(*write(self.image, command, context.next_offset))
            case ExtensionCommand(package, payload):
                if package not in self._machines:
                    raise KafkaError(Code.UNSUPPORTED_VERSION, f"the controller, node {self.settings.node_id}, runs without {package}")
                return self._machines[package].decide(payload, context, self._draft(context))
            case _:
                draft = self._draft(context)
                reply = draft.decide(command)
                return Outcome(draft.records, reply)

    def _draft(self, context: Context) -> Draft:
        heard_alive = partial(self._heard_alive, context.now)
        standing = Standing(self.settings, self._configs, context.random, self._hits, self._unclean_allowed, heard_alive)
        return Draft(self.image, self._names, context.next_offset, standing)

    def _beside(self, outcome: Outcome, context: Context, package: str | None = None) -> Outcome:
        """`package`: that has decided the outcome."""
        if not outcome.records or not self._machines:
            return outcome
        more = [record for name, each in self._machines.items() if name != package for record in each.beside(outcome.records, context, self.image)]
        return replace(outcome, records=[*outcome.records, *more]) if more else outcome

    def take_hits(self) -> list[Limit]:
        """Limits that were hit since this was called before, where the answer refuses a part of a command."""
        hits, self._hits = self._hits, []
        return hits

    def replay(self, offset: int, records: Sequence[Record]) -> None:
        before = self.image
        self.image, _ = before.apply(offset, records)
        created: dict[bytes, str] = {}
        for record in records:
            match record:
                case TopicCreated(name, topic_id):
                    self._names.add(name)
                    created[topic_id] = name
                case TopicDeleted(topic_id) if topic_id in before.topics or topic_id in created:
                    self._names.remove(created.get(topic_id) or before.topics[topic_id].name)
                case BrokerShuttingDown(broker_id):
                    self._shutdown_at[broker_id] = offset
                case BrokerRegistered(broker_id):
                    self._shutdown_at.pop(broker_id, None)
        for machine in self._machines.values():
            machine.replay(offset, records)

    def deadline(self) -> float:
        """When tick() wants to run; inf: never."""
        if self.image.cluster_id is None:
            return self.sessions.leading_since
        return min(self.sessions.next_end(self.image), self._rebalance_at, *[machine.deadline() for machine in self._machines.values()])

    def tick(self, context: Context) -> Outcome:
        if self.image.cluster_id is None:
            return Outcome([ClusterFormed(new_cluster_id(context.random)), *(FeatureLevelSet(*feature) for feature in FORMED_WITH.items())])
        silent = self.sessions.expired(self.image, context.now)
        if silent:
            return self._beside(Outcome(self._gone(silent)), context)
        if context.now >= self._rebalance_at:
            return self._beside(self._rebalance(context.now), context)
        due = next((package for package, machine in self._machines.items() if machine.deadline() <= context.now), None)
        return Outcome() if due is None else self._beside(self._machines[due].tick(context), context, due)

    def _rebalance(self, now: float) -> Outcome:
        """As many as go into one batch; the rest a moment later, so that brokers are not asked to move everything at once."""
        records = to_preferred(self.image, REBALANCED_AT_ONCE)
        self._rebalance_at = now + (self._rebalance_every if len(records) < REBALANCED_AT_ONCE else REBALANCE_PAUSE_S)
        return Outcome(records)

    def _register(self, command: RegisterBroker, context: Context) -> Outcome:
        check_registration(command, self.image, self.sessions, context.now)
        known = self.image.brokers.get(command.broker_id)
        here = DirectoriesHere(known, command)
        if here.must_tell:
            return Outcome(reply=Registered(TELL_HELD))
        self.sessions.heard(command.broker_id, context.now)
        if known is not None and registered_already(command, known):
            return Outcome(reply=Registered(known.epoch))
        who = (command.broker_id, command.incarnation_id, command.directory_id, command.endpoints, command.rack)
        registered = BrokerRegistered(*who, command.more_directories, here.may_come_back)
        return Outcome([registered, *self._been_away(here, context.now)], Registered(context.next_offset))

    def _unregister(self, broker_id: int) -> Outcome:
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(Code.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
        return Outcome([BrokerUnregistered(broker_id, broker.epoch), *self._leaderships_of(frozenset({broker_id}))])

    def _heartbeat(self, command: Heartbeat, context: Context) -> Outcome:
        broker = current(self.image, command.broker_id, command.broker_epoch)
        first = not self.sessions.spoke(broker.broker_id, context.now)
        self.sessions.heard(broker.broker_id, context.now, command.applied_offset)
        caught_up = command.applied_offset >= broker.epoch
        wanted = wish(command, broker, broker.shutting_down and self._everybody_knows(broker))
        match wanted:
            case Wish.STAY:
                changes = self._back(broker.broker_id, context.now) if first and broker.alive else ()
                return Outcome(changes, HeartbeatAnswer(broker.fenced, caught_up, False))
            case Wish.FENCE:
                return Outcome(self._gone([broker]), HeartbeatAnswer(True, caught_up, False))
            case Wish.UNFENCE:
                unfenced = BrokerUnfenced(broker.broker_id, broker.epoch)
                return Outcome([unfenced, *self._back(broker.broker_id, context.now)], HeartbeatAnswer(False, True, False))
            case Wish.BEGIN_SHUTDOWN:
                leaving = BrokerShuttingDown(broker.broker_id, broker.epoch)
                return Outcome([leaving, *self._leaderships_of(frozenset({broker.broker_id}))], HeartbeatAnswer(False, caught_up, False))
            case Wish.SHUTDOWN:
                self.sessions.forget(broker.broker_id)
                return Outcome(() if broker.fenced else self._gone([broker]), HeartbeatAnswer(True, caught_up, True))

    def _everybody_knows(self, leaving: BrokerImage) -> bool:
        """All who live have applied what took its leaderships: nobody sends anything to it any more."""
        offset = self._shutdown_at.get(leaving.broker_id, self._began_at)
        return all(self.sessions.applied(each) >= offset for each in self.image.alive_brokers())

    def _gone(self, brokers: list[BrokerImage]) -> list[Record]:
        gone = frozenset(each.broker_id for each in brokers)
        fenced: list[Record] = [BrokerFenced(each.broker_id, each.epoch) for each in brokers]
        return fenced + self._leaderships_of(gone)

    def _leaderships_of(self, gone: frozenset[int]) -> list[Record]:
        return when_gone(self.image, gone, frozenset(self.image.alive_brokers()) - gone, self._unclean(gone))

    def _been_away(self, here: DirectoriesHere, now: float) -> list[Record]:
        """For one that registers anew, only those count as alive whom this controller has heard itself.

        If all were away, right before this controller was elected, each one's leaderships would go to the next that only seems to be alive;
        the last would be alone in the ISR, and the others had to wait for just that one.
        """
        away = frozenset({here.broker_id})
        return when_registered(self.image, here, self._heard_alive(now) - away, self._unclean(away))

    def _back(self, broker_id: int, now: float) -> list[Record]:
        return when_back(self.image, broker_id, self._heard_alive(now) | {broker_id}, self._unclean(frozenset()))

    def _heard_alive(self, now: float) -> frozenset[int]:
        return frozenset(each for each in self.image.alive_brokers() if self.sessions.spoke(each, now))

    def _unclean(self, gone: frozenset[int]) -> Unclean:
        """Where the topic allows it, and no member of the ISR can be alive: neither heard nor only thought to be."""

        def unclean(topic: str, isr: Replicas) -> bool:
            if any(self.image.alive(each) for each in isr if each not in gone):
                return False
            return self._unclean_allowed(topic)

        return unclean

    def _unclean_allowed(self, topic: str) -> bool:
        return self._configs.of(self.image, topic).unclean_leader_election

    def _allocate_producer_ids(self, command: AllocateProducerIds) -> Outcome:
        current(self.image, command.broker_id, command.broker_epoch)
        first = self.image.next_producer_id
        record = ProducerIdsAllocated(command.broker_id, command.broker_epoch, first + PRODUCER_IDS)
        return Outcome([record], ProducerIdBlock(first, PRODUCER_IDS))


def new_cluster_id(random: Random) -> str:
    """128 random bits in URL-safe base64, 22 characters, as Kafka's."""
    number = random.getrandbits(128) << 4
    return "".join(BASE64_URL[number >> shift & 63] for shift in range(126, -1, -6))
