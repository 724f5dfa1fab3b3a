"""Members of consumer groups, each a real client in a thread of its own: what they own, what they
have read, what they have committed.

A client is used by its own thread alone; tests look at what the thread has noted, or have it `do`
something. Knows no broker.
"""

import asyncio
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tests.clients.workload import PATIENCE_S, wait

SESSION_MS, HEARTBEAT_MS, POLL_MS = 6_000, 300, 50
# kafka-python 3.0.12 waits for ever, now and then, when a poll ends while a rebalance is under way
LONG_POLL_MS = 3_000
Read = Iterable[tuple[int, int]]  # partition, offset
FAILURES = (kafka.errors.KafkaError, aiokafka.errors.KafkaError, confluent_kafka.KafkaException)


class Client(Protocol):
    def poll(self) -> Read: ...
    def owned(self) -> set[int]: ...
    def commit(self, offsets: Mapping[int, int]) -> None: ...
    def committed(self, partition: int) -> int | None: ...
    def close(self) -> None: ...


class KafkaPython:
    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        group: str,
        *,
        cooperative: bool,
        instance: str | None,
        changed: Callable[[], None],
    ) -> None:
        class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Any) -> None: ...

            def on_partitions_assigned(self, assigned: Any) -> None:
                changed()

        self.topic = topic
        self.consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id=group,
            group_instance_id=instance,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=[
                CooperativeStickyAssignor if cooperative else RangePartitionAssignor
            ],
        )
        self.consumer.subscribe([topic], listener=Listener())

    def poll(self) -> Read:
        try:
            polled = self.consumer.poll(timeout_ms=LONG_POLL_MS)
        # 3.0.12 tells of a broker that is gone instead of asking another one
        except kafka.errors.KafkaConnectionError:
            return []
        return [(each.partition, each.offset) for records in polled.values() for each in records]

    def owned(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def commit(self, offsets: Mapping[int, int]) -> None:
        self.consumer.commit(
            {
                kafka.TopicPartition(self.topic, p): kafka.OffsetAndMetadata(offset, "", -1)
                for p, offset in offsets.items()
            }
        )

    def committed(self, partition: int) -> int | None:
        found: int | None = self.consumer.committed(kafka.TopicPartition(self.topic, partition))
        return found

    def close(self) -> None:
        self.consumer.close(autocommit=False)


class ConfluentKafka:
    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        group: str,
        *,
        cooperative: bool,
        instance: str | None,
        changed: Callable[[], None],
    ) -> None:
        self.topic = topic
        config = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        config |= self.protocol(cooperative=cooperative) | (
            {"group.instance.id": instance} if instance else {}
        )
        self.consumer = confluent_kafka.Consumer(config)
        self.consumer.subscribe([topic], on_assign=lambda _consumer, _partitions: changed())

    @staticmethod
    def protocol(*, cooperative: bool) -> dict[str, Any]:
        strategy = "cooperative-sticky" if cooperative else "range"
        return {
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": strategy,
        }

    def poll(self) -> Read:
        return [
            (each.partition(), each.offset())
            for each in self.consumer.consume(500, POLL_MS / 1000)
            if each.error() is None
        ]

    def owned(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def commit(self, offsets: Mapping[int, int]) -> None:
        for each in self.consumer.commit(
            offsets=[
                confluent_kafka.TopicPartition(self.topic, p, offset)
                for p, offset in offsets.items()
            ],
            asynchronous=False,
        ):
            if each.error is not None:
                raise confluent_kafka.KafkaException(each.error)

    def committed(self, partition: int) -> int | None:
        (found,) = self.consumer.committed(
            [confluent_kafka.TopicPartition(self.topic, partition)], 10
        )
        return found.offset if found.offset >= 0 else None

    def close(self) -> None:
        self.consumer.close()


class NewProtocol(ConfluentKafka):
    """librdkafka's consumer of the new protocol (KIP-848): its times are the group's, and it is
    cooperative always.
    """

    @staticmethod
    def protocol(*, cooperative: bool) -> dict[str, Any]:
        return {"group.protocol": "consumer"}


class Aiokafka:
    """Its coroutines run when its thread polls, so it polls often."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        group: str,
        *,
        cooperative: bool,
        instance: str | None,
        changed: Callable[[], None],
    ) -> None:
        class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_revoked(self, revoked: Any) -> None: ...

            def on_partitions_assigned(self, assigned: Any) -> None:
                changed()

        assert not cooperative, "aiokafka has no cooperative assignor"
        self.topic = topic
        self.loop = asyncio.new_event_loop()

        async def start() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=bootstrap_servers,
                group_id=group,
                group_instance_id=instance,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                partition_assignment_strategy=(AiokafkaRange,),
            )
            consumer.subscribe([topic], listener=Listener())
            await consumer.start()
            return consumer

        self.consumer = self.loop.run_until_complete(start())

    def poll(self) -> Read:
        polled = self.loop.run_until_complete(self.consumer.getmany(timeout_ms=POLL_MS))
        return [(each.partition, each.offset) for records in polled.values() for each in records]

    def owned(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def commit(self, offsets: Mapping[int, int]) -> None:
        self.loop.run_until_complete(
            self.consumer.commit(
                {aiokafka.TopicPartition(self.topic, p): offset for p, offset in offsets.items()}
            )
        )

    def committed(self, partition: int) -> int | None:
        found: int | None = self.loop.run_until_complete(
            self.consumer.committed(aiokafka.TopicPartition(self.topic, partition))
        )
        return found

    def close(self) -> None:
        try:
            self.loop.run_until_complete(self.consumer.stop())
        finally:
            self.loop.close()


KINDS: dict[str, Callable[..., Client]] = {
    "kafka-python": KafkaPython,
    "confluent-kafka": ConfluentKafka,
    "aiokafka": Aiokafka,
    "KIP-848": NewProtocol,
}


class Member:
    def __init__(
        self,
        kind: str,
        bootstrap_servers: str,
        topic: str,
        group: str,
        *,
        cooperative: bool = False,
        instance: str | None = None,
    ) -> None:
        self.owned: frozenset[int] = frozenset()
        self.read: dict[int, list[int]] = defaultdict(list)  # offsets by partition
        self.rebalances = 0
        self.failure: BaseException | None = None
        self._asked: queue.SimpleQueue[tuple[Callable[[Client], Any], queue.SimpleQueue[Any]]] = (
            queue.SimpleQueue()
        )
        self._over = threading.Event()
        self._make: Callable[[], Client] = lambda: KINDS[kind](
            bootstrap_servers,
            topic,
            group,
            cooperative=cooperative,
            instance=instance,
            changed=self._changed,
        )
        self._thread = threading.Thread(target=self._run, name=f"member of {group}", daemon=True)
        self._thread.start()

    def __enter__(self) -> "Member":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def do(self, action: Callable[[Client], Any]) -> Any:
        """In its thread; the result. Raises what it raises."""
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._asked.put((action, done))
        result = done.get(timeout=PATIENCE_S)
        if isinstance(result, BaseException):
            raise result
        return result

    def commit(self) -> dict[int, int]:
        """Commit the read offsets of the owned partitions; raises one of FAILURES."""

        def commit(client: Client) -> dict[int, int]:
            positions = {
                partition: self.read[partition][-1] + 1
                for partition in client.owned()
                if self.read[partition]
            }
            client.commit(positions)
            return positions

        positions: dict[int, int] = self.do(commit)
        return positions

    def committed(self, partitions: Iterable[int]) -> dict[int, int | None]:
        found: dict[int, int | None] = self.do(
            lambda client: {partition: client.committed(partition) for partition in partitions}
        )
        return found

    def stop(self) -> None:
        """It leaves after its poll, unless it is static; `close` waits for that."""
        self._over.set()

    def close(self) -> None:
        self.stop()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure

    def _changed(self) -> None:
        self.rebalances += 1

    def _run(self) -> None:
        try:
            client = self._make()
            try:
                while not self._over.is_set():
                    self._turn(client)
            finally:
                client.close()
        except BaseException as error:
            self.failure = error

    def _turn(self, client: Client) -> None:
        for partition, offset in client.poll():
            self.read[partition].append(offset)
        self.owned = frozenset(client.owned())
        while not self._asked.empty():
            action, done = self._asked.get()
            try:
                done.put(action(client))
            except BaseException as error:
                done.put(error)


def settled(members: Iterable[Member], partitions: int) -> bool:
    """Each partition is owned by one of them."""
    owned = [partition for member in members for partition in member.owned]
    return sorted(owned) == list(range(partitions))


def wait_settled(members: Iterable[Member], partitions: int) -> None:
    """And all own as many as the others, or one more."""
    members = list(members)

    def fair() -> bool:
        sizes = [len(member.owned) for member in members]
        return settled(members, partitions) and max(sizes) - min(sizes) <= 1

    wait(
        fair,
        lambda: (
            f"they own {[sorted(member.owned) for member in members]} after "
            f"{[member.rebalances for member in members]} rebalances"
        ),
    )
