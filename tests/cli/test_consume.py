"""`raftka consume` against three live nodes: several topics, from one time to another, and only the
records that are looked for.
"""

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from confluent_kafka import Producer

from raftka.cli.output import CommandFailed
from raftka.cli.records.consume import Filter, Printer
from raftka.client.blocking.reader import FetchedRecord
from raftka.cluster.processes import Processes
from tests.kit.checkout import FROM_CHECKOUT

HOUR_MS = 3_600_000
Record = tuple[str, int, dict[str, bytes]]  # value, timestamp, headers


def write(cluster: Processes, topic: str, records: Sequence[Record]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for value, timestamp, headers in records:
        producer.produce(
            topic, value, key=f"key-{value}", partition=0, timestamp=timestamp, headers=headers
        )
    assert producer.flush(30) == 0


@pytest.fixture
def filled(cluster: Processes, topic: str) -> tuple[str, int]:
    """A topic with a record an hour, the last one an hour ago; and the time of now, ms."""
    now = round(time.time() * 1000)
    records = [
        (f"order-{40 + i}", now - (6 - i) * HOUR_MS, {"trace": b"%d" % (i % 2), "n": b"x"})
        for i in range(6)
    ]
    write(cluster, topic, records)
    return topic, now


def values(raftka: Any, command: str) -> list[str]:
    done = raftka(command)
    assert done.code == 0, done.err
    return list(done.out.splitlines())


def test_records_from_one_time_to_another(raftka: Any, filled: tuple[str, int]) -> None:
    topic, now = filled
    three_ago = datetime.fromtimestamp((now - 3 * HOUR_MS + 60_000) / 1000).astimezone()

    assert values(raftka, f"consume {topic} --from 150m --to 90m") == ["order-44"]
    assert values(raftka, f"consume {topic} --from 270m --to 30m -n 2") == ["order-42", "order-43"]
    assert values(raftka, f"consume {topic} --to {three_ago.isoformat()}") == [
        f"order-{n}" for n in (40, 41, 42, 43)
    ]
    assert values(raftka, f"consume {topic} --from -2 --to end") == ["order-44", "order-45"]
    assert values(raftka, f"consume {topic} --from 1 --to 3") == ["order-41", "order-42"]
    assert values(raftka, f"consume {topic} --from 10m --to end") == []
    assert len(values(raftka, f"consume {topic} -e")) == 6


def test_records_that_are_looked_for(raftka: Any, filled: tuple[str, int]) -> None:
    topic, _ = filled

    assert values(raftka, f"consume {topic} --to end --grep order-4[13]") == [
        "order-41",
        "order-43",
    ]
    assert values(raftka, f"consume {topic} --to end --grep ^key-order-45$ --keys") == [
        "key-order-45\torder-45"
    ]
    assert values(raftka, f"consume {topic} --to end --header trace=1 -n 2") == [
        "order-41",
        "order-43",
    ]
    assert values(raftka, f"consume {topic} --to end --header n --header trace=0 --grep 44") == [
        "order-44"
    ]
    assert values(raftka, f"consume {topic} --to end --header nope") == []
    (row,) = raftka(f"consume {topic} --to end --grep 45 -o json").rows
    assert (row["value"], row["headers"]) == ("order-45", [["trace", "1"], ["n", "x"]])


def test_several_topics_are_read(raftka: Any, topic: str) -> None:
    other = f"{topic}.other"
    assert raftka(f"topics create {other} -p 2 -r 1").code == 0
    for name in (topic, other):
        assert raftka(f"produce {name}", f"{name}-1\n{name}-2\n").code == 0

    expected = sorted(f"{name}-{n}" for name in (topic, other) for n in (1, 2))
    assert sorted(values(raftka, f"consume {topic} {other} -e")) == expected
    assert sorted(values(raftka, f"consume --pattern {topic}.* -e")) == expected
    assert values(raftka, f"consume --pattern {topic}..ther -e -n 1") == [f"{other}-1"]
    rows = raftka(f"consume {topic} {other} --group both-{topic} --from start -e -o json").rows
    assert sorted(row["value"] for row in rows) == expected
    assert {row["topic"] for row in rows} == {topic, other}
    assert raftka(f"consume {topic} {other} --group both-{topic} -e").out == ""
    assert raftka(f"topics delete {other}").code == 0


def test_a_member_commits_what_it_has_looked_at(raftka: Any, filled: tuple[str, int]) -> None:
    topic, _ = filled
    group = f"looking-{topic}"
    command = f"consume {topic} --group {group} --from start -e --grep 45"

    assert values(raftka, command) == ["order-45"]
    assert values(raftka, command) == []
    (row,) = [row for row in raftka(f"offsets export {group} -o json").rows if row["offset"]]
    assert row["offset"] == 6


def test_a_time_to_come_is_waited_for(raftka: Any, cluster: Processes, topic: str) -> None:
    """Records that are older are printed as they come, and none behind them."""
    until = datetime.fromtimestamp(time.time() + 3).astimezone()
    command = [sys.executable, "-m", "raftka.cli", "consume", topic]
    environment = {**FROM_CHECKOUT, "RAFTKA_BOOTSTRAP_SERVER": cluster.bootstrap_servers}
    with subprocess.Popen(
        [*command, "--from", "start", "--to", until.isoformat()],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        write(cluster, topic, [("before", round(until.timestamp() * 1000) - 1, {})])
        assert process.stdout.readline() == "before\n"
        write(cluster, topic, [("behind", round(until.timestamp() * 1000), {})])
        assert process.stdout.read() == ""
        assert process.wait() == 0


def test_without_a_place_to_end_it_follows(raftka: Any, cluster: Processes, topic: str) -> None:
    assert raftka(f"produce {topic}", "one\n").code == 0
    command = [sys.executable, "-m", "raftka.cli", "consume", topic, "--from", "start", "--follow"]
    environment = {**FROM_CHECKOUT, "RAFTKA_BOOTSTRAP_SERVER": cluster.bootstrap_servers}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "one\n"
        assert raftka(f"produce {topic}", "two\n").code == 0
        assert process.stdout.readline() == "two\n"
        process.terminate()


WRONG = [  # options, with {} for a topic that is there; the text of the error
    ("", "name a topic, or give --pattern"),
    ("{} --from yesterday", "--from yesterday: it is start, end, an offset"),
    ("{} --to soon", "--to soon: it is end, an offset"),
    ("{} --to start", "--to start: it is end, an offset"),
    ("{} --to end -e", "either --to or --exit-at-end"),
    ("{} --to end --follow", "leave out --to"),
    ("{} -e --follow", "leave out --to"),
    ("{} -e --grep [", "--grep [: it is no regular expression"),
    ("{} -e --header =x", "--header =x: it is NAME=VALUE"),
    ("{} -e -p 9", "has no partition 9"),
    ("--pattern [", "--pattern [: it is no regular expression"),
    ("--pattern no.such.topic -e", "no topic matches --pattern no.such.topic"),
    ("{} --group g --to end", "--partition and --to are not allowed"),
    ("{} --group g --from 2h", "--from must be start or end"),
    ("{} nope -e", "nope: "),
    ("{} --from 1h --to 2h", "--to 2h is before --from 1h"),
]


def test_what_cannot_be_is_one_line(raftka: Any, topic: str) -> None:
    for options, said in WRONG:
        done = raftka(f"consume {options.format(topic)}")

        assert (done.code, done.out) == (1, ""), options
        assert said in done.err
        assert len(done.err.splitlines()) == 1


def test_records_that_were_lost_are_told_in_a_last_line(
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    Printer(keys=False, output="json").print_lost(3)
    out, err = capsysbinary.readouterr()
    assert out == b'{"left_out": {"lost": 3}}\n'
    assert err == b"raftka: 3 offsets were deleted before they were read\n"

    Printer(keys=False, output="table").print_lost(3)
    assert capsysbinary.readouterr()[0] == b"", "it would be taken for a record"


def record(
    value: bytes | None, key: bytes | None = None, *headers: tuple[str, bytes | None]
) -> FetchedRecord:
    return FetchedRecord("t", 0, 0, 0, key, value, list(headers))


def test_a_filter() -> None:
    assert Filter.of(None, ()).matches(record(None))
    assert Filter.of("b+", ()).matches(record(b"abbc"))
    assert Filter.of("b+", ()).matches(record(None, b"abc"))
    assert not Filter.of("b+", ()).matches(record(None))
    assert Filter.of("ü", ()).matches(record("für\n".encode()))
    assert Filter.of("a.b", ()).matches(record(b"a\xffb"))  # no text: a mark in its place
    assert Filter.of(None, ("a=", "b")).matches(record(b"", None, ("b", None), ("a", b"")))
    assert not Filter.of(None, ("a=1", "a=2")).matches(record(b"", None, ("a", b"1")))
    assert Filter.of(None, ("a=1", "a=2")).matches(record(b"", None, ("a", b"1"), ("a", b"2")))
    assert Filter.of(None, ("a=b=c",)).headers == (("a", "b=c"),)
    with pytest.raises(CommandFailed, match=re.escape("--grep (")):
        Filter.of("(", ())
