"""Play a shop: change events of orders, as Debezium writes them, into the project's topic. For a
look without PostgreSQL.

python play.py [--changes N] [--rate N] [--project DIR]    ends with Ctrl-C
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from raftka.client.blocking.producer import Producer, partition_of
from raftka.json_values import JsonObject
from raftka.pipeline.flows.streams import load
from raftka.pipeline.topics.brokers import open_brokers
from raftka.pipeline.topics.creation import create_topic

STREAM, PARTITIONS = "orders", 4
CUSTOMERS = ("Anna", "Bilal", "Chiara", "Dewi", "Emeka", "Freya", "Goran", "Hanako")
NEXT = {"NEW": "PAID", "PAID": "PACKED", "PACKED": "SENT"}
MOST = 100  # orders that are there at one time
PATIENCE_S = 30.0

Event = tuple[bytes, bytes | None]  # key and value of a record


class Shop:
    """Orders that are placed, move on, and are removed some time after they were sent. The same
    seed plays the same shop.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.orders: dict[int, JsonObject] = {}
        self._chance, self._next = random.Random(seed), 1

    def changes(self, now_ms: int) -> Iterator[Event]:
        """One change: an event, and behind a deletion a tombstone."""
        if not self.orders or (len(self.orders) < MOST and self._chance.random() < 0.35):
            yield self._placed(now_ms)
            return
        key = self._chance.choice(list(self.orders))
        before = self.orders[key]
        if before["state"] in NEXT:
            self.orders[key] = {**before, "state": NEXT[before["state"]]}
            yield _event(key, "u", before, self.orders[key], now_ms)
            return
        del self.orders[key]
        yield _event(key, "d", before, None, now_ms)
        yield _key(key), None

    def _placed(self, now_ms: int) -> Event:
        key, self._next = self._next, self._next + 1
        self.orders[key] = {
            "id": key,
            "customer": self._chance.choice(CUSTOMERS),
            "state": "NEW",
            "amount": f"{self._chance.uniform(5, 200):.2f}",
            "latitude": round(self._chance.gauss(52.52, 0.06), 5),
            "longitude": round(self._chance.gauss(13.4, 0.1), 5),
            "placed": datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(),
        }
        return _event(key, "c", None, self.orders[key], now_ms)


def _key(key: int) -> bytes:
    return json.dumps({"id": key}).encode()


def _event(
    key: int, op: str, before: JsonObject | None, after: JsonObject | None, now_ms: int
) -> Event:
    source = {
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": now_ms,
        "snapshot": "false",
        "db": "shop",
        "schema": "public",
        "table": "orders",
    }
    return _key(key), json.dumps(
        {
            "before": before,
            "after": after,
            "source": source,
            "op": op,
            "ts_ms": now_ms,
            "transaction": None,
        }
    ).encode()


def play(project: Path, shop: Shop, changes: int | None, rate: float) -> int:
    """Write so many changes, or until it is ended; returns how many records these were. Raises
    PipelineError.
    """
    found = load(project / "streams.yml")
    topic = found.stream(STREAM).topic
    brokers = open_brokers(found.connection, "raftka-play", PATIENCE_S)
    try:
        if topic not in brokers.topics([topic]):
            create_topic(brokers, topic, PARTITIONS, {})
        partitions = len(brokers.topics([topic])[topic].partitions)
        producer, played = Producer(brokers), 0
        while changes is None or played < changes:
            now_ms = time.time_ns() // 1_000_000
            for key, value in shop.changes(now_ms):
                producer.add((topic, partition_of(key, partitions)), (key, value, (), now_ms))
            producer.flush()
            played += 1
            time.sleep(1 / rate)
        return producer.written
    finally:
        brokers.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Write change events of a shop's orders into the project's topic."
    )
    parser.add_argument(
        "--project", type=Path, default=Path(__file__).parent, help="the project's folder"
    )
    parser.add_argument("--changes", type=int, help="so many; without it until Ctrl-C")
    parser.add_argument("--rate", type=float, default=10, help="changes a second (10)")
    given = parser.parse_args()
    try:
        written = play(given.project, Shop(), given.changes, given.rate)
    except KeyboardInterrupt:
        sys.exit(0)
    sys.stdout.write(f"{written} records written\n")


if __name__ == "__main__":
    main()
