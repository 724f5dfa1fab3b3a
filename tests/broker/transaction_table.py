"""The answers of a transaction coordinator to each request in each state: state x request x version
x producer, asked of Apache Kafka or of ours.

The recorded answers of Kafka 4.3.1 are in transaction_table.json: error codes, and how the producer
id and epoch of an answer follow those that the client knew. `python -m
tests.broker.transaction_table PORT PID` makes them anew, of three nodes whose internal topics have
one replica each, with `broker.session.timeout.ms=600000` and
`transaction.abort.timed.out.transaction.cleanup.interval.ms=1000`; PID is the third node's. The
markers of a state whose name begins with "preparing" do not come through, because the process of
the only replica of a partition stands still.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.messages.producer_ids import INIT_PRODUCER_ID
from raftka.wire.messages.topics import CREATE_TOPICS
from raftka.wire.messages.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    TXN_OFFSET_COMMIT,
)
from raftka.wire.schema import AnyApi
from tests.broker.requests import batch, produce

RECORDED = Path(__file__).parent / "transaction_table.json"
STANDS_STILL = 3  # the node whose process stops
MOVES, STUCK = "moves", "stuck"  # topics: led by node 1, and by the node that stands still
GROUP_TYPE, TRANSACTION_TYPE = 0, 1
LAST_EPOCH = 32_766
TIMEOUT_MS = 60_000
SHORT_MS = 30_000  # longer than it takes to begin all transactions
AGAIN = (14, 15, 16, 51)  # errors of a coordinator that is not ready yet
Pair = tuple[int, int]
Question = tuple[int, AnyApi, Any, int]  # node, API, request, version


class Line(Protocol):
    """A cluster of three nodes."""

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        """The answers, in that order."""

    def sleep(self, seconds: float) -> None: ...

    def stand_still(self, *, still: bool) -> None:
        """Stop the process of node STANDS_STILL, or let it go on."""

    def raise_epoch(self, case: "Case") -> None:
        """Bring the id of the case, which is in no transaction, to LAST_EPOCH."""


class Probe(NamedTuple):
    """A request; `pair`: which producer it names."""

    api: AnyApi
    version: int
    pair: str
    how: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.api.name, f"v{self.version}", self.how, self.pair)))


PAIRS = ("older", "before", "answered", "beyond", "stranger")
PROBES = [
    *[
        Probe(INIT_PRODUCER_ID, version, pair)
        for version, pairs in ((2, ("none",)), (3, PAIRS), (5, ("none", *PAIRS)))
        for pair in pairs
    ],
    *[Probe(ADD_PARTITIONS_TO_TXN, version, pair) for version in (1, 3) for pair in PAIRS],
    *[Probe(ADD_PARTITIONS_TO_TXN, 5, pair, how) for how in ("verify", "add") for pair in PAIRS],
    *[Probe(ADD_OFFSETS_TO_TXN, version, pair) for version in (1, 4) for pair in PAIRS],
    *[Probe(TXN_OFFSET_COMMIT, version, pair) for version in (3, 4, 5) for pair in PAIRS],
    *[
        Probe(END_TXN, version, pair, how)
        for version in (1, 4, 5)
        for how in ("commit", "abort")
        for pair in PAIRS
    ],
    *[Probe(PRODUCE, version, pair) for version in (10, 11, 12) for pair in PAIRS],
]


class Case:
    """A transactional id of its own, in a state, and the request that is made then."""

    def __init__(self, line: Line, state: str, probe: Probe, name: str) -> None:
        self.line = line
        self.state = state
        self.probe = probe
        self.id = name
        self.node = 0  # of its coordinator
        self.group, self.group_node = "", 0
        self.before: Pair = (-1, -1)  # the pair that the transaction began with
        self.answered: Pair = (-1, -1)  # that the end has answered

    def one(self, api: AnyApi, row: Any, version: int) -> Any:
        """Ask the coordinator, again while it is not ready."""
        for _ in range(100):
            (answer,) = self.line.ask([(self.node, api, row, version)])
            if not any(code in AGAIN for code in codes_of(answer)):
                return answer
            self.line.sleep(0.05)
        raise AssertionError((self.id, api.name, answer))

    def init(self, timeout_ms: int = TIMEOUT_MS) -> None:
        """Twice, so that there is an older producer."""
        request = INIT_PRODUCER_ID.request(
            transactional_id=self.id, transaction_timeout_ms=timeout_ms
        )
        for _ in range(2):
            answer = self.one(INIT_PRODUCER_ID, request, 5)
        self.before = self.answered = (answer.producer_id, answer.producer_epoch)

    def add(self, version: int, *places: tuple[str, int]) -> None:
        wanted = self.one(
            ADD_PARTITIONS_TO_TXN,
            adding(self.id, self.before, version, places),
            5 if version == 2 else 3,
        )
        assert set(codes_of(wanted)) <= {0}, wanted

    def end(self, version: int, *, commit: bool) -> None:
        answer = self.one(END_TXN, ending(self.id, self.before, commit=commit), version)
        assert answer.error_code == 0, answer
        if version >= 5:
            self.answered = (answer.producer_id, answer.producer_epoch)

    def told(self) -> Any:
        return self.one(
            DESCRIBE_TRANSACTIONS, DESCRIBE_TRANSACTIONS.request(transactional_ids=[self.id]), 0
        ).transaction_states[0]

    def pair(self) -> Pair:
        if self.probe.pair == "beyond":
            return self.answered[0], self.answered[1] + 1
        if self.probe.pair == "older":
            return self.before[0], self.before[1] - 1
        return {
            "none": (-1, -1),
            "before": self.before,
            "answered": self.answered,
            "stranger": (123_456, 0),
        }[self.probe.pair]

    def question(self) -> Question:
        api, version, pair = self.probe.api, self.probe.version, self.pair()
        if api is INIT_PRODUCER_ID:
            row: Any = INIT_PRODUCER_ID.request(
                transactional_id=self.id, transaction_timeout_ms=TIMEOUT_MS
            )
            if version >= 3:
                row.producer_id, row.producer_epoch = pair
        elif api is ADD_PARTITIONS_TO_TXN:
            row = adding(
                self.id,
                pair,
                2 if version >= 4 else 1,
                [(MOVES, 1)],
                verify_only=self.probe.how == "verify",
            )
        elif api is ADD_OFFSETS_TO_TXN:
            row = ADD_OFFSETS_TO_TXN.request(
                transactional_id=self.id,
                producer_id=pair[0],
                producer_epoch=pair[1],
                group_id=self.group,
            )
        elif api is TXN_OFFSET_COMMIT:
            topics = TXN_OFFSET_COMMIT.request.topics
            rows = [
                topics(
                    name=MOVES,
                    partitions=[
                        topics.partitions(
                            partition_index=0, committed_offset=0, committed_metadata=""
                        )
                    ],
                )
            ]
            row = TXN_OFFSET_COMMIT.request(
                transactional_id=self.id,
                group_id=self.group,
                producer_id=pair[0],
                producer_epoch=pair[1],
                topics=rows,
            )
        elif api is END_TXN:
            row = ending(self.id, pair, commit=self.probe.how == "commit")
        else:
            records = batch(
                b"v",
                producer_id=pair[0],
                producer_epoch=pair[1],
                base_sequence=0,
                transactional=True,
            )
            row = produce(MOVES, records, 1, transactional_id=self.id)
        node = self.group_node if api is TXN_OFFSET_COMMIT else 1 if api is PRODUCE else self.node
        return node, api, row, version

    def outcome(self, answer: Any) -> str:
        """The error codes, and how the pair of an answer relates to the one that the client knows
        last.
        """
        found = " ".join(map(str, sorted(set(codes_of(answer)) - {0}) or [0]))
        if (
            found == "0"
            and self.probe.api in (INIT_PRODUCER_ID, END_TXN)
            and answer.producer_id >= 0
        ):
            same = answer.producer_id == self.answered[0]
            found += (
                f" {'same' if same else 'new'} "
                f"{answer.producer_epoch - (self.answered[1] if same else 0):+d}"
            )
        return found


def adding(
    transactional_id: str,
    pair: Pair,
    version: int,
    places: Sequence[tuple[str, int]],
    *,
    verify_only: bool = False,
) -> Any:
    request = ADD_PARTITIONS_TO_TXN.request
    if version == 1:
        return request(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=pair[0],
            v3_and_below_producer_epoch=pair[1],
            v3_and_below_topics=[
                request.v3_and_below_topics(name=topic, partitions=[index])
                for topic, index in places
            ],
        )
    rows = request.transactions
    topics = [rows.topics(name=topic, partitions=[index]) for topic, index in places]
    return request(
        transactions=[
            rows(
                transactional_id=transactional_id,
                producer_id=pair[0],
                producer_epoch=pair[1],
                verify_only=verify_only,
                topics=topics,
            )
        ]
    )


def ending(transactional_id: str, pair: Pair, *, commit: bool) -> Any:
    return END_TXN.request(
        transactional_id=transactional_id,
        producer_id=pair[0],
        producer_epoch=pair[1],
        committed=commit,
    )


def codes_of(answer: Any) -> Iterator[int]:
    """All error codes in an answer."""
    for name in answer.__slots__:
        value = getattr(answer, name)
        if name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for each in value:
                if hasattr(each, "__slots__"):
                    yield from codes_of(each)


# states


def empty(case: Case) -> None:
    case.init()


def ongoing(case: Case, version: int) -> None:
    case.init()
    case.add(version, (MOVES, 0))


def ongoing_without_partitions(case: Case) -> None:
    case.init()
    case.add(1)


def over(case: Case, version: int, *, commit: bool) -> None:
    ongoing(case, version)
    case.end(5 if version == 2 else 4, commit=commit)
    state = "CompleteCommit" if commit else "CompleteAbort"
    while case.told().transaction_state != state:
        case.line.sleep(0.02)


def aborted_nothing(case: Case) -> None:
    case.init()
    case.end(5, commit=False)
    while case.told().transaction_state != "CompleteAbort":
        case.line.sleep(0.02)


def stuck(case: Case, version: int, timeout_ms: int = TIMEOUT_MS) -> None:
    case.init(timeout_ms)
    case.add(version, (STUCK, 0))


def stuck_at_the_last_epoch(case: Case) -> None:
    case.init()
    case.line.raise_epoch(case)
    case.add(2, (STUCK, 0))


def prepared(case: Case, version: int, *, commit: bool) -> None:
    case.end(5 if version == 2 else 4, commit=commit)


def by_another(case: Case) -> None:
    """Another client has asked for the id."""
    request = INIT_PRODUCER_ID.request(transactional_id=case.id, transaction_timeout_ms=TIMEOUT_MS)
    case.line.ask([(case.node, INIT_PRODUCER_ID, request, 5)])
    told = case.told()
    case.answered = (told.producer_id, told.producer_epoch)


def timed_out(case: Case) -> None:
    while (told := case.told()).transaction_state == "Ongoing":
        case.line.sleep(0.2)
    case.answered = (told.producer_id, told.producer_epoch)


# what is done before the node stands still, and then
State = tuple[Callable[[Case], None], Callable[[Case], None] | None]
STATES: dict[str, State] = {
    "empty": (empty, None),
    "ongoing of version 1": (partial(ongoing, version=1), None),
    "ongoing of version 2": (partial(ongoing, version=2), None),
    "ongoing without partitions": (ongoing_without_partitions, None),
    "committed by version 1": (partial(over, version=1, commit=True), None),
    "aborted by version 1": (partial(over, version=1, commit=False), None),
    "committed by version 2": (partial(over, version=2, commit=True), None),
    "aborted by version 2": (partial(over, version=2, commit=False), None),
    "aborted without partitions": (aborted_nothing, None),
    "preparing the commit of version 1": (
        partial(stuck, version=1),
        partial(prepared, version=1, commit=True),
    ),
    "preparing the abort of version 1": (
        partial(stuck, version=1),
        partial(prepared, version=1, commit=False),
    ),
    "preparing the commit of version 2": (
        partial(stuck, version=2),
        partial(prepared, version=2, commit=True),
    ),
    "preparing the abort of version 2": (
        partial(stuck, version=2),
        partial(prepared, version=2, commit=False),
    ),
    "preparing the commit at the last epoch": (
        stuck_at_the_last_epoch,
        partial(prepared, version=2, commit=True),
    ),
    "preparing the abort for another client": (partial(stuck, version=1), by_another),
    "preparing the abort after the time-out": (
        partial(stuck, version=2, timeout_ms=SHORT_MS),
        timed_out,
    ),
}
COSTLY = "at the last epoch"  # one id for all requests of the state, which are refused


Table = dict[str, dict[str, str]]  # by state and request


def play(line: Line, prefix: str = "") -> Table:
    """All answers. `prefix`: of transactional ids, which must be new."""
    make_topics(line)
    find = Finder(line)
    cases = []
    for state in STATES:
        shared: Case | None = None
        for at, probe in enumerate(PROBES):
            case = Case(line, state, probe, f"{prefix}{state} {at}")
            if shared is None or COSTLY not in state:
                find.place(case)
                STATES[state][0](case)
                shared = case
            else:
                case.id, case.node, case.group = shared.id, shared.node, shared.group
                case.group_node = shared.group_node
            cases.append(case)
    still = [case for case in cases if STATES[case.state][1] is not None]
    moving = [case for case in cases if STATES[case.state][1] is None]
    answers = line.ask([case.question() for case in moving])
    found: Table = {state: {} for state in STATES}
    for case, answer in zip(moving, answers, strict=True):
        found[case.state][str(case.probe)] = case.outcome(answer)
    line.stand_still(still=True)
    try:
        last: Case | None = None
        for case in still:
            if last is not None and last.id == case.id:
                case.before, case.answered = last.before, last.answered
            else:
                STATES[case.state][1](case)  # type: ignore[misc]
            last = case
        answers = line.ask([case.question() for case in still])
    finally:
        line.stand_still(still=False)
    for case, answer in zip(still, answers, strict=True):
        found[case.state][str(case.probe)] = case.outcome(answer)
    return found


def make_topics(line: Line) -> None:
    request = CREATE_TOPICS.request
    row = request.topics.assignments
    topics = [
        request.topics(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[row(partition_index=p, broker_ids=[node]) for p in range(2)],
        )
        for name, node in ((MOVES, 1), (STUCK, STANDS_STILL))
    ]
    line.ask([(1, CREATE_TOPICS, request(topics=topics, timeout_ms=20_000), 7)])
    line.sleep(2.0)


class Finder:
    """Finds transactional ids and groups whose coordinators do not stand still."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._group = next(
            each
            for number in range(100)
            if (each := self._found(GROUP_TYPE, f"g{number}"))[1] != STANDS_STILL
        )

    def place(self, case: Case) -> None:
        case.group, case.group_node = self._group
        name, number = case.id, 0
        while (found := self._found(TRANSACTION_TYPE, case.id))[1] == STANDS_STILL:
            number += 1
            case.id = f"{name}.{number}"
        case.node = found[1]

    def _found(self, kind: int, key: str) -> tuple[str, int]:
        for _ in range(200):
            (answer,) = self._line.ask(
                [
                    (
                        1,
                        FIND_COORDINATOR,
                        FIND_COORDINATOR.request(key_type=kind, coordinator_keys=[key]),
                        4,
                    )
                ]
            )
            if not answer.coordinators[0].error_code:
                return key, answer.coordinators[0].node_id
            self._line.sleep(0.1)
        raise AssertionError(f"nobody coordinates {key}")


class KafkaLine:
    """Apache Kafka's nodes 1 to 3, on ports that follow each other."""

    def __init__(self, port: int, pid: int) -> None:
        """`pid`: of the process of node STANDS_STILL."""
        self._port = port
        self._pid = pid
        self._connections: dict[int, Any] = {}

    def _send(self, question: Question) -> Any:
        from raftka.client.blocking.connection import Connection

        node, api, row, version = question
        if node not in self._connections:
            self._connections[node] = Connection(
                ("127.0.0.1", self._port + node - 1), "table", 60.0
            )
        return self._connections[node].send(api, row, version)

    def ask(self, questions: Sequence[Question]) -> list[Any]:
        return [self._send(question).wait() for question in questions]

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def stand_still(self, *, still: bool) -> None:
        os.kill(self._pid, signal.SIGSTOP if still else signal.SIGCONT)

    def raise_epoch(self, case: Case) -> None:
        request = INIT_PRODUCER_ID.request(
            transactional_id=case.id, transaction_timeout_ms=TIMEOUT_MS
        )
        while case.before[1] < LAST_EPOCH:
            many = [
                self._send((case.node, INIT_PRODUCER_ID, request, 5))
                for _ in range(min(100, LAST_EPOCH - case.before[1]))
            ]
            for reply in many:
                answer = reply.wait()
                if not answer.error_code:
                    case.before = case.answered = (answer.producer_id, answer.producer_epoch)


def main(port: str, pid: str) -> int:
    RECORDED.write_text(
        json.dumps(play(KafkaLine(int(port), int(pid)), f"{os.getpid()} "), indent=0) + "\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
