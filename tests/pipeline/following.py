"""A query that applies change events to a lake by key. As a program it is a driver of its own,
which a test may kill.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.pipeline.copying import main

FIELDS = {"id": "int", "state": "string?", "n": "int?"}


@dataclass(frozen=True)
class Follow:
    """`folder`: of the checkpoint; the lake is beside it."""

    bootstrap_servers: str
    source: str
    folder: str
    batch: int = 40  # records at most

    @property
    def lake(self) -> Path:
        return Path(self.folder).with_name("lake")

    def start(self, spark: Any) -> Any:
        from raftka.pipeline.flows.flows import good
        from raftka.pipeline.flows.streams import declared

        options = {"maxOffsetsPerTrigger": self.batch}
        stream = {
            "topic": self.source,
            "envelope": "debezium",
            "key": "id",
            "fields": FIELDS,
            "options": options,
        }
        output = {"from": "orders", "delta": "lake", "key": "id", "delete": "_deleted"}
        document = {
            "bootstrap": self.bootstrap_servers,
            "streams": {"orders": stream},
            "outputs": {"lake": output},
        }
        found = declared(document, self.lake.parent, {})
        (told,) = found.outputs
        assert told.path == str(self.lake)
        writer = (
            good(found, "orders")
            .drop("_timestamp", "_key")
            .writeStream.format("raftka_delta")
            .option("path", told.path)
        )
        return (
            writer.options(**told.options)
            .option("checkpointLocation", self.folder)
            .trigger(availableNow=True)
            .start()
        )


if __name__ == "__main__":
    main(Follow)
