"""Compaction on this broker: which log is next, a process that works on it, and its new segments
taken as they come. Knows no record.

The process works beside the running log (log/compaction/). This module renames files, and flushes
the directory between the steps. When a log is truncated, moved or deleted meanwhile, its round is
given up. A log that cannot be read is left alone until the node is started again; after a full disk
the round is tried again after log.cleaner.backoff.ms.
"""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

from raftka.broker.replica.manager import ReplicaManager
from raftka.broker.replica.partition import Partition
from raftka.log.compaction.compaction import compact
from raftka.log.compaction.dirt import Dirt, cleaned, dirt_of, is_worth_it, job_for
from raftka.log.compaction.job import Cleaned, Ended
from raftka.log.log import Log
from raftka.wire.errors import KafkaError

PIECES_AT_ONCE = 20  # of the search for aborted transactions, each some 0.1 ms


class LogCleaner:
    def __init__(self, replicas: ReplicaManager) -> None:
        self.replicas = replicas
        self.context = replicas.context
        self.clock = replicas.clock
        self.rounds: dict[Partition, Round] = {}
        self.uncleanable: dict[Log, str] = {}
        self._due = False
        self._closed = False

    def start(self) -> None:
        if self.context.metadata.settings["log.cleaner.enable"]:
            self._schedule()

    def close(self) -> None:
        self._closed = True
        for each in tuple(self.rounds.values()):
            each.give_up()

    def _schedule(self) -> None:
        if not self._due and not self._closed:
            self._due = True
            self.clock.call_at(
                self.clock.now() + self.context.metadata.settings.seconds("log.cleaner.backoff.ms"),
                self._timer,
            )

    def _timer(self) -> None:
        self._due = False
        self.begin_rounds()

    def begin_rounds(self) -> None:
        """Begin on the dirtiest logs, as many as there may be at once."""
        threads = self.context.metadata.settings["log.cleaner.threads"]
        now_ms = self.clock.wall_ms()
        while len(self.rounds) < threads and not self._closed:
            found = self._dirtiest(now_ms)
            if found is None:
                break
            partition, dirt = found
            if partition.log.aborted.known_from == 0:
                self._begin(partition, dirt, now_ms, threads)
            elif not self._find_aborted(partition.log):
                return
        self._schedule()

    def _dirtiest(self, now_ms: int) -> tuple[Partition, Dirt] | None:
        best: tuple[Partition, Dirt] | None = None
        to_disk = False
        for partition in self.replicas.partitions.values():
            log = partition.log
            if (
                not log.config.compacted
                or log.cleaning
                or log.failed is not None
                or log in self.uncleanable
            ):
                continue
            dirt = dirt_of(log, partition.last_stable_offset, now_ms)
            if dirt is not None and is_worth_it(log, dirt):
                best = (partition, dirt) if best is None or dirt.ratio > best[1].ratio else best
            elif not to_disk:
                later = dirt_of(log, partition.last_stable_offset, now_ms, log.flushed_offset)
                to_disk = later is not None and is_worth_it(log, later)
        if to_disk and best is None:  # only what tells how far it is on disk is missing
            self.replicas.checkpoint()
        return best

    def _find_aborted(self, log: Log) -> bool:
        """Find the aborted records, which compaction leaves out, in pieces. Return False if the
        rounds begin in a later turn, when they are found.
        """
        try:
            pieces = sum(1 for _ in islice(log.aborted.load(0), PIECES_AT_ONCE))
        except (KafkaError, OSError) as error:
            self.uncleanable[log] = str(error)
            return True
        if pieces == PIECES_AT_ONCE:
            self.clock.call_at(self.clock.now(), self.begin_rounds)
        return pieces < PIECES_AT_ONCE

    def _begin(self, partition: Partition, dirt: Dirt, now_ms: int, threads: int) -> None:
        settings = self.context.metadata.settings
        memory = (
            settings["log.cleaner.dedupe.buffer.size"]
            * settings["log.cleaner.io.buffer.load.factor"]
            / threads
        )
        job = job_for(
            partition.log,
            dirt,
            now_ms,
            map_bytes=int(memory),
            read_bytes=max(4096, settings["log.cleaner.io.buffer.size"] // threads),
        )
        self.context.events.debug(
            "compaction_began",
            partition=partition.name,
            dirty_bytes=dirt.bytes,
            ratio=round(dirt.ratio, 3),
            end=dirt.end,
        )
        each = self.rounds[partition] = Round(
            self, partition, now_ms, sum(size for _, size in job.segments)
        )
        pace = settings["log.cleaner.io.max.bytes.per.second"] / threads
        each.cancel = self.context.runtime.offload.run_in_process(
            compact, tuple(job), each.came, each.over, pace
        )

    # how rounds end

    def done(self, each: "Round", ended: Ended) -> None:
        del self.rounds[each.partition]
        count = self.context.metrics.count
        count("raftka_compactions_total")
        count("raftka_compaction_bytes_read_total", ended.bytes_read)
        count("raftka_compaction_bytes_written_total", ended.bytes_written)
        if ended.unreadable:
            count("raftka_compaction_unreadable_batches_total", ended.unreadable)
        figures = {
            "bytes_in": each.bytes_in,
            "bytes_written": ended.bytes_written,
            "keys": ended.keys,
            "until": ended.clean_until,
        }
        self.context.events.info(
            "log_compacted",
            partition=each.partition.name,
            seconds=round(self.clock.now() - each.began, 3),
            **figures,
        )
        self.replicas.checkpoint_later()
        self.begin_rounds()

    def failed(self, each: "Round", error: BaseException) -> None:
        del self.rounds[each.partition]
        self.context.metrics.count("raftka_compaction_failures_total")
        # a full disk, too little memory
        passing = isinstance(error, OSError) or getattr(error, "kind", None) == "Killed"
        if not passing:
            self.uncleanable[each.log] = str(error)
        until = "the next round" if passing else "the node is started again"
        self.context.events.error(
            "compaction_failed",
            partition=each.partition.name,
            error=str(error).strip().rpartition("\n")[2],
            until=until,
        )

    def given_up(self, each: "Round") -> None:
        del self.rounds[each.partition]
        self.begin_rounds()


class Round:
    """One compaction under way. New segments may come faster than the names change: they queue."""

    def __init__(
        self, cleaner: LogCleaner, partition: Partition, now_ms: int, bytes_in: int
    ) -> None:
        self.cleaner = cleaner
        self.partition = partition
        self.log = partition.log
        self.now_ms = now_ms
        self.bytes_in = bytes_in
        self.began = cleaner.clock.now()
        self.cancel: Callable[[], None] = lambda: None
        self._truncations = partition.log.durability.truncations
        self._results: deque[Cleaned] = deque()
        self._ended: Ended | None = None
        self._error: BaseException | None = None
        self._over = False
        self._swapping = False
        self._given_up = False
        self.log.cleaning = True

    @property
    def _is_live(self) -> bool:
        return (
            self.cleaner.replicas.partitions.get((self.partition.topic, self.partition.index))
            is self.partition
            and self.log.failed is None
        )

    @property
    def _is_wanted(self) -> bool:
        return self._is_live and self.log.durability.truncations == self._truncations

    def came(self, fields: tuple[Any, ...]) -> None:
        if len(fields) == len(Ended._fields):
            self._ended = Ended(*fields)
        else:
            self._results.append(Cleaned(*fields))
            self._swap_next()

    def over(self, error: BaseException | None) -> None:
        self._over, self._error = True, error
        self._swap_next()

    def _swap_next(self) -> None:
        if self._swapping or self._given_up:
            return
        if not self._is_wanted:
            self.give_up()
            self.cleaner.given_up(self)
        elif self._results:
            self._swapping = True
            self._step(first=True)
        elif self._over:
            self._end()

    def _step(self, *, first: bool = False) -> None:
        """The names change, and the disk learns of it, in turns."""
        log = self.log
        more = True
        try:
            if first:
                log.begin_swap(self._results.popleft())
            else:
                more = log.go_on_swap()
        except OSError as error:
            self.cleaner.replicas.failures.log_failed(self.partition, error)
            more = False
        if more:
            self.cleaner.context.runtime.files.flush([log.directory], self._flushed)
        else:
            self._swapping = False
            self._swap_next()

    def _flushed(self, error: OSError | None) -> None:
        if error is not None:
            self.cleaner.replicas.failures.flush_failed(self.partition, error)
        if error is None and self._is_wanted:
            self._step()
        else:  # who changed the log has finished the swap first
            self._swapping = False
            self._swap_next()

    def _end(self) -> None:
        self.log.cleaning = False
        if self._error is None and self._ended is not None:
            cleaned(self.log, self._ended)
            self.cleaner.done(self, self._ended)
        else:
            self.log.segments.remove_cleaned()
            self.cleaner.failed(
                self, self._error or RuntimeError("the process ended without a result")
            )

    def give_up(self) -> None:
        self._given_up = True
        self.cancel()
        self.log.cleaning = False
        if self._is_live:
            self.log.segments.remove_cleaned()
