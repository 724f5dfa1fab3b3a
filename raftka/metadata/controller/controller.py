"""The controller: decides the commands of brokers and the effects of their silence, and answers
with records for the metadata log.

decide() and tick() change no replicated state; replay() does, on an image of its own that runs
ahead of the committed one. The controller's host appends each Outcome's records as one entry at
`next_offset`, replays them at once, and holds the reply until the entry is committed; with the loss
of leadership the whole object is dropped, and a new leader makes one of its committed image. Knows
no Raft, no connection, no clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from random import Random

from raftka.limits import Limit
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
    StaticSettings,
    TopicDefaults,
    UnregisterBroker,
    WriteExtension,
)
from raftka.metadata.configs.settings import INHERITED, NodeSettings, TopicConfigs
from raftka.metadata.controller.brokers import (
    Sessions,
    Wish,
    check_registration,
    current,
    registered_already,
    wish,
)
from raftka.metadata.controller.decision import Context, Formation, Outcome
from raftka.metadata.controller.directories import (
    DirectoriesHere,
    offline,
    when_lost,
    when_registered,
)
from raftka.metadata.controller.draft import Draft, Standing
from raftka.metadata.controller.features import FORMED_WITH
from raftka.metadata.controller.partitions import Unclean, alter, settling, to_preferred
from raftka.metadata.controller.topics import TopicNames
from raftka.metadata.controller.walks import After, Walk
from raftka.metadata.delegation_tokens import decide_token, expired_tokens
from raftka.metadata.extension import ExtensionMachine, write
from raftka.metadata.image import BrokerImage, Delta, MetadataImage
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
    ScramCredentialSet,
    TopicCreated,
    TopicDeleted,
)
from raftka.metadata.security_commands import AddToken, ExpireToken, RenewToken
from raftka.wire.errors import Code, KafkaError

PRODUCER_IDS = 1000  # one block, as Kafka's
REBALANCED_AT_ONCE = 1000  # partitions that go back to their first replica in one batch, as Kafka's
REBALANCE_PAUSE_S = 1.0
NO_MACHINES: Mapping[str, ExtensionMachine] = {}
BASE64_URL = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class Controller:
    def __init__(
        self,
        image: MetadataImage,
        settings: NodeSettings,
        now: float,
        heard: Mapping[int, float] | None = None,
        machines: Mapping[str, ExtensionMachine] = NO_MACHINES,
        formation: Formation | None = None,
    ) -> None:
        """`image`: all that is committed. `heard`: when other nodes were last heard by Raft.
        `machines`: of the packages that this node has.

        So the session of the leader before this one, whose silence led to the election, does not
        begin anew.
        """
        self.image = image
        self.settings = settings
        self.sessions = Sessions(settings.seconds("broker.session.timeout.ms"), now, heard or {})
        self._machines = machines
        self._formation = formation
        self._configs = TopicConfigs(settings)
        self._names = TopicNames(image)
        # soft: offset of the record that took a broker's leaderships
        self._shutdown_at: dict[int, int] = {}
        self._began_at = image.offset
        self._hits: list[Limit] = []  # soft: limits that decisions hit, until somebody counts them
        self._rebalance_every = (
            float(settings["leader.imbalance.check.interval.seconds"])
            if settings["auto.leader.rebalance.enable"]
            else inf
        )
        self._rebalance_at = now + self._rebalance_every
        self._sweep_every = settings.seconds("delegation.token.expiry.check.interval.ms")
        self._sweep_at = now  # expired tokens
        # soft: the controller before this one may not have settled all partitions
        self._walk = Walk(image) if image.topics else None
        self._walked_at = 0  # offset of the last portion

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
                marked = offline(current(self.image, broker_id, broker_epoch), command)
                return Outcome(self._with_settled(marked, context) if marked else ())
            case ReplicasLost():
                return self._replicas_lost(command, Walk(self.image, command.topics), context)
            case AllocateProducerIds():
                return self._allocate_producer_ids(command)
            case RegisterBroker():
                return self._register(command, context)
            case UnregisterBroker(broker_id):
                return self._unregister(broker_id, context)
            case BrokerLost(broker_id, broker_epoch):
                broker = current(self.image, broker_id, broker_epoch)
                self.sessions.remove(broker_id)
                return Outcome(() if broker.fenced else self._gone([broker], context))
            case AddToken() | RenewToken() | ExpireToken():
                return Outcome(
                    *decide_token(self.image, command, self.settings.values, context.wall_ms)
                )
            case TopicDefaults():
                given = tuple(
                    [
                        (name, text)
                        for name, text in self.settings.given.items()
                        if name in INHERITED
                    ]
                )
                return Outcome(reply=StaticSettings(self.settings.node_id, given))
            case WriteExtension():
                return Outcome(*write(self.image, command, context.next_offset))
            case ExtensionCommand(package, payload):
                if package not in self._machines:
                    raise KafkaError(
                        Code.UNSUPPORTED_VERSION,
                        f"the controller, node {self.settings.node_id}, runs without {package}",
                    )
                return self._machines[package].decide(payload, context, self._draft(context))
            case _:
                draft = self._draft(context)
                reply = draft.decide(command)
                return Outcome(self._with_secret(draft.records), reply)

    def _with_secret(self, records: list[Record]) -> list[Record]:
        """A cluster that is older than logins gets its secret with its first user of SCRAM."""
        missing = (
            self._formation is not None
            and not self.image.secret
            and any(isinstance(each, ScramCredentialSet) for each in records)
        )
        return (
            [self._formation.secret(), *records]
            if missing and self._formation is not None
            else records
        )

    def _draft(self, context: Context) -> Draft:
        settle = partial(self._settle, context.now)
        standing = Standing(
            self.settings,
            context.random,
            self._hits,
            partial(self._unclean_allowed, self.image),
            settle,
        )
        return Draft(self.image, self._names, context.next_offset, standing)

    def _beside(self, outcome: Outcome, context: Context, package: str | None = None) -> Outcome:
        """`package`: that has decided the outcome."""
        if not outcome.records or not self._machines:
            return outcome
        more = [
            record
            for name, each in self._machines.items()
            if name != package
            for record in each.beside(outcome.records, context, self.image)
        ]
        return replace(outcome, records=[*outcome.records, *more]) if more else outcome

    def take_hits(self) -> list[Limit]:
        """Limits that were hit since this was called before, where the answer refuses a part of a
        command.
        """
        hits, self._hits = self._hits, []
        return hits

    def replay(self, offset: int, records: Sequence[Record]) -> Delta:
        before = self.image
        self.image, delta = before.apply(offset, records)
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
        return delta

    def deadline(self) -> float:
        """When tick() wants to run; inf: never."""
        if self.image.cluster_id is None or self._walk is not None:
            return self.sessions.leading_since
        sweep_at = self._sweep_at if self.image.tokens else inf
        return min(
            self.sessions.next_end(self.image),
            self._rebalance_at,
            sweep_at,
            *[machine.deadline() for machine in self._machines.values()],
        )

    def tick(self, context: Context) -> Outcome:
        if self.image.cluster_id is None:
            features = [FeatureLevelSet(*feature) for feature in FORMED_WITH.items()]
            security: list[Record] = (
                []
                if self._formation is None
                else [self._formation.secret(), *self._formation.first_users]
            )
            return Outcome([ClusterFormed(new_cluster_id(context.random)), *features, *security])
        silent = self.sessions.expired(self.image, context.now)
        if silent:
            return self._beside(Outcome(self._gone(silent, context)), context)
        due = next(
            (
                package
                for package, machine in self._machines.items()
                if machine.deadline() <= context.now
            ),
            None,
        )
        if due is not None:
            return self._beside(self._machines[due].tick(context), context, due)
        if self._walk is not None:
            return self._beside(self._walked(self._walk, context), context)
        if self.image.tokens and context.now >= self._sweep_at:
            self._sweep_at = context.now + self._sweep_every
            return self._beside(Outcome(expired_tokens(self.image, context.wall_ms)), context)
        return (
            self._beside(self._rebalance(context.now), context)
            if context.now >= self._rebalance_at
            else Outcome()
        )

    @property
    def settled(self) -> bool:
        """No partition waits for what a broker's death or return means for it."""
        return self._walk is None

    def not_appended(self) -> None:
        """The last decision's records were not appended: a portion of a walk may have been among
        them.
        """
        if self._walk is not None or self.image.topics:
            self._walk = Walk(self.image)

    def _walked(self, walk: Walk, context: Context) -> Outcome:
        records = walk.portion(self.image, self._settling(self.image, context.now))
        if walk.finished:
            self._walk = None
        if records:
            self._walked_at = context.next_offset
        return Outcome(records)

    def _settle(self, now: float, image: MetadataImage) -> list[Record]:
        """Return the changes that the partitions of this image need, as many as one entry holds; a
        walk makes the rest.
        """
        walk = Walk(image)
        records = walk.portion(image, self._settling(image, now))
        if not walk.finished:
            self._walk = Walk(image)
        return records

    def _settling(self, image: MetadataImage, now: float) -> After:
        heard = frozenset(each for each in image.alive_brokers() if self.sessions.spoke(each, now))
        return settling(image, heard, self._unclean(image))

    def _rebalance(self, now: float) -> Outcome:
        """As many as go into one batch; the rest a moment later, so that brokers are not asked to
        move everything at once.
        """
        records = to_preferred(self.image, REBALANCED_AT_ONCE)
        self._rebalance_at = now + (
            self._rebalance_every if len(records) < REBALANCED_AT_ONCE else REBALANCE_PAUSE_S
        )
        return Outcome(records)

    def _register(self, command: RegisterBroker, context: Context) -> Outcome:
        check_registration(command, self.image, self.sessions, context.now)
        known = self.image.brokers.get(command.broker_id)
        here = DirectoriesHere(known, command)
        if here.must_tell:
            return Outcome(reply=Registered(TELL_HELD))
        if known is not None and registered_already(command, known):
            self.sessions.heard(command.broker_id, context.now)
            return Outcome(reply=Registered(known.epoch))
        return self._begin_anew(command, known, here, Walk(self.image), context)

    def _begin_anew(
        self,
        command: RegisterBroker,
        known: BrokerImage | None,
        here: DirectoriesHere,
        walk: Walk,
        context: Context,
    ) -> Outcome:
        """The broker leaves its ISRs, then it is registered. If this controller is deposed in
        between, the broker asks the next one.

        Only those brokers count as alive that this controller has heard itself. If all were away,
        right before this controller was elected, each one's leaderships would go to the next that
        only seems to be alive; the last would be alone in the ISR, and all others had to wait for
        it.
        """
        alive = self._heard_alive(context.now) - {command.broker_id}
        records = walk.portion(
            self.image, when_registered(here, alive, self._unclean(self.image, command.broker_id))
        )
        if walk.finished:
            self.sessions.registered(command.broker_id, context.now)
            who = (
                command.broker_id,
                command.incarnation_id,
                command.directory_id,
                command.endpoints,
                command.rack,
            )
            registered = BrokerRegistered(*who, command.more_directories, here.may_come_back)
            return Outcome([registered, *records, *here.marks()], Registered(context.next_offset))
        if known is not None and not known.fenced:
            records.insert(0, BrokerFenced(known.broker_id, known.epoch))
            known = known._replace(fenced=True)
            self._walk = Walk(self.image)

        def rest(context: Context) -> Outcome:
            if self.image.brokers.get(command.broker_id) != known:
                # the earlier process, or another one, was heard meanwhile
                return self._register(command, context)
            return self._begin_anew(command, known, here, walk, context)

        return Outcome(records, rest=rest)

    def _replicas_lost(self, command: ReplicasLost, walk: Walk, context: Context) -> Outcome:
        current(self.image, command.broker_id, command.broker_epoch)
        alive = frozenset(self.image.alive_brokers())
        records = walk.portion(
            self.image, when_lost(command.broker_id, alive, self._unclean(self.image))
        )
        return Outcome(
            records, rest=None if walk.finished else partial(self._replicas_lost, command, walk)
        )

    def _unregister(self, broker_id: int, context: Context) -> Outcome:
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise KafkaError(
                Code.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered"
            )
        return Outcome(self._with_settled([BrokerUnregistered(broker_id, broker.epoch)], context))

    def _heartbeat(self, command: Heartbeat, context: Context) -> Outcome:
        broker = current(self.image, command.broker_id, command.broker_epoch)
        first = not self.sessions.spoke(broker.broker_id, context.now)
        must_apply = self.sessions.must_apply(broker, context.now, self.image.offset)
        self.sessions.heard(broker.broker_id, context.now, command.applied_offset)
        caught_up = command.applied_offset >= must_apply
        wanted = wish(
            command, broker, must_apply, broker.shutting_down and self._everybody_knows(broker)
        )
        match wanted:
            case Wish.STAY:
                changes = self._settle(context.now, self.image) if first and broker.alive else ()
                return Outcome(changes, HeartbeatAnswer(broker.fenced, caught_up, False))
            case Wish.FENCE:
                return Outcome(
                    self._gone([broker], context), HeartbeatAnswer(True, caught_up, False)
                )
            case Wish.UNFENCE:
                unfenced = BrokerUnfenced(broker.broker_id, broker.epoch)
                return Outcome(
                    self._with_settled([unfenced], context), HeartbeatAnswer(False, True, False)
                )
            case Wish.BEGIN_SHUTDOWN:
                leaving = BrokerShuttingDown(broker.broker_id, broker.epoch)
                return Outcome(
                    self._with_settled([leaving], context), HeartbeatAnswer(False, caught_up, False)
                )
            case Wish.SHUTDOWN:
                self.sessions.remove(broker.broker_id)
                return Outcome(
                    () if broker.fenced else self._gone([broker], context),
                    HeartbeatAnswer(True, caught_up, True),
                )

    def _everybody_knows(self, leaving: BrokerImage) -> bool:
        """All who live have applied what took its leaderships: nobody sends anything to it any
        more.
        """
        offset = max(self._shutdown_at.get(leaving.broker_id, self._began_at), self._walked_at)
        return self.settled and all(
            self.sessions.applied(each) >= offset for each in self.image.alive_brokers()
        )

    def _gone(self, brokers: list[BrokerImage], context: Context) -> list[Record]:
        return self._with_settled(
            [BrokerFenced(each.broker_id, each.epoch) for each in brokers], context
        )

    def _with_settled(self, records: list[Record], context: Context) -> list[Record]:
        """And what follows from them for the partitions, of which the rest comes with later
        entries.
        """
        image, _ = self.image.apply(context.next_offset, records)
        return records + self._settle(context.now, image)

    def _heard_alive(self, now: float) -> frozenset[int]:
        return frozenset(
            each for each in self.image.alive_brokers() if self.sessions.spoke(each, now)
        )

    def _unclean(self, image: MetadataImage, gone: int | None = None) -> Unclean:
        """Allow unclean election where the topic allows it and no member of the ISR is, or may be,
        alive.
        """

        def unclean(topic: str, isr: Replicas) -> bool:
            if any(image.alive(each) for each in isr if each != gone):
                return False
            return self._unclean_allowed(image, topic)

        return unclean

    def _unclean_allowed(self, image: MetadataImage, topic: str) -> bool:
        return self._configs.of(image, topic).unclean_leader_election

    def _allocate_producer_ids(self, command: AllocateProducerIds) -> Outcome:
        current(self.image, command.broker_id, command.broker_epoch)
        first = self.image.next_producer_id
        record = ProducerIdsAllocated(command.broker_id, command.broker_epoch, first + PRODUCER_IDS)
        return Outcome([record], ProducerIdBlock(first, PRODUCER_IDS))


def new_cluster_id(random: Random) -> str:
    """128 random bits in URL-safe base64, 22 characters, as Kafka's."""
    number = random.getrandbits(128) << 4
    return "".join(BASE64_URL[number >> shift & 63] for shift in range(126, -1, -6))
