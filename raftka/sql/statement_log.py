"""The topic of statements: every server of a cluster reads it, and a change is a transaction of it.

All changes have one transactional id. Its transaction begins before the topic is read to its end,
so of two servers that change at the same time one is fenced: no change is decided on old entries.
"""

import time
from collections.abc import Mapping

from raftka.client.blocking import transaction
from raftka.client.blocking.producer import Producer
from raftka.client.blocking.reader import Reader
from raftka.client.blocking.transaction import Identity
from raftka.pipeline.errors import PipelineError
from raftka.pipeline.topics.brokers import STATEMENTS, Brokers, as_pipeline_errors
from raftka.pipeline.topics.creation import create_topic
from raftka.sql.catalog import MOST, Catalog, Entry, encode
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.fetch import READ_COMMITTED
from raftka.wire.messages.list_offsets import LATEST

LOG = (STATEMENTS, 0)
TRANSACTIONAL_ID, TIMEOUT_MS = "raftka-sql-statements", 60_000
CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20)}
AT_ONCE = 1000  # records of a poll
FENCED = (Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_EPOCH, Code.INVALID_TXN_STATE)


class StatementLog:
    """Not for several threads at once."""

    def __init__(self, brokers: Brokers) -> None:
        self.catalog = Catalog()
        self._brokers = brokers
        self._reader: Reader | None = None

    def read(self) -> Catalog:
        """Read new records; return all entries. Raise PipelineError."""
        with as_pipeline_errors():
            if self._reader is None:
                if STATEMENTS not in self._brokers.topics([STATEMENTS]):
                    return self.catalog
                self._reader = Reader(self._brokers, {LOG: 0}, committed=True)
            end = self._brokers.offsets({LOG: LATEST}, READ_COMMITTED)[LOG]
            patience = self._brokers.patience(f"reading {STATEMENTS} up to offset {end}")
            while self._reader.positions[LOG] < end:
                records = self._reader.poll(0.5, AT_ONCE)
                for record in records:
                    self.catalog.replay(
                        (record.key or b"").decode(),
                        record.value,
                        f"{STATEMENTS} at offset {record.offset}",
                    )
                if not records and patience.over:
                    patience.wait(f"it is at offset {self._reader.positions[LOG]}")
        return self.catalog

    def begin(self) -> "Change":
        """Begin a change, with all entries read. Raise PipelineError."""
        with as_pipeline_errors():
            if STATEMENTS not in self._brokers.topics([STATEMENTS]):
                create_topic(self._brokers, STATEMENTS, 1, CONFIG)
            identity = transaction.begin(self._brokers, TRANSACTIONAL_ID, TIMEOUT_MS)
        return Change(self._brokers, identity, self.read())

    def close(self) -> None:
        """Close the brokers too."""
        if self._reader is not None:
            self._reader.close()
        self._brokers.close()


class Change:
    """A change of the entries, before it is committed. One that is not committed is as if it had
    never been: nothing was written.
    """

    def __init__(self, brokers: Brokers, identity: Identity, catalog: Catalog) -> None:
        self.catalog = catalog
        self._brokers, self._identity = brokers, identity

    def commit(self, entries: Mapping[str, Entry | None]) -> None:
        """Write entries by name; None: removed. All of them count, or none. Raise PipelineError."""
        if len(self.catalog.entries.keys() | {name.lower() for name in entries}) > MOST:
            raise PipelineError(
                f"there are {MOST} streams, tables, functions and queries, as many as are "
                "allowed. Next step: DROP or TERMINATE one"
            )
        records = {
            name.lower(): None if entry is None else encode(entry)
            for name, entry in entries.items()
        }
        try:
            with as_pipeline_errors():
                self._write(records)
        except PipelineError as error:
            cause = error.__cause__
            if isinstance(cause, KafkaError) and cause.code in FENCED:
                raise PipelineError(
                    "another server has changed streams or queries at the same moment. Nothing "
                    "was done. Next step: give the statement again"
                ) from None
            raise
        for name, value in records.items():
            self.catalog.replay(name, value, STATEMENTS)

    def _write(self, records: Mapping[str, bytes | None]) -> None:
        offsets: list[int] = []
        producer = Producer(
            self._brokers,
            identity=self._identity,
            on_written=lambda where, offset, records: offsets.append(offset),
        )
        for name, value in records.items():
            producer.add(LOG, (name.encode(), value, (), time.time_ns() // 1_000_000))
        producer.flush()
        transaction.end(self._brokers, self._identity, commit=True)
        # the coordinator has decided; readers see it when the marker is in the log
        patience = self._brokers.patience(f"the end of a transaction in {STATEMENTS}")
        while self._brokers.offsets({LOG: LATEST}, READ_COMMITTED)[LOG] <= offsets[-1]:
            patience.wait("its marker is not there")
