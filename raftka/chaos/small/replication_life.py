"""The replication of one partition under faults: real controller, real leaders and followers, a log
in memory, messages that are late or lost.

Some ten simulated seconds with a hundred records. Then all heals: everybody must come into the ISR,
with the same log, and all that was acknowledged. In a third of the lives the logs are the broker's
own, on files in memory, and transactional producers write beside the others (transactions.py).

In a third of the others brokers do not flush what they acknowledge, with min.insync.replicas 2. One
broker at a time loses all that its disk does not have, best the last one of the ISR: another one
only when the ISR has the first again. That is what eligible leader replicas are for (KIP-966).
"""

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Any

from raftka.chaos.small.logs import Entry, Log, UnflushedLog
from raftka.chaos.small.raft_oracle import Violation
from raftka.chaos.small.replica import Replica
from raftka.chaos.small.transactions import SHARE, Transactions
from raftka.metadata.commands import (
    AlteredPartition,
    AlterPartition,
    AlterReassignments,
    BrokerLost,
    Change,
    Command,
    CreateTopics,
    ElectLeaders,
    Heartbeat,
    Move,
    MovedTopic,
    NewTopic,
    RegisterBroker,
    Registered,
)
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.controller.controller import Controller
from raftka.metadata.controller.decision import Context, Outcome
from raftka.metadata.image import MetadataImage, PartitionImage
from raftka.metadata.records import encode_batch
from raftka.replication.follower import FollowerFetch
from raftka.replication.partition import Altered, AlterIsr
from raftka.versions import own_features
from raftka.wire.errors import Code, KafkaError

SECONDS = 10.0
HEALED_S = 20.0  # within so long all must be well
BEAT_S = 0.4
TICK_S = 0.1
PATIENCE_S = 1.0  # of who waits for an answer
TOPIC = "t"
RECORDS = 100
RECORDS_BESIDE = 40  # transactions
PROPERTIES = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://host:9092,CONTROLLER://host:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@host:9093",
    "auto.leader.rebalance.enable": "false",
}
SETTINGS = NodeSettings.from_properties(PROPERTIES)
FAULTS = (
    "kill",
    "kill",
    "power",
    "power_of_all",
    "pause",
    "cut",
    "isolate",
    "slow_disk",
    "slow_net",
    "other_controller",
    "move",
    "elect",
)
UNFLUSHED_SHARE = 1 / 3  # of the lives without transactions
UNFLUSHED_FAULTS = (
    "last_member",
    "last_member",
    "last_member",
    "stop",
    "kill",
    "power",
    "pause",
    "cut",
    "isolate",
    "slow_net",
    "other_controller",
    "elect",
)
WRITE_BACK_S = (0.5, 5.0)  # between two times at which a kernel writes all to its disk
Answered = Callable[[Any, Code], object]  # a command's reply, or why there is none


class Oracle:
    """Invariants. Watches, changes nothing."""

    def __init__(self, world: "Life") -> None:
        self.world = world
        self.known: list[Entry] = []  # committed, as the first word of any replica was
        self.acknowledged: dict[int, str] = {}
        self.leaders: dict[int, int] = {}
        # leader epoch -> how much was committed when the controller began it
        self.begun: dict[int, int] = {}
        self.truncations = 0

    def check(self, right: bool, what: str) -> None:
        if not right:
            raise Violation(f"seed {self.world.seed}, at {self.world.now:.4f}: {what}")

    def begins(self, epoch: int) -> None:
        self.begun.setdefault(epoch, len(self.known))

    def elected(self, replica: Replica, epoch: int) -> None:
        """Check a new leader. It may hear late of its election: then a later leader may have
        committed entries that this one lacks.
        """
        self.check(
            self.leaders.setdefault(epoch, replica.id) == replica.id,
            f"{self.leaders[epoch]} and {replica.id} lead in epoch {epoch}",
        )
        committed = min(
            (known for later, known in self.begun.items() if later > epoch), default=len(self.known)
        )
        there = replica.log.entries[:committed]
        self.check(
            there == self.known[:committed],
            f"{replica.id} leads in epoch {epoch} without all that is committed: {committed}",
        )

    def committed(self, replica: Replica, offset: int) -> None:
        self.check(
            offset <= replica.log.end,
            f"the high watermark of {replica.id} is {offset}, its log ends at {replica.log.end}",
        )
        partition = self.world.partition_of(self.world.image)
        if (
            partition is not None
            and replica.leader is not None
            and replica.leader.leader_epoch == partition.leader_epoch
        ):
            behind = [
                each
                for each in partition.eligible
                if self.world.replicas[each].log.flushed < offset and each not in self.world.unclean
            ]
            self.check(
                not behind,
                f"{offset} is committed, {behind} of the ISR {partition.isr} and the ELR "
                f"{partition.elr} do not have it on their disks",
            )
        both = min(offset, len(self.known))
        self.check(
            replica.log.entries[:both] == self.known[:both],
            f"{replica.id} has something else below {both}, which is committed",
        )
        self.known += replica.log.entries[both:offset]
        if self.world.transactions is not None:
            self.world.transactions.judge.committed(replica, offset)

    def truncates(self, replica: Replica, offset: int) -> None:
        self.truncations += 1
        mine = replica.log.entries
        same = sum(1 for a, b in zip(mine, self.known, strict=False) if a == b)
        self.check(
            offset >= min(same, len(self.known)),
            f"{replica.id} cuts at {offset} what is committed up to {len(self.known)}",
        )

    def rebuilt(self, replica: Replica) -> None:
        if self.world.transactions is not None:
            self.world.transactions.judge.rebuilt(replica)


class Life:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        chance = Random(f"transactions/{seed}")
        self.transactions = Transactions(self, chance) if chance.random() < SHARE else None
        self.now = 0.0
        self.random = Random(f"replication/{seed}")
        # without a producer id
        self.records = RECORDS if self.transactions is None else RECORDS_BESIDE
        self.brokers = self.random.choice((3, 3, 4, 5))
        self.min_isr = self.random.choice((1, 2, 2))
        unflushed = Random(f"unflushed/{seed}").random() < UNFLUSHED_SHARE
        self.flushes = self.transactions is not None or not unflushed
        if not self.flushes:
            self.min_isr = 2
        # brokers whose process may have lost records, and that are not registered since
        self.unclean: set[int] = set()
        self.weak: set[int] = set()  # the same, until they are in the ISR again
        self.oracle = Oracle(self)
        self.replicas = {i: Replica(self, i) for i in range(1, self.brokers + 1)}
        self.image = MetadataImage()  # committed
        self.controller: Controller | None = Controller(self.image, SETTINGS, 0.0)
        self.cut: dict[tuple[int, int], int] = {}  # how many faults hold the link
        self.faults: list[tuple[float, str]] = []
        self.over = False
        self.sent = 0
        self._slow: dict[int, float] = {}
        self._net_s = self.random.choice((0.001, 0.005, 0.03))
        self._heap: list[tuple[float, int, Callable[[], object]]] = []
        self._pushed = 0

    # time and messages

    def at(self, when: float, action: Callable[[], object]) -> None:
        self._pushed += 1
        heappush(self._heap, (when, self._pushed, action))

    def later(self, seconds: float, replica: Replica, action: Callable[[], object]) -> None:
        """For this life of it; while it is paused things wait."""
        life = replica.life

        def due() -> None:
            if replica.life == life and replica.alive:
                if replica.paused:
                    self.at(self.now + 0.05, due)
                else:
                    action()

        self.at(self.now + seconds, due)

    def say(self, sender: int, target: Replica, action: Callable[[], object]) -> None:
        """A message, if the link carries it. The controller is 0."""
        if not self.cut.get((sender, target.id)):
            self.later(self._delay(), target, action)

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        end = self.now + seconds
        while self._heap and self._heap[0][0] <= end:
            self.now, _, action = heappop(self._heap)
            action()
            if until is not None and until():
                return True
        self.now = end
        return until is not None and until()

    def _delay(self) -> float:
        return self._net_s * (0.2 + self.random.random())

    def disk_s(self, broker: int) -> float:
        return self._slow.get(broker, 0.002) * (0.5 + self.random.random())

    # the controller

    def partition_of(self, image: MetadataImage) -> PartitionImage | None:
        topic = image.topic_named(TOPIC)
        return topic.partitions[0] if topic is not None else None

    def ask(self, replica: Replica, command: Command, answered: Answered) -> None:
        """Answered once, if the answer comes in time; else REQUEST_TIMED_OUT, whether or not it was
        carried out.
        """
        open_ones = [answered]

        def once(reply: object, code: Code) -> None:
            if open_ones:
                open_ones.pop()(reply, code)

        self.later(PATIENCE_S, replica, lambda: once(None, Code.REQUEST_TIMED_OUT))
        if not self.cut.get((replica.id, 0)):
            self.at(self.now + self._delay(), lambda: self._decide(replica, command, once))

    def _decide(self, replica: Replica, command: Command, once: Answered) -> None:
        if self.controller is None:
            return
        try:
            outcome = self.controller.decide(command, self._context())
        except KafkaError as error:
            self.say(0, replica, partial(once, None, error.code))
            return
        self._commit(outcome)
        self.say(0, replica, partial(once, outcome.reply, Code.NONE))

    def _context(self) -> Context:
        return Context(self.now, int(self.now * 1000), self.random, self.image.offset + 1)

    def _commit(self, outcome: Outcome) -> None:
        if outcome.records:
            assert self.controller is not None
            offset = self.image.offset + 1
            self.image, _ = self.image.apply_entry(offset, encode_batch(outcome.records, offset))
            self.controller.replay(offset, outcome.records)
            if (partition := self.partition_of(self.image)) is not None:
                self.oracle.begins(partition.leader_epoch)
                self.weak -= set(partition.isr) - self.unclean
            self._publish()

    def _publish(self) -> None:
        for replica in self.replicas.values():
            if replica.alive:
                self.say(0, replica, partial(replica.on_image, self.image))

    def _tick(self) -> None:
        if self.controller is not None:
            self._commit(self.controller.tick(self._context()))
        for replica in self.replicas.values():
            if replica.alive and not replica.paused and replica.leader is not None:
                replica.apply(replica.leader.tick(self.now))
        self.at(self.now + TICK_S, self._tick)

    def alter(self, replica: Replica, effect: AlterIsr) -> None:
        topic = self.image.topic_named(TOPIC)
        assert topic is not None
        change = Change(topic.topic_id, 0, effect.leader_epoch, effect.partition_epoch, effect.isr)
        leader = replica.leader

        def answered(reply: Sequence[AlteredPartition] | None, code: Code) -> None:
            if replica.leader is leader and leader is not None:
                row = reply[0] if reply else None
                code = Code(row.error) if row is not None else code
                answer = (
                    Altered(row.isr, row.partition_epoch, row.elr)
                    if row is not None and code is Code.NONE
                    else code
                )
                replica.apply(leader.alter_answered(effect, answer, self.now))

        self.ask(replica, AlterPartition(replica.id, replica.broker_epoch, (change,)), answered)

    # brokers

    def start(self, replica: Replica) -> None:
        if not replica.alive:
            replica.start()
            self._register(replica)
            self.later(0.0, replica, lambda: self._fetch(replica))

    def _register(self, replica: Replica) -> None:
        incarnation = f"{replica.id}/{replica.life}".encode().ljust(16, b"\0")
        endpoints = (("PLAINTEXT", "host", 9090 + replica.id, "PLAINTEXT"),)
        command = RegisterBroker(
            replica.id,
            incarnation,
            bytes([replica.id]) * 16,
            None,
            endpoints,
            features=own_features(),
            previous_epoch=replica.clean_epoch,
            flushes=self.flushes,
        )

        def answered(reply: Registered, code: Code) -> None:
            if code is Code.NONE:
                self.unclean.discard(replica.id)
                replica.broker_epoch = reply.broker_epoch
                replica.on_image(self.image)
                self._beat(replica)
            else:
                self.later(0.2, replica, lambda: self._register(replica))

        self.ask(replica, command, answered)

    def _beat(self, replica: Replica) -> None:
        def answered(_: object, code: Code) -> None:
            if code in (Code.STALE_BROKER_EPOCH, Code.BROKER_ID_NOT_REGISTERED):
                self._register(replica)
            else:
                if not self.cut.get((0, replica.id)):
                    replica.on_image(self.image)  # what it was not told while a link was cut
                self.later(BEAT_S, replica, lambda: self._beat(replica))

        self.ask(
            replica, Heartbeat(replica.id, replica.broker_epoch, replica.image.offset), answered
        )

    def _fetch(self, replica: Replica) -> None:
        """The fetcher's loop: asks when the machine lets it, and again when an answer came or did
        not come.
        """
        self.later(0.01 + 0.02 * self.random.random(), replica, lambda: self._fetch(replica))
        fetch = replica.fetch
        position = fetch.next_fetch(self.now) if fetch is not None else None
        if fetch is None or position is None:
            return
        leader = self.replicas[replica.follower.leader]
        open_ones = [fetch]
        self.later(PATIENCE_S, replica, lambda: self._no_answer(replica, open_ones))
        epoch = replica.broker_epoch

        def asked() -> None:
            answer = leader.answer(replica.id, position, epoch)
            self.say(leader.id, replica, lambda: self._answered(replica, open_ones, answer))

        self.sent += 1
        self.say(replica.id, leader, asked)

    def _answered(self, replica: Replica, open_ones: list[FollowerFetch], answer: Any) -> None:
        if open_ones and (fetch := open_ones.pop()) is replica.fetch:
            replica.carry_out(fetch, fetch.answered(answer, self.now))

    def _no_answer(self, replica: Replica, open_ones: list[FollowerFetch]) -> None:
        if open_ones and (fetch := open_ones.pop()) is replica.fetch:
            replica.carry_out(fetch, fetch.failed(self.now))

    def ask_offsets(self, replica: Replica, fetch: FollowerFetch) -> None:
        leader = self.replicas[replica.follower.leader]
        open_ones = [fetch]
        self.later(PATIENCE_S, replica, lambda: self._no_answer(replica, open_ones))

        def told(end: int) -> None:
            if open_ones and open_ones.pop() is replica.fetch:
                replica.carry_out(fetch, fetch.offsets(0, end))

        def asked() -> None:
            if (
                leader.leader is not None
                and leader.leader.leader_epoch == replica.follower.leader_epoch
            ):
                self.say(leader.id, replica, partial(told, leader.log.end))

        self.say(replica.id, leader, asked)

    # clients

    def _produce(self, number: int) -> None:
        """Send to a replica that takes itself for the leader; without an answer never again,
        because the result is unknown.
        """
        living = [
            each
            for each in self.replicas.values()
            if each.alive and each.leader is not None and not each.paused
        ]
        if not living or not self.random.choice(living).append(f"r{number}"):
            self.at(
                self.now + 0.1,
                lambda: (
                    self._produce(number + (0 if not living else RECORDS))
                    if not self.over
                    else None
                ),
            )

    def acknowledge(self, replica: Replica, value: str, offset: int) -> None:
        self.oracle.check(
            replica.log.entries[offset].value == value,
            f"{value} is acknowledged at {offset}, where something else is",
        )
        self.oracle.acknowledged[offset] = value
        if self.transactions is not None:
            self.transactions.acknowledged(value, offset, replica.log.entries[offset].epoch)

    def check(self, right: bool, what: str) -> None:
        self.oracle.check(right, what)

    def new_log(self) -> Log:
        if self.transactions is not None:
            return self.transactions.new_log()
        return Log() if self.flushes else UnflushedLog()

    # a life

    def play(self) -> None:
        assert self.controller is not None
        self._commit(self.controller.tick(self._context()))
        for replica in self.replicas.values():
            self.start(replica)
        self._tick()
        formed = self.run(5.0, lambda: len(self.image.alive_brokers()) == self.brokers)
        self.oracle.check(formed, "the brokers are not registered")
        replication = min(self.brokers, self.random.choice((2, 3, 3, 3, 5)))
        configs = (("min.insync.replicas", str(self.min_isr)),)
        self._commit(
            self.controller.decide(
                CreateTopics((NewTopic(TOPIC, 1, replication, configs=configs),)), self._context()
            )
        )
        began = self.now
        for number in range(self.records):
            self.at(began + self.random.uniform(0.0, SECONDS), partial(self._produce, number))
        for _ in range(self.random.randrange(5, 12)):
            self.at(
                began + self.random.uniform(0.2, SECONDS),
                partial(
                    self._fault, self.random.choice(FAULTS if self.flushes else UNFLUSHED_FAULTS)
                ),
            )
        if not self.flushes:
            for replica in self.replicas.values():
                self._write_back(replica)
        if self.transactions is not None:
            self.transactions.begin()
        self.run(SECONDS)
        self._heal()

    def _fault(self, kind: str) -> None:
        self.faults.append((self.now, kind))
        getattr(self, f"_{kind}")()

    def _heal(self) -> None:
        self.over = True
        if self.transactions is not None:
            self.transactions.end()
        self.cut.clear()
        self._slow.clear()
        self._net_s = 0.005
        self._new_controller()
        for replica in self.replicas.values():
            replica.paused = False
            self.start(replica)
        self.oracle.check(
            self.run(HEALED_S, self._well),
            f"not all is well {HEALED_S} s after all was healed: {self.partition_of(self.image)}",
        )
        partition = self.partition_of(self.image)
        assert partition is not None
        for each in partition.replicas:
            there = self.replicas[each].log.entries
            lost = [
                offset
                for offset, value in self.oracle.acknowledged.items()
                if offset >= len(there) or there[offset].value != value
            ]
            self.oracle.check(not lost, f"{each} has lost what was acknowledged at {lost[:3]}")
            self.oracle.check(
                there[: len(self.oracle.known)] == self.oracle.known,
                f"{each} has lost what was committed",
            )
        if self.transactions is not None:
            self.transactions.check()

    def _well(self) -> bool:
        partition = self.partition_of(self.image)
        if (
            partition is None
            or partition.leader < 0
            or set(partition.isr) != set(partition.replicas)
        ):
            return False
        leader = self.replicas[partition.leader].leader
        end = self.replicas[partition.leader].log.end
        over = self.transactions is None or self.transactions.over
        return (
            over
            and leader is not None
            and leader.high_watermark == end
            and all(self.replicas[i].log.end == end for i in partition.replicas)
        )

    # faults

    def _someone(self) -> Replica:
        """Rather the leader than another."""
        partition = self.partition_of(self.image)
        if partition is not None and partition.leader > 0 and self.random.random() < 0.5:
            return self.replicas[partition.leader]
        return self.replicas[self.random.randint(1, self.brokers)]

    def _down(self, replica: Replica, *, power: bool) -> None:
        if not self.flushes and self.weak:
            self._shut_down(replica)
        elif replica.alive:
            epoch = replica.broker_epoch
            if not self.flushes:
                replica.clean_epoch = -1
                self.unclean.add(replica.id)
                self.weak.add(replica.id)
            replica.stop(power=power)
            if not power and epoch >= 0 and self.random.random() < 0.8:
                self.at(self.now + 0.05, lambda: self._gone(replica.id, epoch))
            self.at(self.now + self.random.uniform(0.0, 4.0), lambda: self.start(replica))

    def _gone(self, broker: int, epoch: int) -> None:
        """The controller's link broke, and the port refuses."""
        if self.controller is not None:
            try:
                self._commit(self.controller.decide(BrokerLost(broker, epoch), self._context()))
            except KafkaError:
                pass  # it has registered anew

    def _stop(self) -> None:
        self._shut_down(self._someone())

    def _shut_down(self, replica: Replica) -> None:
        """As an operator does it; the disk has everything then."""
        if replica.alive and replica.broker_epoch >= 0:
            self._to_disk(replica)
            replica.clean_epoch = epoch = replica.broker_epoch
            replica.stop(power=False)
            self.at(self.now + 0.05, lambda: self._gone(replica.id, epoch))
            self.at(self.now + self.random.uniform(0.0, 4.0), lambda: self.start(replica))

    def _last_member(self) -> None:
        """All others of the ISR stop in order, or are cut off; then the last one loses its power,
        with all that it has not flushed.
        """
        partition = self.partition_of(self.image)
        if partition is None or not partition.isr:
            return
        last = self.random.choice(partition.isr)
        for each in partition.isr:
            if each != last:
                if self.random.random() < 0.7:
                    self._shut_down(self.replicas[each])
                else:
                    self._cut_off(each)
        self.at(
            self.now + self.random.uniform(0.1, 2.5),
            lambda: None if self.over else self._down(self.replicas[last], power=True),
        )

    def _write_back(self, replica: Replica) -> None:
        self._to_disk(replica)
        again = self.now + self.random.uniform(*WRITE_BACK_S)
        self.at(again, lambda: None if self.over else self._write_back(replica))

    def _to_disk(self, replica: Replica) -> None:
        if isinstance(replica.log, UnflushedLog):
            replica.log.write_back()

    def _kill(self) -> None:
        self._down(self._someone(), power=False)

    def _power(self) -> None:
        self._down(self._someone(), power=True)

    def _power_of_all(self) -> None:
        for replica in self.replicas.values():
            self._down(replica, power=True)

    def _pause(self) -> None:
        replica = self._someone()
        if replica.alive:
            replica.paused = True
            self.at(
                self.now + self.random.uniform(0.1, 4.0), lambda: setattr(replica, "paused", False)
            )

    def _hold(self, links: list[tuple[int, int]]) -> None:
        for link in links:
            self.cut[link] = self.cut.get(link, 0) + 1
        self.at(self.now + self.random.uniform(0.1, 4.0), lambda: self._let_go(links))

    def _let_go(self, links: list[tuple[int, int]]) -> None:
        for link in links:
            if self.cut.get(link):
                self.cut[link] -= 1

    def _cut(self) -> None:
        a, b = self.random.sample(range(self.brokers + 1), 2)
        self._hold([(a, b)] if self.random.random() < 0.5 else [(a, b), (b, a)])

    def _isolate(self) -> None:
        self._cut_off(self._someone().id)

    def _cut_off(self, one: int) -> None:
        self._hold(
            [
                link
                for other in range(self.brokers + 1)
                if other != one
                for link in ((one, other), (other, one))
            ]
        )

    def _slow_disk(self) -> None:
        self._slow[self._someone().id] = self.random.choice((0.05, 0.5))

    def _slow_net(self) -> None:
        self._net_s = self.random.choice((0.001, 0.05, 0.2))

    def _other_controller(self) -> None:
        """Start a controller that leads on the committed state, and has heard nobody yet."""
        self.controller = None
        self.at(self.now + self.random.uniform(0.05, 1.5), self._new_controller)

    def _new_controller(self) -> None:
        if self.controller is None:
            self.controller = Controller(self.image, SETTINGS, self.now)

    def _command(self, command: Command) -> None:
        if self.controller is not None:
            try:
                self._commit(self.controller.decide(command, self._context()))
            except KafkaError:
                pass  # not now

    def _move(self) -> None:
        count = min(self.brokers, self.random.choice((2, 3)))
        target = (
            tuple(self.random.sample(range(1, self.brokers + 1), count))
            if self.random.random() < 0.8
            else None
        )
        self._command(AlterReassignments((MovedTopic(TOPIC, (Move(0, target),)),)))

    def _elect(self) -> None:
        self._command(ElectLeaders(0))


def run_seed(seed: int) -> Life:
    """Raises Violation."""
    life = Life(seed)
    try:
        life.play()
    except Violation:
        raise
    except Exception as error:
        raise Violation(
            f"seed {seed}, at {life.now:.4f}: {type(error).__name__}: {error}"
        ) from error
    return life
