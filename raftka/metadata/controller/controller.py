"""The controller: decides commands, and fences brokers that are silent. It is a state machine
without Raft, connections and clock; its decisions are records for the metadata log.

`decide` and `tick` change no replicated state. `replay` does, on the controller's own image, which
is ahead of the committed one. `ControllerHost` appends the records of each Outcome as one entry at
`next_offset`, replays them at once, and holds the reply until the entry is committed. It drops the
controller when this node loses the leadership; a new leader makes one of its committed image.

Commands of brokers are decided here, all others by the table in `administration.py`.
"""

from collections.abc import Callable, Mapping, Sequence
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
    RegisterBroker,
    Registered,
    ReplicasLost,
    ReplicasOffline,
    UnregisterBroker,
)
from raftka.metadata.configs.settings import NodeSettings, TopicConfigs
from raftka.metadata.controller.administration import DECISIONS
from raftka.metadata.controller.brokers import (
    NextState,
    Sessions,
    check_registration,
    choose_state,
    decide_allocate_producer_ids,
    find_broker,
    find_cordoned,
    registered_already,
)
from raftka.metadata.controller.decision import Context, Formation, Outcome
from raftka.metadata.controller.delegation_tokens import remove_expired_tokens
from raftka.metadata.controller.directories import (
    DirectoriesHere,
    mark_directory_failed,
    shutdown_before,
    when_lost,
    when_registered,
)
from raftka.metadata.controller.draft import Draft, Environment
from raftka.metadata.controller.partitions import (
    MIN_ISR,
    Unclean,
    decide_alter_partition,
    min_isr_of,
    records_of_feature,
    settling,
    to_preferred,
)
from raftka.metadata.controller.topic_names import TopicNames
from raftka.metadata.controller.walks import After, Walk
from raftka.metadata.extension import ExtensionMachine
from raftka.metadata.image import BrokerImage, Delta, MetadataImage
from raftka.metadata.records import (
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnfenced,
    BrokerUnregistered,
    ClusterFormed,
    FeatureLevelSet,
    Record,
    Replicas,
    TopicCreated,
    TopicDeleted,
)
from raftka.versions import ELR_LEVEL, ELR_VERSION, FORMED_WITH, KRAFT_VERSION, Features
from raftka.wire.errors import Code, KafkaError

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
        greeted: Mapping[int, Features] | None = None,
        voters: Callable[[], Sequence[int]] | None = None,
    ) -> None:
        """`image`: all that is committed. `machines`: of the packages that this node has.
        `greeted`: what the releases of other voters support, as far as they have said it. `voters`:
        the ids of all voters; None: those of the settings.

        `heard`: times at which Raft last heard other nodes. The former leader, whose silence led to
        the election, gets no new session.
        """
        self.image = image
        self.settings = settings
        self.sessions = Sessions(settings.seconds("broker.session.timeout.ms"), now, heard or {})
        self._machines = machines
        self._formation = formation
        self._greeted = greeted if greeted is not None else {}
        self._voters = voters or (lambda: [voter.node_id for voter in settings.voters])
        self._configs = TopicConfigs(settings)
        self._names = TopicNames(image)
        # soft: offset of the record that took a broker's leaderships
        self._shutdown_at: dict[int, int] = {}
        self._began_at = image.offset
        self._hits: list[Limit] = []  # soft: limits that decisions hit, until the host counts them
        self._rebalance_every = (
            float(settings["leader.imbalance.check.interval.seconds"])
            if settings["auto.leader.rebalance.enable"]
            else inf
        )
        self._rebalance_at = now + self._rebalance_every
        self._sweep_every = settings.seconds("delegation.token.expiry.check.interval.ms")
        self._sweep_at = now  # removal of expired tokens
        # soft: the controller before this one may not have settled all partitions
        self._walk = Walk(image) if image.topics else None
        self._walked_at = 0  # offset of the last portion

    def decide(self, command: Command, context: Context) -> Outcome:
        """Decide a command, with the records that packages add to the batch.

        Raises KafkaError when the command is refused as a whole.
        """
        package = command.package if isinstance(command, ExtensionCommand) else None
        match command:
            case Heartbeat():
                outcome = self._decide_heartbeat(command, context)
            case AlterPartition(broker_id, broker_epoch):
                find_broker(self.image, broker_id, broker_epoch)
                outcome = Outcome(*decide_alter_partition(self.image, command))
            case ReplicasOffline():
                outcome = self._decide_replicas_offline(command, context)
            case ReplicasLost():
                outcome = self._decide_replicas_lost(
                    command, Walk(self.image, command.topics), context
                )
            case AllocateProducerIds(broker_id, broker_epoch):
                find_broker(self.image, broker_id, broker_epoch)
                outcome = Outcome(*decide_allocate_producer_ids(self.image, command))
            case RegisterBroker():
                outcome = self._decide_register_broker(command, context)
            case UnregisterBroker():
                outcome = self._decide_unregister_broker(command, context)
            case BrokerLost():
                outcome = self._decide_broker_lost(command, context)
            case ExtensionCommand():
                machine = self._machine_of(command.package)
                outcome = machine.decide(command.payload, context, self._draft(context))
            case _:
                outcome = Outcome(*DECISIONS[type(command)](self._draft(context), command))
        return self._add_records_of_packages(outcome, context, package)

    def _machine_of(self, package: str) -> ExtensionMachine:
        """Raises UNSUPPORTED_VERSION if this node runs without the package."""
        if package not in self._machines:
            raise KafkaError(
                Code.UNSUPPORTED_VERSION,
                f"the controller, node {self.settings.node_id}, runs without {package}",
            )
        return self._machines[package]

    def _draft(self, context: Context) -> Draft:
        environment = Environment(
            self.settings,
            context.random,
            context.wall_ms,
            self._hits,
            partial(self._unclean_allowed, self.image),
            partial(self._settle, context.now),
            self._formation.make_secret if self._formation is not None else None,
            self._greeted,
            partial(find_cordoned, self.image, self.sessions),
            self._voters(),
        )
        return Draft(self.image, self._names, context.next_offset, environment)

    def _add_records_of_packages(
        self, outcome: Outcome, context: Context, package: str | None = None
    ) -> Outcome:
        """Add the records that packages write beside this outcome. `package`: the one that has
        decided it.
        """
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
        """Return the limits that were hit since the last call, where a reply refuses a part of a
        command.
        """
        hits, self._hits = self._hits, []
        return hits

    def replay(self, offset: int, records: Sequence[Record]) -> Delta:
        """Apply the records of an entry. Only here replicated state changes."""
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
        """Return the time of the next tick; inf: none is needed."""
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
        """Do the most urgent thing that is due: form the cluster, fence silent brokers, let a
        package's machine tick, go on with a walk, remove expired tokens, move leaderships back.
        """
        if self.image.cluster_id is None:
            features = [FeatureLevelSet(*feature) for feature in FORMED_WITH.items()]
            if self._formation is not None and self._formation.kraft_version:
                features.append(FeatureLevelSet(KRAFT_VERSION, self._formation.kraft_version))
            security: list[Record] = (
                []
                if self._formation is None
                else [self._formation.make_secret(), *self._formation.first_users]
            )
            given = None if self._formation is None else self._formation.cluster_id
            cluster_id = given or new_cluster_id(context.random)
            elr = (
                records_of_feature(self.image, self.settings[MIN_ISR])
                if FORMED_WITH[ELR_VERSION]
                else []
            )
            return Outcome([ClusterFormed(cluster_id), *features, *elr, *security])
        silent = self.sessions.expired(self.image, context.now)
        if silent:
            return self._add_records_of_packages(
                Outcome(self._fence_brokers(silent, context)), context
            )
        due = next(
            (
                package
                for package, machine in self._machines.items()
                if machine.deadline() <= context.now
            ),
            None,
        )
        if due is not None:
            return self._add_records_of_packages(self._machines[due].tick(context), context, due)
        if self._walk is not None:
            return self._add_records_of_packages(self._continue_walk(self._walk, context), context)
        if self.image.tokens and context.now >= self._sweep_at:
            self._sweep_at = context.now + self._sweep_every
            return self._add_records_of_packages(
                Outcome(remove_expired_tokens(self.image, context.wall_ms)), context
            )
        return (
            self._add_records_of_packages(self._rebalance(context.now), context)
            if context.now >= self._rebalance_at
            else Outcome()
        )

    @property
    def settled(self) -> bool:
        """Return whether no walk is under way: all partitions fit the brokers that are alive."""
        return self._walk is None

    def not_appended(self) -> None:
        """Walk again: the last decision's records were not appended, and a portion of a walk may
        have been among them.
        """
        if self._walk is not None or self.image.topics:
            self._walk = Walk(self.image)

    def _continue_walk(self, walk: Walk, context: Context) -> Outcome:
        records = walk.portion(self.image, self._settling(self.image, context.now))
        if walk.finished:
            self._walk = None
        if records:
            self._walked_at = context.next_offset
        return Outcome(records)

    def _settle(self, now: float, image: MetadataImage) -> list[Record]:
        """Return changes that the partitions of this image need, as many as one entry holds; a walk
        makes the rest.
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
        """Move leaderships to the preferred replicas: one batch now, the rest a moment later, so
        that brokers do not move all of them at once.
        """
        records = to_preferred(self.image, REBALANCED_AT_ONCE)
        self._rebalance_at = now + (
            self._rebalance_every if len(records) < REBALANCED_AT_ONCE else REBALANCE_PAUSE_S
        )
        return Outcome(records)

    def _decide_register_broker(self, command: RegisterBroker, context: Context) -> Outcome:
        check_registration(command, self.image, self.sessions, context.now)
        known = self.image.brokers.get(command.broker_id)
        here = DirectoriesHere(known, command)
        if here.must_report_replicas:
            return Outcome(reply=Registered(TELL_HELD))
        if known is not None and registered_already(command, known):
            self.sessions.heard(command.broker_id, context.now)
            return Outcome(reply=Registered(known.epoch))
        return self._register_process(command, known, here, Walk(self.image), context)

    def _register_process(
        self,
        command: RegisterBroker,
        known: BrokerImage | None,
        here: DirectoriesHere,
        walk: Walk,
        context: Context,
    ) -> Outcome:
        """Take the broker out of its ISRs, then register it. If this controller is deposed in
        between, the broker asks the next one.

        Only brokers that this controller has heard count as alive. Suppose all brokers restarted
        right before this controller was elected. The leaderships of each would go to the next one
        that only seems to be alive; the last would be alone in the ISR, and all others would wait
        for it.
        """
        alive = self._heard_alive(context.now) - {command.broker_id}
        after = when_registered(
            here,
            shutdown_before(command, known),
            alive,
            self._unclean(self.image, command.broker_id),
            min_isr_of(self.image),
        )
        records = walk.portion(self.image, after)
        if walk.finished:
            self.sessions.registered(command.broker_id, context.now)
            process = (
                command.broker_id,
                command.incarnation_id,
                command.directory_id,
                command.endpoints,
                command.rack,
            )
            registered = BrokerRegistered(
                *process,
                command.more_directories,
                here.may_come_back,
                command.features,
                # records of an earlier level cannot say it
                command.flushes and self.image.level >= ELR_LEVEL,
            )
            return Outcome([registered, *records, *here.marks()], Registered(context.next_offset))
        if known is not None and not known.fenced:
            records.insert(0, BrokerFenced(known.broker_id, known.epoch))
            known = known._replace(fenced=True)
            self._walk = Walk(self.image)

        def rest(context: Context) -> Outcome:
            if self.image.brokers.get(command.broker_id) != known:
                # this controller has heard the earlier process, or another one, meanwhile
                return self._decide_register_broker(command, context)
            return self._register_process(command, known, here, walk, context)

        return Outcome(records, rest=rest)

    def _decide_replicas_offline(self, command: ReplicasOffline, context: Context) -> Outcome:
        broker = find_broker(self.image, command.broker_id, command.broker_epoch)
        records = mark_directory_failed(broker, command)
        return Outcome(self._with_settled(records, context) if records else ())

    def _decide_replicas_lost(self, command: ReplicasLost, walk: Walk, context: Context) -> Outcome:
        find_broker(self.image, command.broker_id, command.broker_epoch)
        alive = frozenset(self.image.alive_brokers())
        unclean, min_isr = self._unclean(self.image), min_isr_of(self.image)
        records = walk.portion(self.image, when_lost(command.broker_id, alive, unclean, min_isr))
        return Outcome(
            records,
            rest=None if walk.finished else partial(self._decide_replicas_lost, command, walk),
        )

    def _decide_broker_lost(self, command: BrokerLost, context: Context) -> Outcome:
        broker = find_broker(self.image, command.broker_id, command.broker_epoch)
        self.sessions.remove(command.broker_id)
        return Outcome(() if broker.fenced else self._fence_brokers([broker], context))

    def _decide_unregister_broker(self, command: UnregisterBroker, context: Context) -> Outcome:
        broker = self.image.brokers.get(command.broker_id)
        if broker is None:
            raise KafkaError(
                Code.BROKER_ID_NOT_REGISTERED,
                f"Broker ID {command.broker_id} is not currently registered",
            )
        unregistered = BrokerUnregistered(command.broker_id, broker.epoch)
        return Outcome(self._with_settled([unregistered], context))

    def _decide_heartbeat(self, command: Heartbeat, context: Context) -> Outcome:
        broker = find_broker(self.image, command.broker_id, command.broker_epoch)
        first = not self.sessions.spoke(broker.broker_id, context.now)
        must_apply = self.sessions.must_apply(broker, context.now, self.image.offset)
        self.sessions.heard(broker.broker_id, context.now, command.applied_offset)
        self.sessions.note_cordoned(command)
        caught_up = command.applied_offset >= must_apply
        all_know = broker.shutting_down and self._all_brokers_know(broker)
        match choose_state(command, broker, must_apply, all_know):
            case NextState.STAY:
                changes = self._settle(context.now, self.image) if first and broker.alive else ()
                return Outcome(changes, HeartbeatAnswer(broker.fenced, caught_up, False))
            case NextState.FENCE:
                return Outcome(
                    self._fence_brokers([broker], context), HeartbeatAnswer(True, caught_up, False)
                )
            case NextState.UNFENCE:
                unfenced = BrokerUnfenced(broker.broker_id, broker.epoch)
                return Outcome(
                    self._with_settled([unfenced], context), HeartbeatAnswer(False, True, False)
                )
            case NextState.BEGIN_SHUTDOWN:
                leaving = BrokerShuttingDown(broker.broker_id, broker.epoch)
                return Outcome(
                    self._with_settled([leaving], context), HeartbeatAnswer(False, caught_up, False)
                )
            case NextState.SHUTDOWN:
                self.sessions.remove(broker.broker_id)
                return Outcome(
                    () if broker.fenced else self._fence_brokers([broker], context),
                    HeartbeatAnswer(True, caught_up, True),
                )

    def _all_brokers_know(self, leaving: BrokerImage) -> bool:
        """Return whether all living brokers have applied the move of its leaderships: they send it
        no more requests.
        """
        offset = max(self._shutdown_at.get(leaving.broker_id, self._began_at), self._walked_at)
        return self.settled and all(
            self.sessions.applied(each) >= offset for each in self.image.alive_brokers()
        )

    def _fence_brokers(self, brokers: list[BrokerImage], context: Context) -> list[Record]:
        return self._with_settled(
            [BrokerFenced(each.broker_id, each.epoch) for each in brokers], context
        )

    def _with_settled(self, records: list[Record], context: Context) -> list[Record]:
        """Add the changes of partitions that follow from the records, as many as one entry holds;
        later entries have the rest.
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


def new_cluster_id(random: Random) -> str:
    """Return 128 random bits in URL-safe base64: 22 characters, as Kafka's ids."""
    number = random.getrandbits(128) << 4
    return "".join(BASE64_URL[number >> shift & 63] for shift in range(126, -1, -6))
