"""ShareFetch and ShareAcknowledge as recorded with Apache Kafka 4.4.0, asked again of a fresh
node.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any
from uuid import UUID

import pytest

from tests.broker.golden import Differences, Exchange, all_found, append, not_meant, numbers_of
from tests.broker.golden_shares import ReplayShares, batches_of, lines_of, subscribe
from tests.broker.stage import Stage
from tests.kit.broker.kafka_differences import SHARES
from tests.kit.broker.share import configure, fill, shares
from tests.kit.broker.share_groups import beat, join, load_groups
from tests.kit.broker.transactions import Client, settled

LINES = lines_of("fetch")
EXCHANGES = [line.exchange for line in LINES]
BY_NUMBER = {line.n: line for line in LINES}
SECOND_RUN = 495  # without authorizer, with few sessions
TOPICS = {
    "st": UUID("47a7d0ea-8b12-44a4-b5e8-1eadd982fc6c").bytes,
    "unsubscribed": UUID("35b52748-2cf8-482a-9812-db1ec7b90d6a").bytes,
    "lim": UUID("4a0f7601-f591-4b1e-90c1-b0a9de9ae7d6").bytes,
    "ack": UUID("2eead34c-9cc9-48ce-8ff1-035743c0a27f").bytes,
    "renew": UUID("537cc9b4-855a-485a-bd6a-2e64f4c17210").bytes,
    "cnt": UUID("90e394a0-bd57-43d7-b05c-7e5fa1306bf3").bytes,
    "times": UUID("3f577d84-198a-4eb0-a7dd-6a8d693f4dbb").bytes,
    "inflight": UUID("b6fc6e40-32b3-42a5-8486-63e16343d918").bytes,
    "ses": UUID("241fd1cd-1c5e-4128-ab7d-80b86d49fcdf").bytes,
    "tx": UUID("d0032544-5738-4da6-a900-c7ddb8091fea").bytes,
    "u": UUID("b48197df-d5fa-4d5a-abe1-c54788008f82").bytes,
    "del": UUID("272440fc-606e-446a-a36d-da3c4613718e").bytes,
}
CLOCK_MS = 1_795_737_760_000  # some seconds after the records of `st`
DEL_AGAIN = UUID("da4665d4-e563-4d04-8df2-b3504b24a11c").bytes
PARTITIONS = {"ses": 2}
GROUPS: dict[str, tuple[str, ...]] = {
    "st": ("gl", "ge", "gd", "gd0", "ge2"),
    "lim": tuple(f"gm{number}" for number in range(1, 20)),
    "ack": ("ga",),
    "renew": ("gr",),
    "times": ("gt",),
    "cnt": ("gc",),
    "inflight": ("gi",),
    "ses": ("gs", "gs2"),
    "tx": ("gu", "gx"),
}
CONFIGS: dict[str, dict[str, str]] = {
    "gl": {"share_auto_offset_reset": "latest"},
    "gd": {"share_auto_offset_reset": "by_duration:PT1H"},
    "gd0": {"share_auto_offset_reset": "by_duration:PT0.05S"},
    "gr": {"share_record_lock_duration_ms": "2000"},
    "gt": {"share_record_lock_duration_ms": "1500"},
    "gc": {"share_record_lock_duration_ms": "1000", "share_delivery_count_limit": "3"},
    "gi": {"share_partition_max_record_locks": "100"},
    "gx": {"share_isolation_level": "read_committed"},
}
LATER = (("st", 3), ("lim", 20), ("cnt", 4))  # batches that are not there from the beginning


class Replayed(ReplayShares):
    def __init__(self, stage: Stage, *, second: bool) -> None:
        super().__init__(
            stage, [line for line in LINES if (line.n >= SECOND_RUN) == second], TOPICS
        )
        self.producer: Client | None = None
        self.before = {
            75: lambda: self.write("st", 3),
            81: lambda: stage.partition("st").delete_before(2),
            126: lambda: self.passes(0.2),
            188: lambda: configure(stage, "gr", share_renew_acknowledge_enable="false"),
            209: lambda: self.write("cnt", 4),
            222: lambda: self._join("gs", "ses"),
            240: lambda: self.close("s"),
            258: lambda: self.close("z1"),
            261: self._transactions,
            270: self._read_what_is_open,
            509: lambda: self.close("s2"),
            510: lambda: self._join("gdel", "del"),
            515: self._make_again,
            516: self._is_assigned_again,
        }
        self.after = {121: self._wake, 124: self._close_second, 269: self._commit}

    def make(self, groups: Mapping[str, tuple[str, ...]]) -> None:
        topics = {}
        for topic, names in groups.items():
            self.create(topic, PARTITIONS.get(topic, 1))
            for index in range(PARTITIONS.get(topic, 1)):
                for base in (
                    batches_of(self.exchanges, TOPICS[topic], index) if topic != "tx" else ()
                ):
                    if (topic, base) not in LATER:
                        self.write(topic, base, index)
            for group in names:
                configs = {"share_auto_offset_reset": "earliest"} | CONFIGS.get(group, {})
                configure(self.stage, group, **configs)
                topics[group] = topic
        load_groups(self.stage)
        subscribe(self.stage, topics)

    def _join(self, group: str, topic: str) -> None:
        join(self.stage, self.stage.wire(), group, topic)

    def _wake(self) -> None:
        self.passes(0.5)
        self.write("lim", 20)

    def _close_second(self) -> None:
        self.passes(0.3)
        self.close("l19b")

    def _transactions(self) -> None:
        """Offsets 0-1 committed, 2 its marker, 3-4 aborted, 5 its marker, 6 plain, 7-8 open."""
        self.producer = Client(self.stage, "tx")
        for epoch in range(2):
            assert self.producer.init().error_code == 0
            assert self.producer.pair == (0, epoch)
        for base, commit in ((0, True), (3, False)):
            self._produce(base)
            self._end(commit=commit)
        self.write("tx", 6)
        self._produce(7)

    def _produce(self, base: int) -> None:
        records = batches_of(self.exchanges, TOPICS["tx"])[base]
        append(self.stage.wire(), "tx", memoryview(records), transactional_id="tx")

    def _end(self, *, commit: bool) -> None:
        assert self.producer is not None
        assert self.producer.end(commit=commit) == 0
        settled(self.producer, "CompleteCommit" if commit else "CompleteAbort")

    def _commit(self) -> None:
        self.passes(0.5)
        self._end(commit=True)

    def _read_what_is_open(self) -> None:
        self._produce(10)
        configure(self.stage, "gx", share_isolation_level="read_uncommitted")

    def _make_again(self) -> None:
        """Another topic of the name of the one that was deleted."""
        self.stage.wait(lambda: ("del", 0) not in self.stage.nodes[1].replicas.partitions)
        self.ids[DEL_AGAIN] = self.stage.create("del")

    def _is_assigned_again(self) -> None:
        self.write("del", 0, like=DEL_AGAIN)
        self.passes(1.0)
        assert beat(self.stage.wire(), "gdel", 4).member_epoch == 5


@cache
def replayed() -> dict[int, Differences]:
    given: dict[str, Any] = {"group_share_min_record_lock_duration_ms": "1000"}
    with shares(), Stage(**given) as stage:
        first = Replayed(stage, second=False)
        first.set_clock(CLOCK_MS)
        first.make(GROUPS | {"unsubscribed": ()})
        fill(stage, "inflight", 30)
        found = first.run()
    given = {"group_share_max_size": "2", "group_share_max_share_sessions": "2"}
    with shares(), Stage(**given) as stage:
        second = Replayed(stage, second=True)
        second.set_clock(CLOCK_MS)
        second.make({"u": ("g",), "del": ()})
        configure(stage, "gdel", share_auto_offset_reset="earliest")
        return found | second.run()


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    assert not_meant(SHARES, exchange.n, replayed()[exchange.n]) == {}, exchange.comment


@pytest.mark.parametrize("n", sorted(set(numbers_of(SHARES)).intersection(BY_NUMBER)))
def test_differences_that_are_meant_are_there(n: int) -> None:
    assert all_found(SHARES, n, replayed()[n])
