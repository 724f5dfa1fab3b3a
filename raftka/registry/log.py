"""The topic `_schemas`: a thread reads it all the time, and one instance of the registry at a time
writes to it.

An instance needs no election to write. Each write is a transaction under the name that all
instances of a topic share:

    InitProducerId    fences all earlier writers under this name: they can commit nothing more
    read to the end   the state has every committed write
    decide            the records, from that state
    write, commit     the coordinator refuses them if another instance has begun meanwhile; then
                      this one starts over

So if two instances give out the next id at once, one of them is refused. A write is answered when
this instance has read it.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from raftka.client.blocking.client import Client, Unreachable, check, is_retriable
from raftka.client.blocking.connection import ClientError
from raftka.client.blocking.producer import Producer
from raftka.client.blocking.reader import FetchedRecord, Reader
from raftka.client.blocking.transaction import begin, end
from raftka.registry.errors import STORE_FAILED, TOO_LARGE, RegistryError
from raftka.registry.records import Record
from raftka.registry.state import State
from raftka.wire.errors import Code, KafkaError, name_of_code
from raftka.wire.messages.configs import DESCRIBE_CONFIGS
from raftka.wire.messages.fetch import READ_COMMITTED
from raftka.wire.messages.list_offsets import EARLIEST, LATEST
from raftka.wire.messages.topics import CREATE_TOPICS

TOPIC = "_schemas"
# An instance that dies in the middle of a write stops the reading of others for so long, unless one
# of them writes.
TRANSACTION_MS = 10_000
CREATE_MS = 30_000
AGAIN_S = 1.0  # before the topic is read again
POLL_S, POLLED = 0.05, 1_000  # a registry that stops waits for one poll
TRIES, PAUSE_S = 30, 0.05  # of a write that other instances have fenced; a try more, a pause more
FENCED = frozenset(
    {
        Code.INVALID_PRODUCER_EPOCH,
        Code.PRODUCER_FENCED,
        Code.INVALID_TXN_STATE,
        Code.CONCURRENT_TRANSACTIONS,
    }
)
TOPIC_RESOURCE = 2

T = TypeVar("T")
Decided = tuple[T, Sequence[Record]]  # the answer, and the records to write
MakeClient = Callable[[], Client]


class SchemasLog:
    """The topic's reader and writer. Use `state` under `lock` only."""

    def __init__(
        self,
        make_client: MakeClient,
        topic: str = TOPIC,
        *,
        failed: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        """`make_client`: each thread has its own. `failed`: called in the reading thread when it
        cannot go on; it tries again.
        """
        self.state, self.lock = State(), threading.RLock()
        self.failure: BaseException | None = None
        self._make_client, self._where, self._failed = make_client, (topic, 0), failed
        self._writer: Client | None = None
        self._writing = threading.Lock()
        self._moved = threading.Condition(self.lock)
        self._position = 0  # the offset of the next record to be read
        self._over = threading.Event()
        self._reading: threading.Thread | None = None
        self.started = False

    def start(self) -> None:
        """Make the topic unless it is there, and read it to its end. Raises RegistryError; then it
        may be called again.
        """
        try:
            with self._make_client() as client:
                _ensure_topic(client, self._where[0])
                if self._reading is None:
                    self._reading = threading.Thread(
                        target=self._read, name="registry's reader", daemon=True
                    )
                    self._reading.start()
                self._catch_up(client)
        except (KafkaError, ClientError, OSError) as error:
            raise _store_failed(error) from error
        self.started = True

    def stop(self) -> None:
        self._over.set()
        if self._reading is not None:
            self._reading.join()
        with self._writing:
            if self._writer is not None:
                self._writer.close()

    def write(self, decide: Callable[[], Decided[T]]) -> T:
        """Write the records that `decide` returns, and return its answer. It is called when the
        state has all committed writes, perhaps several times. Raise RegistryError, and its errors.
        """
        reason: object = None
        with self._writing:
            for tries in range(1, TRIES + 1):
                try:
                    return self._write_once(decide)
                except KafkaError as error:
                    if error.code == Code.MESSAGE_TOO_LARGE:
                        raise RegistryError(
                            TOO_LARGE, f"a record of the topic would be too large: {error}"
                        ) from error
                    if error.code not in FENCED:
                        raise _store_failed(error) from error
                    reason = error
                except (ClientError, OSError) as error:
                    raise _store_failed(error) from error
                # A random pause: else two instances might fence each other for ever.
                time.sleep(random.uniform(0, tries * PAUSE_S))
        raise _store_failed(f"other instances came before {TRIES} times: {reason}")

    def _client(self) -> Client:
        if self._writer is None:
            self._writer = self._make_client()
        return self._writer

    def _write_once(self, decide: Callable[[], Decided[T]]) -> T:
        client = self._client()
        identity = begin(client, f"raftka-registry-{self._where[0]}", TRANSACTION_MS)
        self._catch_up(client)
        answer, records = decide()
        if not records:
            return answer
        written: list[int] = []
        producer = Producer(
            client,
            identity=identity,
            on_written=lambda where, offset, count: written.append(offset + count),
        )
        with self.lock:
            records = list(self.state.rewritten(records))
        for key, value in records:
            producer.add(self._where, (key, value, (), time.time_ns() // 1_000_000))
        producer.flush()
        end(client, identity, commit=True)
        self._wait(client, max(written))
        return answer

    # reading

    def _catch_up(self, client: Client) -> None:
        """Wait until every record that is committed now has been read."""
        self._wait(client, client.offsets({self._where: LATEST}, READ_COMMITTED)[self._where])

    def _wait(self, client: Client, position: int) -> None:
        deadline = time.monotonic() + client.patience_s
        with self._moved:
            while self._position < position:
                if self.failure is not None:
                    raise Unreachable(f"the topic {self._where[0]} cannot be read: {self.failure}")
                if not self._moved.wait(deadline - time.monotonic()):
                    raise Unreachable(
                        f"the topic {self._where[0]} was not read to offset {position} in "
                        f"{client.patience_s:g} s"
                    )

    def _read(self) -> None:
        while not self._over.is_set():
            try:
                self._read_on()
            except Exception as error:
                with self._moved:
                    self.failure = error
                    self._moved.notify_all()
                self._failed(error)
                self._over.wait(AGAIN_S)

    def _read_on(self) -> None:
        with self._make_client() as client:
            begin = client.offsets({self._where: EARLIEST})[self._where]
            reader = Reader(client, {self._where: max(begin, self._position)}, committed=True)
            try:
                while not self._over.is_set():
                    self._take(reader, reader.poll(POLL_S, POLLED))
            finally:
                reader.close()

    def _take(self, reader: Reader, records: Sequence[FetchedRecord]) -> None:
        with self._moved:
            for record in records:
                self.state.apply(record.key, record.value)
            self._position, self.failure = reader.positions[self._where], None
            self._moved.notify_all()


def _store_failed(reason: object) -> RegistryError:
    return RegistryError(STORE_FAILED, f"Error in the backend data store: {reason}")


def _ensure_topic(client: Client, name: str) -> None:
    """Make the topic unless it is there, and check its settings. Raise KafkaError, Unreachable or
    RegistryError.
    """
    topic = CREATE_TOPICS.request.topics
    if client.metadata([name]).topics[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION:
        configs = [topic.configs(name="cleanup.policy", value="compact")]
        row = topic(name=name, num_partitions=1, replication_factor=-1, configs=configs)
        answer = client.ask_controller(
            CREATE_TOPICS, CREATE_TOPICS.request(topics=[row], timeout_ms=CREATE_MS)
        ).topics[0]
        if answer.error_code != Code.TOPIC_ALREADY_EXISTS:
            check(
                answer.error_code,
                f"the topic {name} cannot be made: "
                f"{answer.error_message or name_of_code(answer.error_code)}",
            )
    resource = DESCRIBE_CONFIGS.request.resources(
        resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=["cleanup.policy"]
    )
    described = client.ask(
        DESCRIBE_CONFIGS, DESCRIBE_CONFIGS.request(resources=[resource]), passing=is_retriable
    ).results[0]
    check(described.error_code, f"the settings of the topic {name}")
    policy = next((each.value for each in described.configs if each.name == "cleanup.policy"), None)
    if policy != "compact":
        raise RegistryError(
            STORE_FAILED,
            f"the topic {name} has cleanup.policy={policy}: with any other than compact, schemas "
            "are lost",
        )
    if len(client.metadata([name]).topics[0].partitions) != 1:
        raise RegistryError(
            STORE_FAILED,
            f"the topic {name} has more than one partition: records of a registry have one order",
        )
