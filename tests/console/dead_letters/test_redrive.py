"""Dead letters that are sent again, on a real node: what arrives, in which order, how often."""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.groups import committed
from raftka.client.blocking.producer import Producer
from raftka.client.blocking.reader import FetchedRecord, Reader
from raftka.client.blocking.transaction import begin, end
from raftka.console.dead_letters import sent as sent_module
from raftka.console.dead_letters.letters import REDRIVEN_AT, REDRIVEN_FROM, REDRIVEN_TIMES
from raftka.console.dead_letters.reading import read_page
from raftka.console.dead_letters.redrive import (
    ALREADY_SENT,
    IN_DOUBT,
    NO_CONTENT,
    UNKNOWN_ORIGIN,
    Again,
    Order,
    Plan,
    Ready,
    Redrive,
    State,
    plan_redrive,
)
from raftka.console.dead_letters.selection import Filter, spans_of
from raftka.console.dead_letters.sent import Sent
from raftka.limits import Limit
from raftka.testing import Cluster
from raftka.wire.errors import KafkaError
from tests.kit.dead_letters import (
    BEGIN_MS,
    OWN,
    connect,
    pipeline,
    share_group,
    spring,
    write_letters,
)

ALL = Filter()


def never() -> bool:
    return False


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(addresses_of(cluster.bootstrap_servers), "test", 5.0) as client:
        yield client
    cluster.clear_faults()


@pytest.fixture
def topics(cluster: Cluster) -> tuple[str, str]:
    """An origin with four partitions, and a topic of dead letters with two."""
    return cluster.create_topic(partitions=4), cluster.create_topic(partitions=2)


def order_of(client: Client, topic: str, wanted: Filter = ALL, **options: Any) -> Order:
    return Order(topic, spans_of(client, topic), wanted, **options)


def redrive(client: Client, order: Order, sent: Sent | None = None) -> Redrive:
    found = Redrive(order, sent or Sent())
    found.run(client, never)
    return found


def plan(client: Client, order: Order, sent: Sent | None = None) -> Plan:
    *_, (found, done, total) = plan_redrive(client, order, sent or Sent(), 5, never)
    assert done == total
    return found


def records(client: Client, topic: str) -> dict[int, list[FetchedRecord]]:
    """All records of a topic, by partition."""
    spans = spans_of(client, topic)
    page = read_page(client, spans, {}, ALL, 10_000, 10_000, never)
    found: dict[int, list[FetchedRecord]] = {partition: [] for _, partition in spans}
    for letter in page.letters:
        found[letter.record.partition].append(letter.record)
    return {
        partition: sorted(each, key=lambda record: record.offset)
        for partition, each in found.items()
    }


def values(client: Client, topic: str) -> dict[int, list[bytes | None]]:
    return {
        partition: [record.value for record in each]
        for partition, each in records(client, topic).items()
        if each
    }


def test_letters_go_to_the_partition_that_they_came_from_with_a_note(
    client: Client, topics: tuple[str, str]
) -> None:
    origin, bad = topics
    write_letters(
        client,
        bad,
        [
            (b"k", b"a", (*OWN, *connect(origin, 3))),
            (None, b"b", spring(origin, 2)),
            (b"k", b"c", pipeline(origin, 3)),
        ],
        partition=1,
    )
    done = redrive(client, order_of(client, bad))

    assert (done.state, done.sent, done.by_target) == (State.DONE, 3, {origin: 3})
    assert values(client, origin) == {3: [b"a", b"c"], 2: [b"b"]}
    first = records(client, origin)[3][0]
    notes = dict(first.headers)
    assert tuple(first.headers[: len(OWN)]) == OWN
    assert (first.key, notes[REDRIVEN_FROM], notes[REDRIVEN_TIMES]) == (
        b"k",
        f"{bad}-1@0".encode(),
        b"1",
    )
    assert set(notes) == {*dict(OWN), REDRIVEN_FROM, REDRIVEN_TIMES, REDRIVEN_AT}
    # the letters have timestamps of 1970: retention would delete them at once
    assert first.timestamp > 1_700_000_000_000


def test_a_letter_of_a_record_that_was_sent_again_counts_on(
    client: Client, topics: tuple[str, str]
) -> None:
    origin, bad = topics
    write_letters(client, bad, [(None, b"a", connect(origin, 0))])
    redrive(client, order_of(client, bad))
    (again,) = records(client, origin)[0]
    # it fails once more, and its program copies the headers
    write_letters(client, bad, [(None, b"a", (*again.headers, *connect(origin, 0)))], partition=1)
    redrive(client, order_of(client, bad, Filter(offsets=frozenset({(1, 0)}))))

    twice = records(client, origin)[0][1]
    assert [each for each in twice.headers if each[0] == REDRIVEN_TIMES] == [(REDRIVEN_TIMES, b"2")]
    assert dict(twice.headers)[REDRIVEN_FROM] == f"{bad}-1@0".encode()


def test_order_within_a_partition_is_kept(client: Client, topics: tuple[str, str]) -> None:
    origin, bad = topics
    for partition in (0, 1):
        write_letters(
            client,
            bad,
            [
                (None, b"%d:%d" % (partition, number), connect(origin, number % 4))
                for number in range(1_500)
            ],
            partition,
        )
    assert redrive(client, order_of(client, bad)).sent == 3_000

    for found in values(client, origin).values():
        for partition in (0, 1):
            own = [each for each in found if each and each.startswith(b"%d:" % partition)]
            assert len(own) == 375
            assert own == sorted(own, key=lambda each: int(each[2:]))


def test_another_target_takes_letters_of_any_origin_by_their_keys(
    cluster: Cluster, client: Client, topics: tuple[str, str]
) -> None:
    (origin, bad), target = topics, cluster.create_topic(partitions=3)
    write_letters(
        client,
        bad,
        [(b"same", b"a", connect(origin, 3)), (b"same", b"b", ()), (None, b"c", ())],
        partition=1,
    )
    done = redrive(client, order_of(client, bad, target=target))

    assert (done.state, done.sent, values(client, origin)) == (State.DONE, 3, {})
    assert values(client, target)[1][-1] == b"c"  # without a key: by the letter's partition
    by_key = [each for found in records(client, target).values() for each in found if each.key]
    assert len({each.partition for each in by_key}) == 1


def test_letters_that_cannot_be_sent_are_counted_by_reason_and_the_others_are_sent(
    cluster: Cluster, client: Client, topics: tuple[str, str]
) -> None:
    origin, bad = topics
    write_letters(
        client,
        bad,
        [
            (None, b"a", ()),
            (None, b"b", connect("gone", 0)),
            (None, b"c", connect(bad, 0)),
            (None, b"d", connect(origin, 0)),
            (None, None, share_group(origin, 1, 999)),
            (None, b"e", connect("__consumer_offsets", 0)),
        ],
    )
    committed(client, "group")  # makes the topic of the offsets
    order = order_of(client, bad)
    reasons = {
        UNKNOWN_ORIGIN: 1,
        "gone: UNKNOWN_TOPIC_OR_PARTITION": 1,
        f"{bad} is the topic of the letters itself": 1,
        NO_CONTENT: 1,
        "__consumer_offsets is a topic of the brokers themselves": 1,
    }
    planned, done = plan(client, order), redrive(client, order)

    assert (planned.letters, planned.refused, planned.by_target) == (6, reasons, {origin: 1})
    assert (done.state, done.refused, done.sent) == (State.DONE, reasons, 1)
    assert values(client, origin) == {0: [b"d"]}


def test_the_plan_shows_the_records_as_they_would_be_and_sends_nothing(
    client: Client, topics: tuple[str, str]
) -> None:
    origin, bad = topics
    write_letters(client, bad, [(b"k", b"%d" % n, (*OWN, *connect(origin, 1))) for n in range(20)])
    planned = plan(client, order_of(client, bad))

    assert (planned.letters, planned.by_target, planned.bytes) == (20, {origin: 20}, 20 + 30)
    assert [each.record[1] for each in planned.first] == [b"0", b"1", b"2", b"3", b"4"]
    first = planned.first[0]
    assert isinstance(first, Ready)
    assert (first.where, [name for name, _ in first.record[2]]) == (
        (origin, 1),
        [*dict(OWN), REDRIVEN_FROM, REDRIVEN_AT, REDRIVEN_TIMES],
    )
    assert values(client, origin) == {}


def test_letters_that_come_after_the_plan_are_not_sent(
    client: Client, topics: tuple[str, str]
) -> None:
    origin, bad = topics
    write_letters(client, bad, [(None, b"a", connect(origin, 0))])
    order = order_of(client, bad)
    write_letters(client, bad, [(None, b"late", connect(origin, 0))])

    assert redrive(client, order).sent == 1
    assert values(client, origin) == {0: [b"a"]}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Filter(kind="java.io.IOException"), [b"b"]),
        (Filter(origin=""), [b"c"]),
        (Filter(text="AR"), [b"arnica"]),
        (Filter(text="timed out"), [b"b"]),
        (Filter(offsets=frozenset({(0, 0), (0, 2), (0, 99), (1, 0)})), [b"a", b"c"]),
        (Filter(kind="java.io.IOException", text="nothing"), []),
    ],
)
def test_a_filter_chooses_letters(
    cluster: Cluster,
    client: Client,
    topics: tuple[str, str],
    wanted: Filter,
    expected: list[bytes],
) -> None:
    (origin, bad), target = topics, cluster.create_topic(partitions=1)
    write_letters(
        client,
        bad,
        [
            (None, b"a", connect(origin)),
            (None, b"b", connect(origin, error="java.io.IOException", message="Timed out")),
            (None, b"c", ()),
            (None, b"arnica", connect(origin)),
        ],
    )
    done = redrive(client, order_of(client, bad, wanted, target=target))

    assert done.sent == len(expected)
    assert values(client, target).get(0, []) == expected


def test_one_letter_is_sent_with_another_content(client: Client, topics: tuple[str, str]) -> None:
    origin, bad = topics
    write_letters(client, bad, [(b"k", b"wrong", (*OWN, *connect(origin, 2)))])
    redrive(client, order_of(client, bad, edited={"key": b"new", "value": None}))

    (found,) = records(client, origin)[2]
    assert (found.key, found.value, tuple(found.headers[: len(OWN)])) == (b"new", None, OWN)


def test_a_letter_without_content_is_sent_as_its_original(
    client: Client, topics: tuple[str, str]
) -> None:
    origin, bad = topics
    write_letters(client, origin, [(b"k", b"%d" % n, OWN) for n in range(10)], partition=1)
    write_letters(
        client, bad, [(None, None, share_group(origin, 1, offset)) for offset in (7, 8, 3, 10)]
    )
    done = redrive(client, order_of(client, bad))

    assert (done.sent, done.refused) == (3, {NO_CONTENT: 1})
    sent = records(client, origin)[1][10:]
    assert [(each.key, each.value) for each in sent] == [(b"k", b"7"), (b"k", b"8"), (b"k", b"3")]
    assert all(tuple(each.headers[: len(OWN)]) == OWN for each in sent)


def test_letters_of_aborted_transactions_are_none(client: Client, topics: tuple[str, str]) -> None:
    origin, bad = topics
    for commit in (False, True):
        identity = begin(client, f"id-{bad}", 10_000)
        producer = Producer(client, identity=identity)
        producer.add((bad, 0), (None, b"%d" % commit, connect(origin, 0), 1))
        producer.flush()
        end(client, identity, commit=commit)
    client.offsets({(bad, 0): -1}, 1)
    order = order_of(client, bad)
    while order.spans[bad, 0][1] < 4:  # the markers
        order = order_of(client, bad)

    assert redrive(client, order).state is State.DONE
    assert values(client, origin) == {0: [b"1"]}


# nothing twice


def test_a_second_redrive_passes_over_what_was_sent_unless_it_is_told(
    client: Client, topics: tuple[str, str]
) -> None:
    (origin, bad), sent = topics, Sent()
    write_letters(client, bad, [(None, b"%d" % n, connect(origin, 0)) for n in range(5)])
    one = order_of(client, bad, Filter(offsets=frozenset({(0, 2)})))
    assert redrive(client, one, sent).sent == 1

    every = order_of(client, bad)
    assert plan(client, every, sent).refused == {ALREADY_SENT: 1}
    assert redrive(client, every, sent).refused == {ALREADY_SENT: 1}
    assert values(client, origin) == {0: [b"2", b"0", b"1", b"3", b"4"]}
    assert redrive(client, order_of(client, bad, again=Again.IN_DOUBT), sent).sent == 0
    assert redrive(client, order_of(client, bad, again=Again.ALL), sent).sent == 5


def test_a_new_topic_of_the_same_name_has_letters_of_its_own(
    cluster: Cluster, client: Client, topics: tuple[str, str]
) -> None:
    (origin, bad), sent = topics, Sent()
    for expected in (1, 2):
        write_letters(client, bad, [(None, b"a", connect(origin, 0))])
        assert redrive(client, order_of(client, bad), sent).sent == 1
        assert len(values(client, origin)[0]) == expected
        cluster.delete_topic(bad)
        cluster.create_topic(bad, partitions=2)
        client.metadata([bad])


@pytest.mark.parametrize("answer", ["lost", "late"])
def test_a_lost_answer_sends_nothing_twice(
    cluster: Cluster, client: Client, topics: tuple[str, str], answer: str
) -> None:
    origin, bad = topics
    write_letters(client, bad, [(None, b"%d" % n, connect(origin, 0)) for n in range(50)])
    if answer == "lost":
        cluster.lose_answers("Produce", times=2)
    else:
        cluster.fail_next("Produce", error="REQUEST_TIMED_OUT", times=2)
    done = redrive(client, order_of(client, bad))

    assert (done.state, done.sent, done.in_doubt) == (State.DONE, 50, 0)
    assert values(client, origin) == {0: [b"%d" % n for n in range(50)]}


def test_records_that_are_read_twice_are_sent_once(
    client: Client, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an unclean election, when a log begins again before the position of its reader."""
    origin, bad = topics
    write_letters(client, bad, [(None, b"%d" % n, connect(origin, 0)) for n in range(9)])
    once = Reader.poll

    def repeated(self: Reader, timeout_s: float, most: int) -> list[FetchedRecord]:
        found = once(self, timeout_s, 3)
        return [*found, *found, *found[:1]]

    monkeypatch.setattr(Reader, "poll", repeated)
    done = redrive(client, order_of(client, bad))
    monkeypatch.undo()

    assert (done.state, done.sent) == (State.DONE, 9)
    assert values(client, origin) == {0: [b"%d" % n for n in range(9)]}


def test_letters_whose_acknowledgement_is_lost_for_good_are_in_doubt(
    cluster: Cluster, topics: tuple[str, str]
) -> None:
    (origin, bad), sent = topics, Sent()
    with Client(addresses_of(cluster.bootstrap_servers), "test", 0.5, answer_s=0.3) as client:
        write_letters(client, bad, [(None, b"%d" % n, connect(origin, 0)) for n in range(5)])
        order = order_of(client, bad)
        with cluster.lose_answers("Produce", times=1_000):
            failed = redrive(client, order, sent)
        assert (failed.state, failed.sent, failed.in_doubt) == (State.FAILED, 0, 5)
        assert "nobody answered" in failed.error

        assert plan(client, order, sent).refused == {IN_DOUBT: 5}
        assert redrive(client, order, sent).sent == 0
        told = order_of(client, bad, again=Again.IN_DOUBT)
        assert redrive(client, told, sent).sent == 5
        assert plan(client, order, sent).refused == {ALREADY_SENT: 5}


# how it ends


@pytest.mark.parametrize("how", ["stop", "session"])
def test_a_redrive_that_is_stopped_has_sent_a_beginning_of_each_partition(
    client: Client, topics: tuple[str, str], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin, bad = topics
    write_letters(client, bad, [(None, b"%d" % n, connect(origin, 0)) for n in range(1_200)])
    sent = Sent()
    stopped = Redrive(order_of(client, bad), sent)

    def is_over() -> bool:
        if stopped.sent and how == "stop":
            stopped.stop()
        return stopped.sent > 0 and how == "session"

    stopped.run(client, is_over)
    assert (stopped.state, stopped.in_doubt) == (State.STOPPED, 0)
    assert 0 < stopped.sent < 1_200
    assert values(client, origin) == {0: [b"%d" % n for n in range(stopped.sent)]}

    rest = redrive(client, order_of(client, bad), sent)
    assert (rest.sent, rest.refused) == (1_200 - stopped.sent, {ALREADY_SENT: stopped.sent})
    assert values(client, origin) == {0: [b"%d" % n for n in range(1_200)]}


def test_a_target_that_refuses_a_record_ends_the_redrive_with_its_reason(
    cluster: Cluster, client: Client, topics: tuple[str, str]
) -> None:
    (_, bad), small = topics, cluster.create_topic(max_message_bytes="1000")
    write_letters(client, bad, [(None, b"x" * 5_000, ())])
    failed = redrive(client, order_of(client, bad, target=small))

    assert (failed.state, failed.sent) == (State.FAILED, 0)
    assert "max.message.bytes" in failed.error


def test_a_redrive_ends_before_it_sends_what_it_cannot_remember(
    client: Client, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_module, "REMEMBERED_RANGES", Limit("few", 1, "of the test"))
    (origin, bad), sent = topics, Sent()
    write_letters(client, bad, [(None, b"%d" % n, connect(origin, 0)) for n in range(9)])
    odd = Filter(offsets=frozenset({(0, 1)}))
    assert redrive(client, order_of(client, bad, odd), sent).sent == 1
    failed = redrive(client, order_of(client, bad), sent)

    assert (failed.state, failed.sent) == (State.FAILED, 0)
    assert "remembers no further letters" in failed.error
    assert values(client, origin) == {0: [b"1"]}


def test_a_topic_that_is_not_there_is_an_error(client: Client) -> None:
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION: nowhere"):
        spans_of(client, "nowhere")


# pages, the newest first


def pages(
    client: Client, topic: str, wanted: Filter, size: int, most_examined: int
) -> Iterator[list[int]]:
    spans, before, is_last = spans_of(client, topic), dict[Where, int](), False
    while not is_last:
        page = read_page(client, spans, before, wanted, size, most_examined, never)
        assert page.letters or page.examined, "a page goes on"
        before, is_last = page.before, page.is_last
        yield [each.record.timestamp for each in page.letters]


@pytest.mark.parametrize(("size", "most_examined"), [(7, 10_000), (1_000, 300), (300, 1)])
def test_pages_have_all_letters_once_the_newest_first(
    client: Client, topics: tuple[str, str], size: int, most_examined: int
) -> None:
    _, bad = topics
    for partition, begin_ms in ((0, BEGIN_MS), (1, BEGIN_MS + 500)):
        write_letters(client, bad, [(None, b"v", ())] * 250, partition, begin_ms=begin_ms)
    found = list(pages(client, bad, ALL, size, most_examined))

    assert [each for page in found for each in page] == [
        BEGIN_MS + 500 * number for number in reversed(range(500))
    ]
    assert all(len(page) <= size for page in found)


def test_a_filtered_page_examines_no_more_than_it_may(
    client: Client, topics: tuple[str, str]
) -> None:
    _, bad = topics
    write_letters(client, bad, [(None, b"%d" % n, ()) for n in range(2_000)])
    wanted = Filter(offsets=frozenset({(0, 5)}))
    spans = spans_of(client, bad)
    page = read_page(client, spans, {}, wanted, 10, 400, never)

    assert (page.letters, page.is_last, 400 <= page.examined <= 600) == ([], False, True)
    assert list(pages(client, bad, wanted, 10, 400))[-1] == [BEGIN_MS + 5_000]
