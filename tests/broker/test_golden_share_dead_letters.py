"""Dead letters of share groups (KIP-1191) and levels of share.version, as recorded with Apache
Kafka 4.4.0, asked again of a fresh node.
"""

from functools import cache
from typing import Any
from uuid import UUID

import pytest

from raftka.wire.records import iterate, records_of
from tests.broker.golden import Differences, Exchange, all_found, not_meant, numbers_of
from tests.broker.golden_shares import ReplayShares, lines_of, subscribe
from tests.broker.stage import Stage
from tests.kit.broker.kafka_differences import SHARES
from tests.kit.broker.share import configure, shares
from tests.kit.broker.share_groups import join, load_groups

LINES = lines_of("dead_letters")
EXCHANGES = [line.exchange for line in LINES]
BY_NUMBER = {line.n: line for line in LINES}
TOPICS = {
    "src": UUID("7fd8a3d9-66f5-44dd-b66e-a52764507706").bytes,
    "dlq.one": UUID("1c390e7d-746d-47b5-bf61-82a6b2deab88").bytes,
    "dlq.copy": UUID("35ba4d33-3d46-4df5-b487-161f2bbc7964").bytes,
    "dlq.plain": UUID("388ad229-3417-4bb1-8f15-408bf5a8d349").bytes,
    "other": UUID("afb3bd0a-6ca0-4c35-98e3-950a9b357513").bytes,
}
TAKES: dict[str, Any] = {"errors_deadletterqueue_group_enable": "true"}
LETTERS_OF = {
    "gd1": "dlq.one",
    "gd2": "dlq.copy",
    "gd3": "dlq.plain",
    "gd4": "dlq.absent",
    "gd5": "dlq.auto",
    "gd6": "other",
    "gd7": "dlq.one",
    "gv": "dlq.one",
}
GIVEN: dict[str, Any] = {
    "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super_users": "User:ANONYMOUS",
    "group_share_min_record_lock_duration_ms": "1000",
}
CLOCK_MS = 1_795_737_843_000
LETTER_S = 0.02  # that a letter takes, as there


class Replayed(ReplayShares):
    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, LINES, TOPICS)
        self.before = {
            319: self._created,
            332: lambda: stage.partition("src", 1).delete_before(4),
            477: self._begin_again,
        }

    def make(self) -> None:
        self.create("src", 2, retention_ms="-1")  # its records are old
        self.create("dlq.plain")
        self.create("dlq.copy", 3, **TAKES)
        self.create("dlq.one", **TAKES)
        self.create("other", **TAKES)
        self.write("src", 0, 1)
        for group, letters in LETTERS_OF.items():
            configure(
                self.stage,
                group,
                share_auto_offset_reset="earliest",
                share_delivery_count_limit="2",
                share_record_lock_duration_ms="1000",
                errors_deadletterqueue_topic_name=letters,
            )
        configure(self.stage, "gd2", errors_deadletterqueue_copy_record_enable="true")
        load_groups(self.stage)
        subscribe(self.stage, dict.fromkeys(sorted(LETTERS_OF.keys() - {"gv"}), "src"))

    def letters_take_time(self) -> None:
        node = self.stage.nodes[1]
        write, clock = node.dead_letters.write, node.runtime.clock

        def later(*letter: Any) -> None:
            clock.call_at(clock.now() + LETTER_S, lambda: write(*letter))

        node.dead_letters.write = later  # type: ignore[method-assign,assignment]

    def _created(self) -> None:
        self.stage.wait(lambda: ("dlq.auto", 0) in self.stage.nodes[1].replicas.partitions)

    def _begin_again(self) -> None:
        self.write("src", 4, 1)
        join(self.stage, self.stage.wire(), "gv", "src")

    def content(self, records: memoryview) -> Any:
        """Letters have the time of that run, and share batches as it comes."""
        return [
            (record.offset, record.key, record.value, record.headers)
            for _, batch in iterate(records)
            for record in records_of(batch)
        ]


@cache
def replayed() -> dict[int, Differences]:
    with shares(), Stage(**GIVEN) as stage:
        replay = Replayed(stage)
        replay.set_clock(CLOCK_MS)
        replay.make()
        replay.letters_take_time()
        return replay.run()


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    assert not_meant(SHARES, exchange.n, replayed()[exchange.n]) == {}, exchange.comment


@pytest.mark.parametrize("n", sorted(set(numbers_of(SHARES)).intersection(BY_NUMBER)))
def test_differences_that_are_meant_are_there(n: int) -> None:
    assert all_found(SHARES, n, replayed()[n])
