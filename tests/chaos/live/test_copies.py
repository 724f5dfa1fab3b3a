"""The judge of the transactions of a live round: logs as brokers leave them, lines as workers write
them; and the workers that write them.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from raftka.chaos.checks.transactions import Attempt, Result
from raftka.chaos.live.clients import copying
from raftka.chaos.live.clients.bootstrap import Bootstrap
from raftka.chaos.live.clients.clients import Record
from raftka.chaos.live.clients.copying import Copying, Ledger
from raftka.chaos.live.clients.roles import Task
from raftka.chaos.live.copies import Judged, judge, load
from raftka.chaos.live.recorder import Recorder
from raftka.log.config import LogConfig
from raftka.log.log import Log
from raftka.runtime.real.files import RealFiles
from raftka.wire.records import build_batch
from tests.log.given import NOW, append, end_transaction, in_transaction

CLIENT, SOURCE, TARGET = "library", "in", "out"
PARTITIONS, PRODUCER = 2, 7


class Story:
    """Transactions of one client: each copies the next two inputs of partition 0, one to each
    partition of the topic.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = Ledger(folder / "transactions.jsonl")
        self.files = RealFiles(lambda action: action())
        self.node = folder / "node-1"
        self.sequences = [0] * PARTITIONS
        self.number = self.copied = 0
        self.logs = [self._log(partition) for partition in range(PARTITIONS)]

    def _log(self, partition: int) -> Log:
        path = self.node / f"{TARGET}-{partition}"
        path.mkdir(parents=True)
        return Log.open(self.files, str(path), LogConfig(), NOW, clean_shutdown=False)

    def copy(
        self,
        *,
        commits: bool = True,
        told: Result | None = Result.COMMITTED,
        fenced: bool = False,
        torn: bool = False,
        ends: bool = True,
        offset: int | None = None,
        counts: bool | None = None,
    ) -> None:
        """`told`: what the client wrote down; `counts`: whether the inputs are done with."""
        number, self.number = self.number, self.number + 1
        first = self.copied if offset is None else offset
        attempt = Attempt(number, CLIENT, (SOURCE, 0))
        values = [attempt.value(first + partition, 5) for partition in range(PARTITIONS)]
        self.ledger.write(
            who=CLIENT,
            number=number,
            sent=[[partition, value.decode()] for partition, value in enumerate(values)],
        )
        for partition, value in enumerate(values):
            producer = {
                "producer_id": PRODUCER,
                "producer_epoch": 0,
                "base_sequence": self.sequences[partition],
            }
            in_transaction(
                self.logs[partition],
                memoryview(build_batch([(None, value, (), NOW)], transactional=True, **producer)),
            )
            self.sequences[partition] += 1
            if ends:
                end_transaction(
                    self.logs[partition], PRODUCER, commit=commits and not (torn and partition)
                )
        if told is not None:
            self.ledger.write(number=number, result=told.name, fenced=fenced)
        if commits if counts is None else counts:
            self.copied = max(self.copied, first + PARTITIONS)

    def reads(self, *rows: tuple[int, int, bytes], everything: bool = False) -> None:
        read = [[partition, offset, value.decode()] for partition, offset, value in rows]
        self.ledger.write(reader="reader", client=CLIENT, read=read, everything=everything)

    def value(self, number: int, offset: int) -> bytes:
        return Attempt(number, CLIENT, (SOURCE, 0)).value(offset, 5)

    def judged(self, committed: int | None = None) -> Judged:
        self.ledger.write(
            who=CLIENT, committed={0: self.copied if committed is None else committed}
        )
        for log in self.logs:
            log.close(clean=True)
        with (self.folder / "transactions.jsonl").open(encoding="utf-8") as lines:
            written = load(lines, SOURCE, {CLIENT: TARGET})[CLIENT]
        return judge(written, TARGET, PARTITIONS, [self.node, self.folder / "node-2"])


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    story = Story(tmp_path)
    yield story
    story.files.stop()


def test_a_sound_story_is_let_pass(story: Story) -> None:
    story.copy()
    story.copy(commits=False, told=None)
    story.copy(commits=False, told=Result.UNKNOWN)
    story.copy(told=Result.UNKNOWN)
    story.copy(commits=False, told=Result.UNKNOWN, fenced=True)
    story.reads((0, 0, story.value(0, 0)), (1, 0, story.value(0, 1)))
    story.reads((0, 6, story.value(3, 2)), (1, 6, story.value(3, 3)), everything=True)

    found = story.judged()

    assert found.wrong == []
    assert dict(found.results) == {"committed": 1, "aborted": 1, "unknown": 3}
    assert found.copied == 4


@pytest.mark.parametrize(
    ("plant", "word"),
    [
        (lambda story: story.copy(commits=False, counts=True), "commit-lost"),
        (lambda story: story.copy(told=None), "dirty"),
        (lambda story: story.copy(torn=True), "torn"),
        (lambda story: story.copy(fenced=True), "zombie"),
        (lambda story: story.copy(ends=False, told=None, commits=False), "hanging"),
        (lambda story: story.copy(offset=0), "not exactly once"),
        (lambda story: story.reads((0, 2, story.value(1, 2)), everything=False), "dirty read"),
        (lambda story: story.reads((1, 0, story.value(0, 1)), everything=True), "lost read"),
        (lambda story: story.reads((0, 0, story.value(5, 5))), "another read"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_is_wrong_is_found(story: Story, plant: Callable[[Story], None], word: str) -> None:
    story.copy()
    story.copy(commits=False, told=None)
    plant(story)

    assert word in {each.partition(":")[0] for each in story.judged().wrong}


def test_an_input_below_the_committed_offset_that_is_not_there_is_found(story: Story) -> None:
    story.copy()

    assert any("not there" in each for each in story.judged(committed=5).wrong)


def test_an_index_that_lacks_an_aborted_transaction_is_found_and_a_missing_one_is_not(
    story: Story,
) -> None:
    story.copy(commits=False, told=None)
    story.copy()
    first, second = [
        story.node / f"{TARGET}-{partition}" / "00000000000000000000.txnindex"
        for partition in range(PARTITIONS)
    ]
    assert story.judged().wrong == []

    second.unlink()
    assert story.judged().wrong == []
    first.write_bytes(b"")
    assert [each.partition(":")[0] for each in story.judged().wrong] == ["aborted transactions"]


def test_copies_of_a_tool_that_writes_nothing_down_are_told_apart_by_their_inputs(
    story: Story,
) -> None:
    (story.node / f"{SOURCE}-0").mkdir()
    source = Log.open(
        story.files, str(story.node / f"{SOURCE}-0"), LogConfig(), NOW, clean_shutdown=False
    )
    append(source, memoryview(build_batch([(None, b"%d" % each, (), NOW) for each in range(3)])))
    source.close(clean=True)
    for sequence, value in enumerate((b"0", b"1", b"1", b"other")):
        producer = {"producer_id": PRODUCER, "producer_epoch": 0, "base_sequence": sequence}
        in_transaction(
            story.logs[0],
            memoryview(build_batch([(None, value, (), NOW)], transactional=True, **producer)),
        )
    end_transaction(story.logs[0], PRODUCER, commit=True)
    story.ledger.write(who=CLIENT, committed={0: 3})
    story.logs[0].close(clean=True)
    with (story.folder / "transactions.jsonl").open(encoding="utf-8") as lines:
        written = load(lines, SOURCE, {CLIENT: TARGET})[CLIENT]

    wrong = judge(written, TARGET, 1, [story.node], SOURCE).wrong

    assert [each.removeprefix("not exactly once: ") for each in wrong] == [
        "[1] of in-0 in out: there twice (committed is 3)",
        "[2] of in-0 in out: not there (committed is 3)",
        "[1000000000000000] of in-0 in out: there, and its offset is not committed (committed is "
        "3)",
    ]


# the worker


class Library:
    """A client of one transactional id, as the broker sees it; `fails`: calls that raise, by
    name.
    """

    def __init__(self, fails: Sequence[str], over: threading.Event, calls: list[str]) -> None:
        self.fails, self.over, self.calls = fails, over, calls
        self.polls = 0

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if len(self.calls) > 60:
            self.over.set()
        if name in self.fails:
            raise RuntimeError(name)

    def begin(self) -> dict[int, int]:
        self._call("begin")
        return {0: 0, 1: 0}

    def poll(self) -> Sequence[Record]:
        self.polls += 1
        return [(0, self.polls, b"x"), (1, self.polls, b"y")]

    def write(self, values: Sequence[tuple[int, bytes]], offsets: dict[int, int]) -> None:
        assert len(values) == 2
        assert offsets == {0: self.polls + 1, 1: self.polls + 1}
        self._call("write")

    def commit(self) -> None:
        self._call("commit")

    def abort(self) -> None:
        self._call("abort")

    def close(self) -> None:
        self._call("close")


def copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *fails: str
) -> tuple[list[str], list[dict[str, Any]]]:
    """The calls that a worker makes, and the lines that it writes."""
    over, calls = threading.Event(), list[str]()
    monkeypatch.setattr(copying, "PAUSE_S", 0.0)
    monkeypatch.setattr(copying, "AGAIN_S", 0.0)
    monkeypatch.setattr(copying, "LEFT", 0.2)
    monkeypatch.setattr(
        copying, "COPIERS", {CLIENT: (lambda *_: Library(fails, over, calls), None)}
    )
    task = Task(
        Bootstrap(""), SOURCE, PARTITIONS, 1.0, Recorder(tmp_path / "history.jsonl", 0.0, 1), over
    )
    Copying(task, CLIENT, 3, 1, Ledger(tmp_path / "transactions.jsonl")).run()
    return calls, [
        json.loads(line) for line in (tmp_path / "transactions.jsonl").read_text().splitlines()
    ]


def test_a_worker_commits_aborts_and_leaves_transactions_and_its_zombies_come_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, lines = copied(tmp_path, monkeypatch)

    assert {"commit", "abort", "close"} <= set(calls)
    zombies = [line["result"] for line in lines if line.get("fenced")]
    assert zombies
    assert set(zombies) == {"UNKNOWN", "COMMITTED"}, (
        "this library lets it through, and the judge is to hear that"
    )
    sent = [line["number"] for line in lines if "sent" in line]
    assert len(set(sent)) == len(sent) == calls.count("write")


@pytest.mark.parametrize(
    ("fails", "results"), [("commit", {"UNKNOWN"}), ("write", set()), ("begin", set())]
)
def test_what_is_known_of_a_transaction_whose_client_fails(
    tmp_path: Path, fails: str, results: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it asks for a commit nothing of it may be there; behind it everything or nothing."""
    calls, lines = copied(tmp_path, monkeypatch, fails)

    assert calls.count("begin") > 5, "no new client takes over"
    assert {line["result"] for line in lines if "result" in line} == results
