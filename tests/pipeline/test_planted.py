"""Planted bugs of readers, workers and reports: a rule of another file finds each of them. All were
real, or nearly.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs raftka[pipeline]")
pytest.importorskip("fastavro", reason="needs raftka[pipeline]")

from raftka.cluster.tally import Tally
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.records import registry_client, schema_readers
from raftka.pipeline.records.batches import Fetched
from raftka.pipeline.running.lag import Ends, Seen
from raftka.pipeline.topics import progress, reader
from raftka.pipeline.topics.positions import Position
from raftka.testing import Cluster
from tests.cluster import test_tally
from tests.pipeline import (
    test_decode,
    test_lag,
    test_progress,
    test_reader,
    test_registry_client,
    test_schema_readers,
)
from tests.pipeline.players import Player

Rule = Callable[[Cluster, Player, pytest.MonkeyPatch], object]


def kept_metadata_are_believed(patch: pytest.MonkeyPatch) -> None:
    """A topic that was made again is read as empty."""

    def bug(reading: Any, why: str, happened: str = "deleted") -> None:
        raise reader.Gone(
            f"topic {reading._wanted.topic} was {happened} before {reading._left()} were read"
        )

    patch.setattr(reader._Reading, "_topic_unknown", bug)


def ids_are_not_compared(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reader._Reading, "_has_other_id", lambda reading: False)


def old_brokers_are_read_by_kept_metadata(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reader._Reading, "_reads_by_name", lambda reading, connection: False)


def each_range_waits_for_a_topic_that_is_gone(patch: pytest.MonkeyPatch) -> None:
    read = reader.read
    patch.setattr(
        reader, "read", lambda brokers, wanted, options, gone: read(brokers, wanted, options, set())
    )


def short_logs_are_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        reader._Reading, "_shorter", lambda reading, end: reading._patience.wait("it ends")
    )


def gaps_have_no_end(patch: pytest.MonkeyPatch) -> None:
    """The range is asked for again and again: "hold no whole batch"."""
    walk = Fetched._walk

    def bug(fetched: Fetched, start: int, stop: int, check_crcs: bool) -> Iterator[Any]:
        spans = list(walk(fetched, start, stop, check_crcs))
        fetched.next_offset = max([start, *(span.header.last_offset + 1 for span in spans)])
        yield from spans

    patch.setattr(Fetched, "_walk", bug)


def cut_batches_end_a_gap(patch: pytest.MonkeyPatch) -> None:
    walk = Fetched._walk

    def bug(fetched: Fetched, start: int, stop: int, check_crcs: bool) -> Iterator[Any]:
        yield from walk(fetched, start, stop, check_crcs)
        fetched.next_offset = stop

    patch.setattr(Fetched, "_walk", bug)


def schemas_are_kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(registry_client, "FRESH_S", float("inf"))


def readers_are_kept_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(schema_readers.RegistryReader, "refresh", lambda known: None)


def progress_is_told_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(progress, "AGAIN_S", float("inf"))


def lag_is_that_of_the_plan(patch: pytest.MonkeyPatch) -> None:
    """The ends are those of the first answer."""
    ask, first = Ends.ask, list[Seen]()

    def bug(ends: Ends, positions: Collection[Position]) -> Seen:
        first[1:] = []
        first.append(ask(ends, positions))
        return first[0]

    patch.setattr(Ends, "ask", bug)


def records_of_others_are_counted(patch: pytest.MonkeyPatch) -> None:
    def bug(tally: Tally, key: Any, headers: Any, value: Any, partition: int) -> None:
        tally.read(key, int(dict(headers)["n"]), value, partition)

    patch.setattr(Tally, "read_record", bug)


def in_a_gap(start: int, stop: int) -> Rule:
    return lambda cluster, player, patch: (
        test_decode.test_a_range_in_a_gap_ends_at_the_next_whole_batch(start, stop)
    )


def on_a_cluster(rule: Callable[..., object]) -> Rule:
    return lambda cluster, player, patch: rule(cluster, player)


def alone(rule: Callable[[], object]) -> Rule:
    return lambda cluster, player, patch: rule()


def with_ends(cluster: Cluster, player: Player, patch: pytest.MonkeyPatch) -> None:
    ends = Ends({}, {"kafka.bootstrap.servers": cluster.bootstrap_servers})
    try:
        test_lag.test_lag_is_counted_to_the_ends_of_now(cluster, player, ends)
    finally:
        ends.close()


PLANTED: list[tuple[Callable[[pytest.MonkeyPatch], None], Rule]] = [
    (
        kept_metadata_are_believed,
        on_a_cluster(
            test_reader.test_a_worker_reads_the_new_topic_with_the_metadata_of_the_old_one
        ),
    ),
    (
        ids_are_not_compared,
        test_reader.test_a_broker_whose_fetch_has_names_alone_is_not_read_by_old_metadata,
    ),
    (
        old_brokers_are_read_by_kept_metadata,
        test_reader.test_a_broker_whose_fetch_has_names_alone_is_not_read_by_old_metadata,
    ),
    (
        each_range_waits_for_a_topic_that_is_gone,
        test_reader.test_ranges_of_a_topic_that_is_gone_wait_once_in_a_task,
    ),
    (
        short_logs_are_waited_for,
        on_a_cluster(test_reader.test_a_log_that_ends_within_the_plan_is_reported_or_passed_by),
    ),
    (gaps_have_no_end, in_a_gap(3, 7)),
    (cut_batches_end_a_gap, in_a_gap(3, 7)),
    (
        schemas_are_kept_for_ever,
        alone(
            test_registry_client.test_a_kept_schema_is_compared_with_the_registry_after_some_time
        ),
    ),
    (
        readers_are_kept_for_ever,
        alone(test_schema_readers.test_an_id_that_a_new_registry_gives_again_has_its_new_schema),
    ),
    (
        progress_is_told_once,
        on_a_cluster(test_progress.test_offsets_that_brokers_have_forgotten_are_committed_again),
    ),
    (lag_is_that_of_the_plan, with_ends),
    (
        records_of_others_are_counted,
        alone(test_tally.test_records_of_others_are_passed_by_and_counted),
    ),
]


@pytest.mark.parametrize(("plant", "rule"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_planted_bug_is_found(
    cluster: Cluster, player: Player, plant: Callable[[pytest.MonkeyPatch], None], rule: Rule
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises((AssertionError, KeyError, PipelineError, pytest.fail.Exception)):
            rule(cluster, player, patch)
