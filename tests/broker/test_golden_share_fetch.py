"""ShareFetch and ShareAcknowledge as recorded with Apache Kafka 4.4.0, asked again of a fresh node.
golden_share_fetch.jsonl has the form of golden.jsonl, with the section of the recording, the
connection and the time of sending.

Left out are fetches that were parked while others came, and transactions: test_share_fetch.py has
tests of its own for them.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from raftka.wire.records import iterate
from tests.broker.golden import Differences, Exchange, Meant, Replay, all_found, append, not_meant
from tests.broker.stage import Stage, Wire
from tests.kit.broker.share import configure, fill, initialise, shares

LINES = [
    json.loads(line)
    for line in (Path(__file__).parent / "golden_share_fetch.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
OWN = ("section", "conn", "t")  # of a line, beside the fields of an exchange
EXCHANGES = [Exchange(**{k: v for k, v in line.items() if k not in OWN}) for line in LINES]
BY_NUMBER = {line["n"]: line for line in LINES}
SECOND_RUN = 495  # without authorizer, with few sessions
TOPICS = {
    "st": UUID("47a7d0ea-8b12-44a4-b5e8-1eadd982fc6c").bytes,
    "unsubscribed": UUID("35b52748-2cf8-482a-9812-db1ec7b90d6a").bytes,
    "lim": UUID("4a0f7601-f591-4b1e-90c1-b0a9de9ae7d6").bytes,
    "ack": UUID("2eead34c-9cc9-48ce-8ff1-035743c0a27f").bytes,
    "renew": UUID("537cc9b4-855a-485a-bd6a-2e64f4c17210").bytes,
    "cnt": UUID("90e394a0-bd57-43d7-b05c-7e5fa1306bf3").bytes,
    "inflight": UUID("b6fc6e40-32b3-42a5-8486-63e16343d918").bytes,
    "ses": UUID("241fd1cd-1c5e-4128-ab7d-80b86d49fcdf").bytes,
    "u": UUID("b48197df-d5fa-4d5a-abe1-c54788008f82").bytes,
    "del": UUID("272440fc-606e-446a-a36d-da3c4613718e").bytes,
}
CLOCK_MS = 1_795_737_760_000  # some seconds after the records of `st`
DEL_AGAIN = UUID("da4665d4-e563-4d04-8df2-b3504b24a11c").bytes
PARTITIONS = {"ses": 2}
GROUPS: dict[str, tuple[str, ...]] = {
    "st": ("gl", "ge", "gd", "gd0", "ge2"),
    "lim": tuple(f"gm{number}" for number in range(1, 19)),
    "ack": ("ga",),
    "renew": ("gr",),
    "cnt": ("gc",),
    "inflight": ("gi",),
    "ses": ("gs", "gs2"),
}
CONFIGS: dict[str, dict[str, str]] = {
    "gl": {"share_auto_offset_reset": "latest"},
    "gd": {"share_auto_offset_reset": "by_duration:PT1H"},
    "gd0": {"share_auto_offset_reset": "by_duration:PT0.05S"},
    "gr": {"share_record_lock_duration_ms": "2000"},
    "gc": {"share_record_lock_duration_ms": "1000", "share_delivery_count_limit": "3"},
    "gi": {"share_partition_max_record_locks": "100"},
}
LATER = {("st", 3): 75, ("cnt", 4): 209}  # batches that are written before an exchange
CLOSED = {240: "s", 258: "z1", 509: "s2"}  # connections that close before an exchange
MEANT: Meant = (
    (
        (88, 89, 90, 98, 163),
        r"\.(error_code|acquisition_lock_timeout_ms|responses.*)",
        "Kafka fails the whole request for an unknown topic, and for a partition that is named "
        "twice, when it has an authorizer",
    ),
    ((110, 111), r"\.responses.*acquired_records.*", "Kafka begins with a range of no records"),
    (
        (248,),
        r"\.responses.*",
        "Kafka goes on to hold what a closing request did not acknowledge of a partition of which "
        "it acknowledged something",
    ),
    ((503,), r"\.responses.*", "two topics that are unknown come in another order"),
    ((118,), r"\.responses.*records", "Kafka cuts the last batch where MaxBytes ends"),
)


class ReplayShares(Replay):
    def __init__(self, stage: Stage, *, second: bool) -> None:
        exchanges = [each for each in EXCHANGES if (each.n >= SECOND_RUN) == second]
        super().__init__(stage, exchanges, TOPICS)
        self.wires: dict[str, Wire] = {}
        self.section = ""
        self.began = 0.0
        self.actions: Mapping[int, Callable[[], None]] = {
            75: lambda: self._write("st", 3),
            81: lambda: self._delete_records("st", 2),
            188: lambda: configure(stage, "gr", share_renew_acknowledge_enable="false"),
            209: lambda: self._write("cnt", 4),
            512: lambda: stage.delete("del"),
            516: self._make_again,
        }

    def run(self) -> dict[int, Differences]:
        found = {}
        for exchange in self.exchanges:
            line = BY_NUMBER[exchange.n]
            if line["section"] != self.section:
                self._close(*self.wires)
                self.section, self.began = line["section"], self.stage.world.now - line["t"]
            self._close(*(name for name in (CLOSED.get(exchange.n),) if name in self.wires))
            if (action := self.actions.get(exchange.n)) is not None:
                action()
            self.stage.world.run(max(self.stage.world.now, self.began + line["t"]))
            wire = self.wires.setdefault(line["conn"], self.stage.wire())
            found[exchange.n] = self.ask(exchange, wire)
        return found

    def _close(self, *names: str) -> None:
        for name in tuple(names):
            self.wires.pop(name).close()
            self.stage.world.run(self.stage.world.now + 0.1)

    def make(self, topics: Mapping[str, bytes], groups: Mapping[str, tuple[str, ...]]) -> None:
        for topic in topics:
            self.create(topic, PARTITIONS.get(topic, 1))
            for index in range(PARTITIONS.get(topic, 1)):
                for base in batches_of(TOPICS[topic], index):
                    if (topic, base) not in LATER:
                        self._write(topic, base, index)
            for group in groups.get(topic, ()):
                configs = {"share_auto_offset_reset": "earliest"} | CONFIGS.get(group, {})
                configure(self.stage, group, **configs)
                places = [
                    (self.ids[TOPICS[topic]], index) for index in range(PARTITIONS.get(topic, 1))
                ]
                initialise(self.stage, group, *places)

    def _write(self, topic: str, base: int, index: int = 0) -> None:
        records = memoryview(batches_of(TOPICS[topic], index)[base])
        append(self.stage.wire(), topic, records, index)

    def _delete_records(self, topic: str, offset: int) -> None:
        self.stage.partition(topic).delete_before(offset)

    def _make_again(self) -> None:
        """Another topic of the name of the one that was deleted."""
        self.stage.wait(lambda: ("del", 0) not in self.stage.nodes[1].replicas.partitions)
        topic_id = self.ids[DEL_AGAIN] = self.stage.create("del")
        append(self.stage.wire(), "del", memoryview(batches_of(DEL_AGAIN, 0)[0]), 0)
        initialise(self.stage, "gdel", (topic_id, 0))


@cache
def batches_of(topic_id: bytes, index: int) -> dict[int, bytes]:
    """Return the batches of a partition that the recorded answers have, by base offset."""
    found: dict[int, bytes] = {}
    for exchange in EXCHANGES:
        for topic in exchange.answer.responses if exchange.key == 78 else ():
            for row in topic.partitions:
                if (bytes(topic.topic_id), row.partition_index) == (topic_id, index):
                    for header, batch in iterate(memoryview(row.records)):
                        found.setdefault(header.base_offset, bytes(batch))
    return dict(sorted(found.items()))


@cache
def replayed() -> dict[int, Differences]:
    given: dict[str, Any] = {"group_share_min_record_lock_duration_ms": "1000"}
    with shares(), Stage(**given) as stage:
        first = ReplayShares(stage, second=False)
        first.set_clock(CLOCK_MS)
        first.make({name: TOPICS[name] for name in (*GROUPS, "unsubscribed")}, GROUPS)
        fill(stage, "inflight", 30)
        found = first.run()
    given = {"group_share_max_share_sessions": "2"}
    with shares(), Stage(**given) as stage:
        second = ReplayShares(stage, second=True)
        second.set_clock(CLOCK_MS)
        second.make({name: TOPICS[name] for name in ("u", "del")}, {"u": ("g",), "del": ("gdel",)})
        return found | second.run()


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    assert not_meant(MEANT, exchange.n, replayed()[exchange.n]) == {}, exchange.comment


def test_differences_are_still_there() -> None:
    for numbers, _, _ in MEANT:
        for n in numbers:
            assert all_found(MEANT, n, replayed()[n]), n
