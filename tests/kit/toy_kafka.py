"""A Kafka of a hundred lines that makes no mistake, and clients that meet its failures: what
histories of a correct broker look like.

Partitions lose what is not committed when their leader changes, answers are lost, clients send
again or crash, transactions abort, groups forget their members. Each client is a generator that
pauses wherever another may come between; a seed decides who goes on.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random

from raftka.chaos.checks.metadata import Seen
from raftka.chaos.history import (
    ASSIGN,
    COMMIT,
    COMPARE_AND_SET,
    FAIL,
    FETCH_OFFSET,
    INFO,
    LIST_OFFSETS,
    OK,
    POLL,
    PRODUCE,
    READ,
    SUBSCRIBE,
    TRANSACTION,
    WRITE,
    History,
    Send,
    Told,
)
from tests.kit.toy_broker import Metadata, Partition, Transaction

Client = Iterator[None]
Role = Callable[[int, list[int]], Client]  # its number, its processes
CALLS_OF_A_REGISTER = 200


class Toy:
    def __init__(
        self,
        seed: int,
        *,
        keys: int = 3,
        transactions: bool = True,
        retention: bool = False,
        registers: int = 1,
        groups: int = 2,
    ) -> None:
        self.random = Random(seed)
        self.history = History()
        self.seen: list[Seen] = []
        self.partitions = {f"t-{i}": Partition(f"t-{i}") for i in range(keys)}
        self.registers: dict[str, int | None] = defaultdict(lambda: None)
        self._register_calls = dict.fromkeys(range(registers), 0)
        self.offsets: dict[tuple[str, str], int] = {}
        self.generations: dict[str, int] = defaultdict(int)
        self._retention = retention
        self._processes = self._values = 0
        # requests that somebody gave up, and that may still arrive
        self._late: list[Callable[[], object]] = []
        self._background: list[Client] = []
        self._clients: list[tuple[Client, list[int], Role, int]] = []
        self._metadata = Metadata(self.random, self.seen, self.partitions)
        self._epochs: dict[str, int] = defaultdict(int)
        self._open: dict[str, Transaction] = {}
        roles: list[Role] = [
            self._producer,
            self._producer,
            self._consumer,
            self._subscriber,
            self._lister,
        ]
        roles += (
            [self._register] * (3 * registers)
            + [self._member] * groups
            + [self._transactor] * (2 * transactions)
        )
        for number, role in enumerate(roles):
            self._clients.append(self._new(role, number))

    # running

    def run(self, operations: int) -> History:
        while len(self.history.operations) < operations:
            self._step()
        for place in range(len(self._clients)):
            self._crash(place)
        for transaction in self._open.values():
            if transaction.committed is None:
                self._decide(transaction, False)
        while self._background:
            self._advance(self._random_partition(), elect=False)
            self._in_background()
        for partition in self.partitions.values():
            while partition.high_watermark < len(
                partition.log
            ) or partition.told_high_watermark < len(partition.log):
                partition.replicate(self.random)
        for _ in self._last_reader(self._process()):
            pass
        return self.history

    def _step(self) -> None:
        random = self.random
        self._advance(self._random_partition(), elect=random.random() < 0.01)
        if self._late and random.random() < 0.05:
            self._late.pop(random.randrange(len(self._late)))()
        if self._background and random.random() < 0.3:
            self._in_background()
        if random.random() < 0.05:
            self._metadata.step()
        place = random.randrange(len(self._clients))
        if random.random() < 0.002:
            self._crash(place)
        else:
            next(self._clients[place][0])

    def _advance(self, partition: Partition, elect: bool) -> None:
        if elect:
            partition.elect(self.random)
        elif self.random.random() < 0.5:
            partition.replicate(self.random)
        elif self._retention and self.random.random() < 0.01:
            partition.log_start = self.random.randint(
                partition.log_start, min(partition.told_high_watermark, partition.told.last_stable)
            )

    def _in_background(self) -> None:
        client = self.random.choice(self._background)
        if next(client, "over") == "over":
            self._background.remove(client)

    def _crash(self, place: int) -> None:
        _, processes, role, number = self._clients[place]
        for process in processes:
            # of the others nobody ever hears again
            if process in self.history.under_way and self.random.random() < 0.7:
                self._end(process, INFO)
        self._clients[place] = self._new(role, number)

    def _new(self, role: Role, number: int) -> tuple[Client, list[int], Role, int]:
        processes = [self._process() for _ in range(3 if role == self._producer else 1)]
        return role(number, processes), processes, role, number

    def _process(self) -> int:
        self._processes += 1
        return self._processes

    def _random_partition(self) -> Partition:
        return self.random.choice(list(self.partitions.values()))

    def _some_keys(self) -> list[str]:
        return self.random.sample(
            list(self.partitions), self.random.randint(1, len(self.partitions))
        )

    def _invoke(self, process: int, verb: str, **body: object) -> None:
        self.history.invoke(process, verb, len(self.history.events) / 1000, **body)

    def _end(self, process: int, outcome: str, **body: object) -> None:
        self.history.end(process, outcome, len(self.history.events) / 1000, **body)

    # producers

    def _sends(self) -> list[Send]:
        sends: list[Send] = []
        for key in self._some_keys()[:2]:
            for _ in range(self.random.randint(1, 3)):
                self._values += 1
                sends.append((key, self._values, None))
        return sends

    def _producer(self, number: int, processes: list[int]) -> Client:
        """Idempotent, with a batch in flight for each process."""
        name, free = f"p{processes[0]}", list(processes)
        waiting: deque[tuple[int, list[Send]]] = deque()
        while True:
            if free and self.random.random() < 0.7:
                process, sends = free.pop(), self._sends()
                self._invoke(process, PRODUCE, sends=sends, producer=name, epoch=0)
                yield
                if self.random.random() < 0.03:
                    self._end(process, FAIL, error="NOT_ENOUGH_REPLICAS")
                    free.append(process)
                else:
                    waiting.append((process, sends))
            self._send_again(waiting)
            yield
            if waiting and self._is_committed(waiting[0][1]):
                process, sends = waiting.popleft()
                self._end(process, OK, sends=self._with_offsets(sends))
                free.append(process)
            elif waiting and self.random.random() < 0.01:
                process, _ = waiting.popleft()
                self._end(process, INFO, error="timed out")
                free.append(process)

    def _send_again(
        self, waiting: Sequence[tuple[int, list[Send]]], transaction: Transaction | None = None
    ) -> None:
        for _, sends in waiting:
            for key, value, _ in sends:
                if value not in self.partitions[key].where:
                    self.partitions[key].append(int(value), transaction)

    def _is_committed(self, sends: list[Send]) -> bool:
        return all(self.partitions[key].has(int(value)) for key, value, _ in sends)

    def _with_offsets(self, sends: list[Send]) -> list[Send]:
        return [(key, value, self.partitions[key].where[int(value)]) for key, value, _ in sends]

    def _transactor(self, number: int, processes: list[int]) -> Client:
        """Reads and writes in transactions; a new one fences the one before, and what that has left
        open is aborted.
        """
        name, process = f"x{number}", processes[0]
        self._epochs[name] += 1
        epoch, positions = self._epochs[name], dict.fromkeys(self._some_keys(), 0)
        left = self._open.pop(name, None)
        if left is not None and left.committed is None:
            self._decide(left, False)
        yield from self._assign(process, ASSIGN, list(positions))
        while left is not None and not left.over:
            yield
        while True:
            transaction = self._open[name] = Transaction()
            sends = self._sends()
            transaction.keys = {key for key, _, _ in sends}
            self._invoke(process, TRANSACTION, sends=sends, producer=name, epoch=epoch, group=name)
            yield
            after, polled, told = self._read(positions)
            while not self._is_committed(sends):
                self._send_again([(process, sends)], transaction)
                yield
            self._decide(transaction, self.random.random() < 0.85)
            offsets = {key: after[key] for key in polled}
            if transaction.committed:
                self.offsets.update({(name, key): offset for key, offset in offsets.items()})
            while not transaction.over:
                yield
            body = {
                "sends": self._with_offsets(sends),
                "polled": polled,
                "told": told,
                "offsets": offsets,
            }
            if self.random.random() < 0.03:
                self._end(process, INFO, **body)
                positions = {}  # nobody knows; it reads no more
            elif transaction.committed:
                self._end(process, OK, **body)
                positions = after
            else:
                self._end(process, FAIL, **body)

    def _decide(self, transaction: Transaction, committed: bool) -> None:
        transaction.committed = committed
        self._background.append(self._write_ends(transaction))

    def _write_ends(self, transaction: Transaction) -> Client:
        for key in sorted(transaction.keys):
            partition = self.partitions[key]
            while transaction in partition.open:
                if transaction not in partition.ends:
                    partition.append(None, transaction)
                yield
        transaction.over = True

    # consumers

    def _assign(self, process: int, verb: str, keys: list[str]) -> Client:
        self._invoke(process, verb, keys=keys)
        yield
        self._end(process, OK)

    def _read(
        self, positions: dict[str, int]
    ) -> tuple[dict[str, int], dict[str, list[tuple[int, int]]], dict[str, Told]]:
        after, polled, told = dict(positions), {}, {}
        for key, position in positions.items():
            partition = self.partitions[key]
            records, after[key] = partition.read(position, self.random.randint(1, 6))
            told[key] = (
                partition.told
                if self.random.random() < 0.8
                else partition.told._replace(leader_epoch=-1)
            )
            if records:
                polled[key] = records
        return after, polled, told

    def _poll(self, process: int, positions: dict[str, int]) -> Client:
        self._invoke(process, POLL)
        yield
        after, polled, told = self._read(positions)
        yield
        self._end(process, OK, polled=polled, told=told)
        positions.update(after)

    def _consumer(self, number: int, processes: list[int]) -> Client:
        positions: dict[str, int] = {}
        while True:
            positions = {key: positions.get(key, 0) for key in self._some_keys()}
            yield from self._assign(processes[0], ASSIGN, list(positions))
            for _ in range(self.random.randint(1, 30)):
                yield from self._poll(processes[0], positions)

    def _subscriber(self, number: int, processes: list[int]) -> Client:
        """Its partitions come, go, and begin somewhere else."""
        process, positions = processes[0], dict.fromkeys(self.partitions, 0)
        yield from self._assign(process, SUBSCRIBE, list(self.partitions))
        while True:
            self._invoke(process, POLL)
            yield
            moved = self._some_keys() if self.random.random() < 0.1 else []
            after, polled, told = self._read(positions)
            positions = {
                key: self.random.randint(0, position) if key in moved else position
                for key, position in after.items()
            }
            self._end(process, OK, polled=polled, told=told, rebalanced=moved)

    def _last_reader(self, process: int) -> Client:
        positions = dict.fromkeys(self.partitions, 0)
        yield from self._assign(process, ASSIGN, list(positions))
        while any(position < len(self.partitions[key].log) for key, position in positions.items()):
            yield from self._poll(process, positions)

    def _lister(self, number: int, processes: list[int]) -> Client:
        while True:
            key = self.random.choice(list(self.partitions))
            self._invoke(processes[0], LIST_OFFSETS)
            yield
            partition = self.partitions[key]
            told = {key: partition.told._replace(high_watermark=partition.high_watermark)}
            yield
            self._end(processes[0], OK, told=told)

    # groups

    def _member(self, number: int, processes: list[int]) -> Client:
        """Of a group that has one at a time: the next generation begins when it comes."""
        group, process = f"g{number}", processes[0]
        self.generations[group] += 1
        generation, positions = self.generations[group], dict.fromkeys(self.partitions, 0)
        while True:
            yield from self._fetch_offsets(process, group)
            for key, position in positions.items():
                if self.random.random() < 0.5:
                    positions[key] = position + self.random.randint(0, 5)
            offsets = {key: positions[key] for key in self._some_keys()}
            self._invoke(process, COMMIT, group=group, generation=generation, offsets=offsets)
            yield
            yield from self._commit(process, group, generation, offsets)

    def _commit(self, process: int, group: str, generation: int, offsets: dict[str, int]) -> Client:
        def happen() -> None:
            if self.generations[group] == generation:
                self.offsets.update({(group, key): offset for key, offset in offsets.items()})

        if self.random.random() < 0.1:
            self._late.append(happen)
            self._end(process, INFO)
            return
        happen()
        accepted = self.generations[group] == generation
        yield
        self._end(process, OK if accepted else FAIL)

    def _fetch_offsets(self, process: int, group: str) -> Client:
        self._invoke(process, FETCH_OFFSET, group=group)
        yield
        found = {key: self.offsets.get((group, key), -1) for key in self.partitions}
        yield
        self._end(process, OK, offsets=found)

    # registers

    def _register(self, number: int, processes: list[int]) -> Client:
        process = processes[0]
        while True:
            key = self._some_register()
            verb = self.random.choice([READ, WRITE, COMPARE_AND_SET, COMPARE_AND_SET])
            value = self.random.randint(0, 4)
            expected = (
                self.registers[key] if self.random.random() < 0.7 else self.random.randint(0, 4)
            )
            if verb == READ:
                yield from self._read_register(process, key)
                continue
            body = {"value": value} if verb == WRITE else {"value": value, "expected": expected}
            self._invoke(process, verb, key=key, **body)
            yield
            if self.random.random() < 0.02:
                self._late.append(partial(self._set, key, verb, expected, value))
                self._end(process, INFO)
                continue
            matched = self._set(key, verb, expected, value)
            yield
            self._end(process, OK, matched=matched)

    def _some_register(self) -> str:
        """None is used for ever: it is the open calls that make it hard to judge."""
        number = self.random.choice(list(self._register_calls))
        self._register_calls[number] += 1
        return f"r{number}-{self._register_calls[number] // CALLS_OF_A_REGISTER}"

    def _set(self, key: str, verb: str, expected: int | None, value: int) -> bool:
        matched = verb == WRITE or self.registers[key] == expected
        if matched:
            self.registers[key] = value
        return matched

    def _read_register(self, process: int, key: str) -> Client:
        self._invoke(process, READ, key=key)
        yield
        found = self.registers[key]
        yield
        self._end(process, OK, value=found)
