"""Exchanges with share groups that were recorded with Apache Kafka 4.4.0, asked again at the times
at which they were recorded. A line has the form of golden.jsonl, with the section of the recording,
the connection and the time of sending in seconds.
"""

import json
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from raftka.wire.messages.share_fetch import SHARE_FETCH
from raftka.wire.records import iterate, records_of
from tests.broker.golden import Differences, Exchange, Replay, append
from tests.broker.stage import Stage, Wire
from tests.kit.broker.share_groups import beat, leave

CONTROL = 0x20  # of a batch's attributes
Action = Callable[[], object]


class Line(NamedTuple):
    exchange: Exchange
    section: str
    conn: str
    t: float

    @property
    def n(self) -> int:
        return self.exchange.n


def lines_of(name: str) -> list[Line]:
    path = Path(__file__).parent / f"golden_share_{name}.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        Line(section=row.pop("section"), conn=row.pop("conn"), t=row.pop("t"), exchange=_of(row))
        for row in rows
    ]


def _of(row: dict[str, Any]) -> Exchange:
    return Exchange(**row)


class ReplayShares(Replay):
    """Sends each request at its time, and reads the answers of a section in the recorded order: a
    fetch waits while others come. `before` and `after` are done at the sending of an exchange.
    """

    newer_settings: Container[str] = ()
    newer_apis: Container[int] = ()

    def __init__(self, stage: Stage, lines: Sequence[Line], topics: Mapping[str, bytes]) -> None:
        super().__init__(stage, [line.exchange for line in lines], topics)
        self.lines = lines
        self.wires: dict[str, Wire] = {}
        self.before: Mapping[int, Action] = {}
        self.after: Mapping[int, Action] = {}

    def run(self) -> dict[int, Differences]:
        found: dict[int, Differences] = {}
        for _, lines in groupby(self.lines, key=lambda line: line.section):
            self.close(*self.wires)
            found |= self._section(list(lines))
        return found

    def _section(self, lines: list[Line]) -> dict[int, Differences]:
        found = {}
        unread, sent = list(lines), set()
        in_time = sorted(lines, key=lambda line: line.t)
        began = None
        for line in in_time:
            self.before.get(line.n, _nothing)()
            began = self.stage.world.now - line.t if began is None else began
            self.pass_until(began + line.t)
            self.wire(line).send_frame(self.request(line.exchange))
            self.after.get(line.n, _nothing)()
            sent.add(line.n)
            while unread and unread[0].n in sent:
                read = unread.pop(0)
                found[read.n] = self.compare(read.exchange, self.wire(read).frame())
        return found

    def wire(self, line: Line) -> Wire:
        if line.conn not in self.wires:
            self.wires[line.conn] = self.connect(line.conn)
        return self.wires[line.conn]

    def connect(self, name: str) -> Wire:
        return self.stage.wire()

    def close(self, *names: str) -> None:
        for name in names:
            self.wires.pop(name).close()
        self.passes(0.1)

    def passes(self, seconds: float) -> None:
        self.pass_until(self.stage.world.now + seconds)

    def pass_until(self, time: float) -> None:
        self.stage.world.run(max(self.stage.world.now, time))

    def write(self, topic: str, base: int, index: int = 0, like: bytes | None = None) -> None:
        """Append one of the recorded batches, as its producer sent it. `like`: the topic's recorded
        id, where there were two of its name.
        """
        batches = batches_of(self.exchanges, like or self.recorded_ids[topic], index)
        wire = self.stage.wire(self.stage.leader(topic, index))
        append(wire, topic, memoryview(batches[base]), index)

    def content(self, records: memoryview) -> Any:
        """The time of a marker is of that run."""
        batches = list(iterate(records))
        rest = bytes(records[sum(len(batch) for _, batch in batches) :])
        opened = [
            (
                header._replace(crc=0, base_timestamp=0, max_timestamp=0),
                [record._replace(timestamp=0) for record in records_of(batch)],
            )
            if header.attributes & CONTROL
            else bytes(batch)
            for header, batch in batches
        ]
        return opened, rest


def _nothing() -> None:
    pass


def batches_of(exchanges: Sequence[Exchange], topic_id: bytes, index: int = 0) -> dict[int, bytes]:
    """Return the batches of a partition that the recorded answers have, by base offset."""
    found: dict[int, bytes] = {}
    for exchange in exchanges:
        if exchange.key != SHARE_FETCH.key or exchange.response is None:
            continue
        for topic in exchange.answer.responses:
            for row in topic.partitions:
                if (bytes(topic.topic_id), row.partition_index) == (topic_id, index):
                    for header, batch in iterate(memoryview(row.records)):
                        found.setdefault(header.base_offset, bytes(batch))
    return dict(sorted(found.items()))


def subscribe(stage: Stage, topics: Mapping[str, str], node_id: int = 1) -> None:
    """Let groups subscribe to one topic each, by a member that leaves again."""
    wire = stage.wire(node_id)
    epochs = {}
    for group, topic in topics.items():
        answer = beat(wire, group, 0, [topic])
        assert answer.error_code == 0, answer
        epochs[group] = answer.member_epoch
    while epochs:
        stage.world.run(stage.world.now + 1.0)
        for group, epoch in list(epochs.items()):
            answer = beat(wire, group, epoch)
            assert answer.error_code == 0, answer
            epochs[group] = answer.member_epoch
            if answer.assignment is not None and answer.assignment.topic_partitions:
                del epochs[group]
                leave(wire, group)
