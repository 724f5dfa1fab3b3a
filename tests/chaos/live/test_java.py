"""Java's verifiable clients: what they print becomes operations, and a round in which they work,
where java is.
"""

import os
import select
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event as Flag

import pytest

from raftka.chaos.history import (
    COMMIT,
    FAIL,
    FETCH_OFFSET,
    INFO,
    OK,
    POLL,
    PRODUCE,
    History,
    Operation,
    load,
)
from raftka.chaos.live.clients import java
from raftka.chaos.live.clients.bootstrap import Bootstrap
from raftka.chaos.live.clients.java_roles import AHEAD_S, KEYS, MARGIN, Polls, Sends
from raftka.chaos.live.clients.roles import Task
from raftka.chaos.live.clients.workers import clients_here, missing
from raftka.chaos.live.recorder import Recorder
from raftka.chaos.live.run import Options, live
from raftka.chaos.verdict import Outcome
from raftka.cluster.secured.keys import ClientFiles

PER_S = 20
PREFIX = 7

# As Kafka 4.3.1's print them.
WALL_S = 1_795_296_000
STARTED = b'{"timestamp":%d,"name":"startup_complete"}' % (WALL_S * 1000)
SENT = (
    b'{"timestamp":1795296000000,"name":"producer_send_success","key":"%d","value":"7.%d",'
    b'"topic":"t","partition":%d,"offset":%d}'
)
NOT_SENT = (
    b'{"timestamp":1795296000000,"name":"producer_send_error","key":"1","value":"7.1","topic":"t",'
    b'"exception":"class org.apache.kafka.common.errors.TimeoutException","message":"Expiring 1 '
    b'record(s) for t-3:60000 ms has passed"}'
)
SUMMED = (
    b'{"timestamp":1795296000000,"name":"tool_data","sent":%d,"acked":3,"target_throughput":20,'
    b'"avg_throughput":12.5}'
)
CONSUMED = [
    STARTED,
    b'{"timestamp":1795296000000,"name":"partitions_assigned","partitions":[{"topic":"t",'
    b'"partition":0},{"topic":"t","partition":3}]}',
    b'{"timestamp":1795296000000,"name":"record_data","key":"0","value":"7.0","topic":"t",'
    b'"partition":0,"offset":4}',
    b'{"timestamp":1795296000000,"name":"record_data","key":null,"value":"12 '
    b'xxxx","topic":"t","partition":0,"offset":5}',
    b'{"timestamp":1795296000000,"name":"record_data","key":"1","value":"7.1","topic":"t",'
    b'"partition":3,"offset":0}',
    b'{"timestamp":1795296000000,"name":"records_consumed","count":3,"partitions":'
    b'[{"topic":"t","partition":0,"count":2,"minOffset":4,"maxOffset":5},{"topic":"t",'
    b'"partition":3,"count":1,"minOffset":0,"maxOffset":0}]}',
]
COMMITTED = (
    b'{"timestamp":1795296000000,"name":"offsets_committed","offsets":[{"topic":"t","partition":0,'
    b'"offset":6},'
    b'{"topic":"t","partition":3,"offset":1}],"success":true}'
)
REFUSED = COMMITTED.replace(
    b'"success":true', b'"error":"the group is rebalancing","success":false'
)
# of four, by key: there it has put them
PLACES = {str(number): partition for number, partition in enumerate((0, 3, 0, 3, 1, 2, 2, 3))}


class Stand:
    """A task whose history can be read at any time."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "history.jsonl"
        self.task = Task(Bootstrap(""), "t", 4, PER_S, Recorder(self.path, 0.0, 1), Flag())

    @property
    def history(self) -> History:
        with self.path.open(encoding="utf-8") as lines:
            return load(lines)

    def produced(self) -> dict[object, Operation]:
        return {each.sends[0][1]: each for each in self.history.operations if each.verb == PRODUCE}


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    return Stand(tmp_path)


def events(*lines: bytes) -> Iterator[java.Event]:
    for line in lines:
        event = java.event_of(line)
        assert event is not None
        yield event


def hear(sends: Sends, *lines: bytes, started_at: float = 100.0) -> None:
    for event in events(*lines):
        sends.heard(event, WALL_S - started_at)


def value(number: int) -> str:
    return repr(f"{PREFIX}.{number}".encode())  # as all other clients read it


def test_possible_records_are_written_down_before_they_are_sent(stand: Stand) -> None:
    sends = Sends(stand.task, PREFIX, PER_S, 100.0)
    sends.announce(100.0)
    hear(sends, STARTED, SENT % (0, 0, PLACES["0"], 11))
    sends.announce(102.0)
    hear(sends, SUMMED % 2)
    sends.over()

    found = stand.produced()

    assert list(found) == [value(number) for number in range(int(PER_S * (2 + AHEAD_S)) + MARGIN)]
    assert (found[value(0)].outcome, found[value(0)].sends) == (
        OK,
        [[f"t-{PLACES['0']}", value(0), 11]],
    )
    assert found[value(1)].outcome == INFO  # sent, and never said
    assert {found[value(number)].outcome for number in range(2, len(found))} == {FAIL}
    assert {each.producer for each in found.values()} == {f"java-{PREFIX}"}


def test_a_record_belongs_where_its_key_says(stand: Stand) -> None:
    sends = Sends(stand.task, PREFIX, PER_S, 100.0)
    sends.announce(105.0)
    sends.over()

    found = stand.produced()

    for number in (*range(8), *range(KEYS, KEYS + 8)):
        assert found[value(number)].sends[0][0] == f"t-{PLACES[str(number % KEYS)]}"


def test_a_record_sent_before_it_was_written_down_has_an_unknown_result(stand: Stand) -> None:
    """The writer of the history stood still: an order that it tells would be wrong."""
    sends = Sends(stand.task, PREFIX, PER_S, 100.0)
    sends.announce(100.0)
    on_time = len(stand.produced())
    hear(sends, STARTED)
    sends.announce(110.0)
    hear(sends, SENT % (0, 0, 0, 1), SENT % (on_time, on_time, 0, 2), SENT % (8, 400, 0, 3))
    sends.over()

    found = stand.produced()

    assert found[value(0)].outcome == OK
    assert {found[value(number)].error for number in (on_time, 400)} == {
        "sent before it was written down"
    }
    assert found[value(on_time)].sends[0][2] is None


def test_records_sent_before_the_start_event_count_from_the_start(stand: Stand) -> None:
    """On a busy machine that is seconds later: what is written down after it was sent would lie
    before what was acknowledged meanwhile.
    """
    sends = Sends(stand.task, PREFIX, PER_S, 100.0)
    hear(sends, STARTED, started_at=101.0)  # at 104
    sends.announce(104.0)

    assert len(stand.produced()) > PER_S * (104.0 + AHEAD_S - 101.0)


def test_a_send_that_failed_ends_the_producer(stand: Stand) -> None:
    sends = Sends(stand.task, PREFIX, PER_S, 100.0)
    sends.announce(100.0)
    hear(sends, STARTED, SENT % (0, 0, PLACES["0"], 11))
    assert not sends.failed
    hear(sends, NOT_SENT)
    sends.over()  # killed: it said no sum

    found = stand.produced()

    assert sends.failed
    assert found[value(1)].outcome == INFO
    assert "TimeoutException: Expiring" in found[value(1)].error
    assert {found[value(number)].outcome for number in range(1, len(found))} == {INFO}


def test_polls_and_commits(stand: Stand) -> None:
    polls = Polls(stand.task, "g")
    for event in events(*CONSUMED, COMMITTED):
        polls.heard(event)
    polls.over()

    subscribed, poll, commit = stand.history.operations

    assert poll.verb == POLL
    assert poll.polled == {"t-0": [[4, value(0)], [5, 12]], "t-3": [[0, value(1)]]}
    assert poll.rebalanced == ["t-0", "t-3"]
    assert (commit.verb, commit.outcome, commit.group, commit.offsets) == (
        COMMIT,
        OK,
        "g",
        {"t-0": 6, "t-3": 1},
    )
    assert subscribed.process == commit.process
    assert polls.next == {0: 6, 1: 0, 2: 0, 3: 1}


@pytest.mark.parametrize(
    ("lines", "error"), [([REFUSED], "the group is rebalancing"), ([], "the client never said")]
)
def test_a_commit_without_a_good_end_may_have_happened(
    stand: Stand, lines: list[bytes], error: str
) -> None:
    polls = Polls(stand.task, "g")
    for event in events(*CONSUMED, *lines):
        polls.heard(event)
    polls.over()

    commit = next(each for each in stand.history.operations if each.verb == COMMIT)

    assert (commit.outcome, commit.error) == (INFO, error)


def test_a_commit_has_an_unknown_result_when_its_member_polls_again(stand: Stand) -> None:
    """The tool said nothing of a commit that was under way when its coordinator was paused (seed
    551 with five nodes), and went on.
    """
    polls = Polls(stand.task, "g")
    for event in events(*CONSUMED, *CONSUMED, COMMITTED):
        polls.heard(event)

    _, poll, untold, _, again, commit = stand.history.operations

    assert (untold.verb, untold.outcome, untold.error) == (COMMIT, INFO, "the client never said")
    assert (again.verb, commit.verb, commit.outcome) == (POLL, COMMIT, OK)
    assert poll.process == untold.process != again.process == commit.process


@pytest.mark.parametrize(
    "line",
    [b"", b"[2026-11-21] WARN no leader (o.a.k.clients.NetworkClient)", b"17", b'{"level":"WARN"}'],
)
def test_log_lines_are_not_events(line: bytes) -> None:
    assert java.event_of(line) is None


def test_a_missing_tool_is_reported_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, old, program = tmp_path / "empty", tmp_path / "old", tmp_path / "bin" / "java"
    for folder in (empty, old, program.parent):
        folder.mkdir()
    (old / "kafka-tools-3.9.0.jar").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    java.find.cache_clear()
    assert missing("")[java.NAME] == f"there is no java in {tmp_path}"
    program.write_text("#!/bin/sh\necho openjdk 21.0.1 2023-10-17\n")
    program.chmod(0o755)

    assert f"no jars of Kafka 4.2 or newer in {empty}" in missing(str(empty))[java.NAME]
    assert f"no jars of Kafka 4.2 or newer in {old}" in missing(str(old))[java.NAME]
    assert java.NAME not in clients_here(str(old))
    (empty / "libs").mkdir()
    (empty / "libs" / "kafka-tools-4.3.1.jar").touch()
    assert java.find(str(empty)) == java.Kafka(str(program), empty / "libs")
    assert clients_here(str(empty))[-1] == java.NAME
    java.find.cache_clear()


def test_a_tool_gets_its_settings_tells_its_lines_and_is_killed() -> None:
    with java.Tool(
        ["sh", "-c", 'cat /dev/stdin; echo \'{"name":"pid","pid":\'$$\'}\'; exec sleep 1000'],
        '{"name":"settings"}\n',
    ) as tool:
        heard: list[java.Event] = []
        while len(heard) < 2:
            heard += tool.events(1.0)
        assert not tool.ended
        tool.kill()
        while not tool.ended:
            heard += tool.events(1.0)

    assert heard == [{"name": "settings"}, {"name": "pid", "pid": tool.pid}]
    assert not Path(f"/proc/{tool.pid}").exists()


def test_tools_come_in_as_the_user_of_the_keys(tmp_path: Path) -> None:
    program = tmp_path / "java"
    program.write_text('#!/bin/sh\nexec sed \'s/.*/{"name":"&"}/\'\n')
    program.chmod(0o755)
    files = ClientFiles("admin", tmp_path)
    heard: set[str] = set()
    with java.Kafka(str(program), tmp_path).producer(Bootstrap("h:1", files), "t", 1, 1, 1) as tool:
        while not tool.ended:
            heard |= {event["name"] for event in tool.events(1.0)}

    assert heard >= {f"{name}={value}" for name, value in files.java().items()} | {
        "enable.idempotence=true"
    }


def test_a_tool_ends_with_its_parent() -> None:
    code = (
        "from raftka.chaos.live.clients.java import Tool; tool = Tool(['sleep', '1000'], ''); "
        "print(tool.pid, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        tool = os.pidfd_open(int(starter.stdout.readline()))
        starter.kill()
    assert select.select([tool], [], [], 20.0)[0]
    os.close(tool)


def test_a_round_with_javas_clients(tmp_path: Path) -> None:
    java.find.cache_clear()
    try:
        kafka = java.find()
    except java.Missing as why:
        pytest.skip(str(why))
    home = tmp_path / "kafka"  # so that its processes are known by it
    home.symlink_to(kafka.jars)

    quick = {"group.initial.rebalance.delay.ms": "0"}
    options = Options(
        0.05,
        nemesis=("elections",),
        clients=(java.NAME,),
        partitions=2,
        settings=quick,
        kafka_home=str(home),
    )
    run = live(options, tmp_path)

    assert run.verdict.outcome is Outcome.VALID, run.verdict
    assert run.figures["troubles"] == []
    assert run.options.command.endswith(f"--seed 1 --kafka-home {home}")
    with (tmp_path / "history.jsonl").open(encoding="utf-8") as lines:
        operations = load(lines).operations
    by_java = {
        each.sends[0][1]
        for each in operations
        if each.producer.startswith(java.NAME) and each.outcome == OK
    }
    read: defaultdict[int, set[object]] = defaultdict(set)
    for each in operations:
        for records in each.polled.values():
            read[each.process] |= {record[1] for record in records}
    assert by_java
    assert any(by_java <= values for values in read.values())  # in the end
    assert any(each.verb == COMMIT and each.group.startswith(java.NAME) for each in operations)
    # its members are gone
    assert any(each.verb == FETCH_OFFSET and each.outcome == OK for each in operations)
    assert not [each for each in commands() if str(home) in each]


def commands() -> Iterator[str]:
    """Of all processes."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield each.read_text(encoding="utf-8", errors="replace")
