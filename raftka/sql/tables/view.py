"""A table that is kept up to date beside its topic: one thread reads committed records from the
beginning on, and questions find the newest record of a key.

A question asks the brokers where the committed records end, and waits a moment until the thread is
there: so it has all records that were committed before it. Where the thread is behind, the answer
says how old it is. Nothing is kept on disk for a next process, which reads the topic again.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from raftka.client.blocking.client import Where
from raftka.client.blocking.reader import FetchedRecord, Reader
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.topics.brokers import Brokers, as_pipeline_errors
from raftka.pipeline.topics.planning import Topic
from raftka.sql.catalog import Stream
from raftka.sql.limits import TABLE_BYTES
from raftka.sql.tables.rows import wanted_of_table
from raftka.sql.tables.store import Found, Kept, RecordStore, StoreFull
from raftka.wire.messages.fetch import READ_COMMITTED
from raftka.wire.messages.list_offsets import EARLIEST, LATEST

POLL_S, AT_ONCE = 0.25, 1000
PATIENCE_S = 1.0  # a question waits so long for the thread


class NotMaterialised(Exception):
    """Spark is to answer. The text says why; it is empty where there is nothing to say."""


class ViewLost(NotMaterialised):
    """The view is of no use any more: the next question begins another one."""


class Mark(NamedTuple):
    """The ends of the committed records at a moment."""

    moment: float  # of the monotonic clock, in seconds
    ends: Mapping[Where, int]


class TableView:
    """May be used by several threads."""

    def __init__(
        self, table: Stream, open_brokers: Callable[[], Brokers], hits: Counter[str]
    ) -> None:
        """`hits`: of limits, by name. Raises NotMaterialised without a topic, and PipelineError."""
        self.table, self._hits = table, hits
        self._asking = threading.Lock()  # of the brokers that questions ask
        self._brokers = open_brokers()
        try:
            self._topic = self._find_topic()
            if self._topic is None:
                raise NotMaterialised
            wheres = [(table.topic, each) for each in self._topic.partitions]
            self._firsts = self._brokers.offsets(dict.fromkeys(wheres, EARLIEST))
        except BaseException:
            self._brokers.close()
            raise
        self._store = RecordStore(TABLE_BYTES.value)
        self._ending = threading.Event()
        self._changed = threading.Condition()
        self._positions: Mapping[Where, int] = self._firsts
        self._starts: Mapping[Where, int] = {}  # of the logs: records before them are deleted
        self._mark: Mark | None = None  # the next one that the thread reaches
        self._fresh_at: float | None = None  # the moment of the last one that it has reached
        self._failure: Callable[[], NotMaterialised] | None = None  # why the thread has ended
        self._thread = threading.Thread(
            target=self._run, args=(open_brokers(),), name=f"table {table.name}", daemon=True
        )
        self._thread.start()

    def _find_topic(self) -> Topic | None:
        return self._brokers.topics([self.table.topic]).get(self.table.topic)

    def close(self) -> None:
        """End the thread, which closes its part."""
        self._ending.set()
        with self._asking:
            self._brokers.close()

    def join(self) -> None:
        self._thread.join()

    # questions

    def find(self, wanted: Sequence[bytes]) -> tuple[list[list[Found]], float]:
        """Return the records of each name, and how old they are: the seconds since the last moment
        whose records are all among them. Raise NotMaterialised and PipelineError.
        """
        fresh_at = self._wait_until_fresh(self._new_mark())
        found = [self._find(each) for each in wanted]
        return found, time.monotonic() - fresh_at

    def _find(self, wanted: bytes) -> list[Found]:
        found = self._store.find(wanted)
        if found is None:
            raise ViewLost
        starts, topic = self._starts, self.table.topic
        return [each for each in found if each.offset >= starts.get((topic, each.partition), 0)]

    def _new_mark(self) -> Mark:
        with self._asking:
            if self._ending.is_set():
                raise ViewLost
            moment = time.monotonic()
            if self._find_topic() != self._topic:
                raise ViewLost(f"the topic {self.table.topic} is another one now")
            ends = self._brokers.offsets(dict.fromkeys(self._firsts, LATEST), READ_COMMITTED)
        return Mark(moment, ends)

    def _wait_until_fresh(self, mark: Mark) -> float:
        """Return the moment whose records are all there. Raise NotMaterialised until the thread
        has been at the end once.
        """
        with self._changed:
            self._mark = self._mark or mark
            self._changed.wait_for(lambda: self._failure or self._is_at(mark), PATIENCE_S)
            if self._failure is not None:
                raise self._failure()
            if self._is_at(mark):
                return mark.moment
            if self._fresh_at is None:
                raise NotMaterialised(self._progress(mark))
            return self._fresh_at

    def _is_at(self, mark: Mark) -> bool:
        return all(self._positions[where] >= end for where, end in mark.ends.items())

    def _progress(self, mark: Mark) -> str:
        done = sum(self._positions[where] - first for where, first in self._firsts.items())
        all_of_it = sum(mark.ends[where] - first for where, first in self._firsts.items())
        return (
            f"{self.table.name} is being materialised for questions by key: {done} of {all_of_it} "
            "records are read"
        )

    # the thread

    def _run(self, brokers: Brokers) -> None:
        failure: Callable[[], NotMaterialised] = ViewLost
        reader = Reader(brokers, self._firsts, committed=True)
        try:
            with as_pipeline_errors():
                self._follow(reader)
        except StoreFull:
            self._hits[TABLE_BYTES.name] += 1
            failure = partial(
                NotMaterialised,
                f"{self.table.name} is not materialised: it needs more than {TABLE_BYTES.name}, "
                f"{TABLE_BYTES.value} bytes, or the disk is full",
            )
        except Exception as error:
            logging.getLogger(__name__).warning("the table %s is lost: %s", self.table.name, error)
            failure = partial(ViewLost, f"the materialised table was lost: {error}")
        finally:
            reader.close()
            brokers.close()
            self._store.close()
        with self._changed:
            self._failure = failure
            self._changed.notify_all()

    def _follow(self, reader: Reader) -> None:
        """Read until the view is closed. Raise StoreFull, KafkaError and PipelineError."""
        while not self._ending.is_set():
            records = reader.poll(POLL_S, AT_ONCE)
            if any(reader.positions[where] < at for where, at in self._positions.items()):
                raise PipelineError(f"the log of {self.table.topic} was cut")
            self._store.put(filter(None, map(self._kept, records)))
            with self._changed:
                self._positions, self._starts = dict(reader.positions), dict(reader.starts)
                if self._mark is not None and self._is_at(self._mark):
                    self._fresh_at, self._mark = self._mark.moment, None
                self._changed.notify_all()

    def _kept(self, record: FetchedRecord) -> Kept | None:
        """Return the row that the store keeps of a record; None: no question names it."""
        wanted = None if record.key is None else wanted_of_table(record.key, self.table)
        if record.key is None or wanted is None:
            return None
        return Kept(wanted, record.key, record.partition, record.offset, record.value)
