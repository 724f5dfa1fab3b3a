"""The harness' side of share consumers: several processes of them, which it kills and starts again
while faults go on. When all has healed they finish every record; then their story, the persisted
states and the logs are judged as those of simulated lives are (chaos/checks/shares.py).
"""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import trio

from raftka.chaos.checks.shares import Final, Promises, check_ends, check_story
from raftka.chaos.live.shares.consumers import Given
from raftka.chaos.live.shares.story_file import StoryFile, Told, load
from raftka.chaos.live.stage import Stage
from raftka.chaos.simulated.clients.client import Client, NoAnswer
from raftka.chaos.simulated.clients.share_states import StateReader, configure, letters_of
from raftka.cluster.ask import ClusterView, ask
from raftka.cluster.processes import SOURCES
from raftka.json_values import JsonObject
from raftka.runtime.real.runtime import open_runtime
from raftka.wire.errors import ProtocolError

NEMESIS = "kill-share-consumers"  # as faults are named
# Each reads all records. Members of killed processes stay until their session ends: so that a
# group has room for them, there are several.
GROUPS = ("sharers-a", "sharers-b", "sharers-c", "sharers-d")
PROCESSES = 4
DEAD_LETTERS = "dlq.chaos"
LETTER_PARTITIONS = 1
LIMIT, LOCK_MS = 5, 5000  # deliveries of a record
MARGIN_S = 0.2  # a busy broker sends an answer later than it acquires
KILL_EVERY_S, AWAY_S = (6.0, 12.0), (0.0, 2.0)
SAMPLE_S, ASK_S = 0.4, 1.0
DRAINED_S, LOOK_S = 240.0, 1.0
SETTINGS = {
    "group.share.max.size": "1000",
    "group.share.session.timeout.ms": "10000",
    "group.share.min.session.timeout.ms": "10000",
    "group.share.min.record.lock.duration.ms": str(LOCK_MS),
    "share.coordinator.state.topic.num.partitions": "4",
}
LOST_LETTERS = "share_dead_letters_lost"  # an event of a node's log


class Judged(NamedTuple):
    wrong: list[tuple[str, str]]  # kind and sentence
    figures: JsonObject


class _Leaders(threading.Thread):
    """Notes who leads each partition, as the newest of all brokers' views says."""

    def __init__(self, stage: Stage, topic: str, file: StoryFile) -> None:
        super().__init__(name="leaders", daemon=True)
        self._stage, self._topic, self._file = stage, topic, file
        self._over = threading.Event()

    def stop(self) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while not self._over.wait(SAMPLE_S):
            newest: dict[int, tuple[object, int]] = {}
            at = time.monotonic()
            for view in self._views():
                for each in view.of(self._topic):
                    if each.leader_epoch > newest.get(each.partition, (None, -1))[1]:
                        newest[each.partition] = (
                            view.brokers.get(each.leader, ("", 0)),
                            each.leader_epoch,
                        )
            if newest:
                self._file.write("leaders", round(at, 4), newest)

    def _views(self) -> list[ClusterView]:
        found = []
        for node_id in self._stage.alive:
            if node_id not in self._stage.stopped:
                try:
                    found.append(ask(self._stage.address(node_id), [self._topic], ASK_S))
                except (OSError, ProtocolError):
                    continue
        return found


class Crowd:
    """Entering the block starts the consumers; leaving it kills them."""

    def __init__(
        self, stage: Stage, folder: Path, topic: str, partitions: int, members: int, seed: int
    ) -> None:
        """`members`: of all groups together."""
        self.crashes = 0  # of consumers
        self._members = _shared_out(members)
        self._stage, self._folder = stage, folder
        self._topic, self._partitions = topic, partitions
        self._path = folder / "shares.jsonl"
        self._path.unlink(missing_ok=True)
        self._file = StoryFile(self._path)
        self._leaders = _Leaders(stage, topic, self._file)
        self._random = random.Random(f"{seed}/share consumers")
        self._processes: list[subprocess.Popen[str] | None] = [None] * PROCESSES
        self._started = 0
        self._kill_at = self._start_at = 0.0
        self._is_over = False

    def __enter__(self) -> "Crowd":
        trio.run(self._prepare)
        self._leaders.start()
        self._start_missing()
        self._kill_at = time.monotonic() + KILL_EVERY_S[1]
        return self

    def __exit__(self, *exception: object) -> None:
        for number in range(PROCESSES):
            self._kill(number)
        self._leaders.stop()
        self._file.close()

    async def _prepare(self) -> None:
        values = {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": str(LOCK_MS),
            "share.delivery.count.limit": str(LIMIT),
            "errors.deadletterqueue.topic.name": DEAD_LETTERS,
        }
        async with open_runtime() as runtime:
            client = Client(runtime, self._stage.addresses)
            configs = {"errors.deadletterqueue.group.enable": "true", "min.insync.replicas": "1"}
            await client.create_topic(DEAD_LETTERS, LETTER_PARTITIONS, 3, configs)
            for group in GROUPS:
                await configure(client, group, values)

    # processes

    def step(self) -> str:
        """Kill a process of consumers or start it again, if it is time; return what was done."""
        now = time.monotonic()
        if self._is_over:
            return ""
        if None in self._processes and now >= self._start_at:
            self._start_missing()
        elif now >= self._kill_at:
            self._kill_at = now + self._random.uniform(*KILL_EVERY_S)
            self._start_at = now + self._random.uniform(*AWAY_S)
            number = self._random.randrange(PROCESSES)
            self._kill(number)
            self.crashes += sum(self._members[number])
            return f"SIGKILL to {sum(self._members[number])} share consumers"
        return ""

    def _start_missing(self) -> None:
        for number, process in enumerate(self._processes):
            if process is None:
                self._started += 1
                self._processes[number] = self._start(f"p{self._started}", self._members[number])

    def _start(self, name: str, members: Sequence[int]) -> "subprocess.Popen[str]":
        given = Given(
            self._stage.addresses,
            self._topic,
            dict(zip(GROUPS, members, strict=True)),
            LOCK_MS,
            str(self._path),
            name,
        )
        with (self._folder / "share-consumers.log").open("ab") as errors:
            return subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "raftka.chaos.live.shares.consumers"),
                    json.dumps(asdict(given)),
                ],
                stdin=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(
                        [str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])]
                    ),
                },
                start_new_session=True,  # Ctrl-C is for the harness
            )

    def _kill(self, number: int) -> None:
        process = self._processes[number]
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
            self._processes[number] = None

    # the end

    def finish(self) -> list[str]:
        """All is healed, and no client writes any more: let consumers finish all records. Return
        what does not come to its end.
        """
        self._is_over = True
        self._start_missing()
        broken = []
        for process in self._processes:
            assert process is not None
            assert process.stdin is not None
            try:
                process.stdin.write("stop\n")
                process.stdin.flush()
            except BrokenPipeError:
                broken.append(f"a process of share consumers ended with {process.wait()}")
        if not trio.run(self._drain):
            broken.append(f"records are not finished {DRAINED_S:g} s after all was healed")
        return broken

    async def _drain(self) -> bool:
        async with open_runtime() as runtime:
            client = Client(runtime, self._stage.addresses)
            with trio.move_on_after(DRAINED_S):
                for group in GROUPS:
                    reader = StateReader(client, self._topic, group)
                    for partition in range(self._partitions):
                        await _wait_finished(reader, partition)
                return True
        return False

    def judge(self) -> Judged:
        """Compare the story of all consumers with the persisted states and the logs."""
        for number in range(PROCESSES):
            self._kill(number)
        found = trio.run(self._ends)
        told = load(self._path, self._topic)
        promises = Promises(LIMIT, LOCK_MS / 1000 - MARGIN_S)
        wrong: list[tuple[str, str]] = []
        for group in GROUPS:
            story, said, values = told.get(group, Told.new())
            finals = {place: each.final for place, each in found[group].items()}
            sentences = check_story(story, promises) + check_ends(story, promises, finals)
            sentences += [
                f"another record: {self._topic}-{partition} at {offset} is delivered with another "
                "value"
                for (_, partition), each in found[group].items()
                for offset, checksum in each.checksums.items()
                if values.get((partition, offset), {checksum}) != {checksum}
            ]
            wrong += [("share-member", f"{group}: {each}") for each in said]
            wrong += [(each.partition(":")[0], f"{group}: {each}") for each in sentences]
        return Judged(wrong, self._figures(told, found))

    def _figures(
        self, told: Mapping[str, Told], found: "Mapping[str, Mapping[tuple[str, int], _End]]"
    ) -> JsonObject:
        stories = [each.story for each in told.values()]
        deliveries: Counter[int] = Counter()
        for story in stories:
            for fetch in story.fetches:
                for each in fetch.acquired:
                    deliveries[each.delivery_count] += each.last + 1 - each.first
        return {
            "consumers": sum(map(sum, self._members)),
            "crashes": self.crashes,
            "fetches": sum(len(story.fetches) for story in stories),
            "known_leader": sum(
                fetch.term is not None for story in stories for fetch in story.fetches
            ),
            "acknowledgements": sum(len(story.acknowledgements) for story in stories),
            "records": sum(each.final.log_end for ends in found.values() for each in ends.values()),
            "deliveries": sum(deliveries.values()),
            "highest_count": max(deliveries, default=0),
            "dead_letters": sum(
                len(each.final.letters or ()) for ends in found.values() for each in ends.values()
            ),
        }

    async def _ends(self) -> "dict[str, dict[tuple[str, int], _End]]":
        found: dict[str, dict[tuple[str, int], _End]] = {}
        lost = self._letters_lost()
        async with open_runtime() as runtime:
            client = Client(runtime, self._stage.addresses)
            for group in GROUPS:
                reader = StateReader(client, self._topic, group)
                letters = await letters_of(client, DEAD_LETTERS, LETTER_PARTITIONS, group)
                ends = found[group] = {}
                for partition in range(self._partitions):
                    epoch = (await client.leader(self._topic, partition)).epoch
                    state, records = await reader.final(partition, epoch)
                    final = Final(
                        state, len(records), True, frozenset(letters[partition]), lost[group]
                    )
                    checksums = {offset: crc32(value) for offset, value in records}
                    ends[self._topic, partition] = _End(final, checksums)
        return found

    def _letters_lost(self) -> Counter[str]:
        """Return the number of records that brokers have archived without a letter, by group."""
        lost: Counter[str] = Counter()
        logs = [node.plan.log_file for node in self._stage.nodes.values()]
        for log in logs:
            for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
                if LOST_LETTERS in line:
                    event = json.loads(line)
                    lost[event["group"]] += event["records"]
        return lost


def _shared_out(members: int) -> list[list[int]]:
    """Return how many members of each group each process has."""
    cells = PROCESSES * len(GROUPS)
    return [
        [(members + process * len(GROUPS) + group) // cells for group in range(len(GROUPS))]
        for process in range(PROCESSES)
    ]


class _End(NamedTuple):
    final: Final
    checksums: Mapping[int, int]  # of values, by offset


async def _wait_finished(reader: StateReader, partition: int) -> None:
    while True:
        try:
            if await reader.is_finished(partition, 0):
                return
        except NoAnswer:
            pass
        await trio.sleep(LOOK_S)
