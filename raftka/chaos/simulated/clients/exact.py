"""Questions to which there is one right answer: where records that were read are found by their
time, in which leader epoch they were written, where that epoch ends, and what is out of range.

Only of a partition from which nothing is deleted, read from its beginning: what was committed once
stays, so every leader must say the same.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from random import Random
from typing import Any, NamedTuple

from raftka.chaos.simulated.clients.client import FETCH_BYTES, PASSES, Batch, Leader, batches_of
from raftka.wire.errors import Code
from raftka.wire.messages.epochs import OFFSET_FOR_LEADER_EPOCH, EpochEndOffset
from raftka.wire.messages.fetch import FETCH, PartitionData
from raftka.wire.messages.list_offsets import (
    EARLIEST,
    LIST_OFFSETS,
    MAX_TIMESTAMP,
    ListOffsetsPartitionResponse,
)
from raftka.wire.schema import AnyApi

FAR = 1_000_000  # offsets: no log of a life is so long
READ_BYTES = (1, 300, FETCH_BYTES)


class Known:
    """Committed records, from offset 0 on without a gap."""

    def __init__(self) -> None:
        self.times: list[int] = []  # ms
        self.epochs: list[int] = []
        self._largest: list[int] = []  # timestamp up to there

    def __len__(self) -> int:
        return len(self.times)

    def learn(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            for (offset, _), time in zip(batch.records, batch.times, strict=True):
                if offset == len(self.times):
                    self.times.append(time)
                    self.epochs.append(batch.epoch)
                    self._largest.append(max(time, self._largest[-1] if self._largest else time))

    def first_since(self, timestamp: int) -> int:
        """The first that is not older; the number of records when there is none."""
        return bisect_left(self._largest, timestamp)

    @property
    def largest_time(self) -> int:
        return self._largest[-1]

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The largest epoch <= that one that wrote a record, -1 if none did, and where it ends; the
        number of records: nobody knows yet.
        """
        end = bisect_right(self.epochs, epoch)
        return (self.epochs[end - 1] if end else -1), end


class Question(NamedTuple):
    api: AnyApi
    row: Any
    what: str
    offset: int  # which the answer is about


class Examiner:
    """Asks of one partition. `wrong` is not empty any more once an answer was wrong."""

    def __init__(self, topic: str, partition: int, random: Random) -> None:
        self.known = Known()
        self.wrong: list[str] = []
        self._topic, self._partition, self._random = topic, partition, random

    def question(self, leader: Leader) -> Question:
        by_time = (self._time, self._time, self._largest, self._start)
        in_the_log = (self._outside, self._read, self._read, self._parted)
        return self._random.choice((*by_time, *in_the_log, self._epoch_end))(leader.epoch)

    def answered(self, question: Question, answer: Any, epoch: int) -> Code:
        """Judge an answer; errors that pass are not judged."""
        code = Code(answer.error_code)
        expected = Code.OFFSET_OUT_OF_RANGE if question.what == "outside" else Code.NONE
        if code is not expected:
            if code not in PASSES:
                self._say(question, epoch, f"{code.name}, not {expected.name}")
            return code
        if expected is Code.NONE:
            getattr(self, f"_told_{question.what}")(question, answer, epoch)
        return code

    def _say(self, question: Question, epoch: int, what: str) -> None:
        self.wrong.append(
            f"{self._topic}-{self._partition} in epoch {epoch}, asked for {question.what} at "
            f"{question.offset}: {what}"
        )

    # by time

    def _listed(self, what: str, epoch: int, timestamp: int, offset: int) -> Question:
        request = LIST_OFFSETS.request
        asked = request.topics.partitions(
            partition_index=self._partition, current_leader_epoch=epoch, timestamp=timestamp
        )
        return Question(
            LIST_OFFSETS,
            request(topics=[request.topics(name=self._topic, partitions=[asked])]),
            what,
            offset,
        )

    def _time(self, epoch: int) -> Question:
        timestamp = self._random.choice(self.known.times[-400:]) + self._random.choice(
            (0, 0, 1, -1)
        )
        return self._listed("time", epoch, timestamp, self.known.first_since(timestamp))

    def _told_time(
        self, question: Question, answer: ListOffsetsPartitionResponse, epoch: int
    ) -> None:
        known, there = self.known, question.offset
        if there == len(known):
            if answer.offset != -1 and answer.offset < there:
                self._say(question, epoch, f"{answer.offset}, before it all are older")
        elif (answer.offset, answer.timestamp, answer.leader_epoch) != (
            there,
            known.times[there],
            known.epochs[there],
        ):
            told = f"{answer.offset} with {answer.timestamp} of epoch {answer.leader_epoch}"
            self._say(
                question, epoch, f"{told}, not {known.times[there]} of epoch {known.epochs[there]}"
            )

    def _largest(self, epoch: int) -> Question:
        return self._listed(
            "largest", epoch, MAX_TIMESTAMP, self.known.first_since(self.known.largest_time)
        )

    def _told_largest(
        self, question: Question, answer: ListOffsetsPartitionResponse, epoch: int
    ) -> None:
        known = self.known.largest_time
        if answer.offset == -1:
            return  # the largest is not committed yet: then it tells of none, as Kafka
        if answer.timestamp < known or (answer.timestamp == known) != (
            answer.offset == question.offset
        ):
            self._say(question, epoch, f"{answer.offset} with {answer.timestamp}, {known} is there")

    def _start(self, epoch: int) -> Question:
        return self._listed("start", epoch, EARLIEST, 0)

    def _told_start(
        self, question: Question, answer: ListOffsetsPartitionResponse, epoch: int
    ) -> None:
        if (answer.offset, answer.leader_epoch) != (0, self.known.epochs[0]):
            self._say(
                question,
                epoch,
                f"{answer.offset} of epoch {answer.leader_epoch}, written in "
                f"{self.known.epochs[0]}",
            )

    # leader epochs

    def _some_epoch(self) -> int:
        return self._random.choice(sorted(set(self.known.epochs)))

    def _epoch_end(self, epoch: int) -> Question:
        request = OFFSET_FOR_LEADER_EPOCH.request
        asked_epoch = self._some_epoch() + self._random.choice((0, 0, 1))
        asked = request.topics.partitions(
            partition=self._partition, current_leader_epoch=epoch, leader_epoch=asked_epoch
        )
        row = request(replica_id=-1, topics=[request.topics(topic=self._topic, partitions=[asked])])
        return Question(OFFSET_FOR_LEADER_EPOCH, row, "epoch_end", asked_epoch)

    def _told_epoch_end(self, question: Question, answer: EpochEndOffset, epoch: int) -> None:
        there, end = self.known.end_of(question.offset)
        told = answer.leader_epoch, answer.end_offset
        if end < len(self.known):
            if told != (there, end):
                self._say(
                    question, epoch, f"epoch {told[0]} ends at {told[1]}, {there} ends at {end}"
                )
        elif told != (-1, -1) and told[1] < end:
            self._say(
                question,
                epoch,
                f"epoch {told[0]} ends at {told[1]}, {end} records of it or before it were read",
            )

    # reading

    def _fetched(
        self, what: str, epoch: int, offset: int, last_epoch: int = -1, max_bytes: int = FETCH_BYTES
    ) -> Question:
        request = FETCH.request
        asked = request.topics.partitions(
            partition=self._partition,
            fetch_offset=offset,
            current_leader_epoch=epoch,
            last_fetched_epoch=last_epoch,
            partition_max_bytes=max_bytes,
        )
        return Question(
            FETCH,
            request(
                max_wait_ms=0,
                min_bytes=1,
                topics=[request.topics(topic=self._topic, partitions=[asked])],
            ),
            what,
            offset,
        )

    def _outside(self, epoch: int) -> Question:
        return self._fetched("outside", epoch, self._random.choice((-1, len(self.known) + FAR)))

    def _read(self, epoch: int) -> Question:
        return self._fetched(
            "read",
            epoch,
            self._random.randrange(len(self.known)),
            max_bytes=self._random.choice(READ_BYTES),
        )

    def _told_read(self, question: Question, answer: PartitionData, epoch: int) -> None:
        known, offset = self.known, question.offset
        if answer.high_watermark <= offset:
            return  # a new leader has not heard yet that it is committed
        batches = list(batches_of(answer, offset))
        if not batches or not batches[0].records or batches[0].records[0][0] != offset:
            self._say(
                question, epoch, f"it gives {batches[0].records[:1] if batches else 'nothing'}"
            )
        for batch in batches:
            for (at, _), time in zip(batch.records, batch.times, strict=True):
                if at < len(known) and (time, batch.epoch) != (known.times[at], known.epochs[at]):
                    self._say(
                        question,
                        epoch,
                        f"{at} has {time} of epoch {batch.epoch}, before {known.times[at]} of "
                        f"{known.epochs[at]}",
                    )
        if answer.log_start_offset != 0:
            self._say(question, epoch, f"the log begins at {answer.log_start_offset}")

    def _parted(self, epoch: int) -> Question:
        """As one who has read in that epoch up to its end, or a little further than it goes."""
        last = self._some_epoch()
        end = self.known.end_of(last)[1]
        beyond = self._random.choice((0, 1, 1, 3)) if end < len(self.known) else 0
        return self._fetched("parted", epoch, end + beyond, last)

    def _told_parted(self, question: Question, answer: PartitionData, epoch: int) -> None:
        last = question.row.topics[0].partitions[0].last_fetched_epoch
        there, end = self.known.end_of(last)
        if end == len(self.known):
            return  # more of that epoch may have been written
        expected = (there, end) if question.offset > end else (-1, -1)
        diverging = answer.diverging_epoch
        told = (diverging.epoch, diverging.end_offset) if diverging is not None else (-1, -1)
        if told != expected:
            self._say(question, epoch, f"read in epoch {last} it parts at {told}, not {expected}")
