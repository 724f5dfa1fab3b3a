"""A broker that compares records with the schemas of a simulated registry."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from raftka.metadata.configs.topic import DEAD_LETTER_TOPIC
from raftka.security import acls
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.produce import PRODUCE, PartitionProduceResponse
from raftka.wire.records import Record, iterate, records_of
from tests.broker.requests import batch, fetch, fetched, produce, produced
from tests.broker.rights import WITH_ACLS, admin_of, create_acls, topic_acl
from tests.broker.schema_registry import URL, SimulatedRegistry, framed
from tests.broker.stage import Stage, Wire

ON: dict[str, Any] = {"confluent_value_schema_validation": "true"}
TIME_MS = 1_700_000_000_000


class Scene:
    """A broker with a registry beside it."""

    def __init__(self, nodes: int = 1, **settings: Any) -> None:
        self.stage = Stage(nodes, **({"confluent_schema_registry_url": URL} | settings))
        self.registry = SimulatedRegistry(self.stage)

    def create(self, topic: str = "t", **configs: str) -> None:
        self.stage.create(topic, configs={**ON, **configs})

    def send(
        self,
        *values: bytes,
        topic: str = "t",
        wire: Wire | None = None,
        acks: int = -1,
        **fields: Any,
    ) -> PartitionProduceResponse:
        return produced(
            (wire or self.stage.wire()).ask(
                PRODUCE, produce(topic, batch(*values, **fields), acks=acks)
            )
        )

    def stored(self, topic: str = "t") -> list[Record]:
        records = fetched(
            self.stage.wire().ask(FETCH, fetch(topic, 0, 0, max_bytes=1 << 20))
        ).records
        return [
            record for _, each in iterate(memoryview(records or b"")) for record in records_of(each)
        ]


TO_DEAD: dict[str, Any] = {DEAD_LETTER_TOPIC.replace(".", "_"): "dead"}
GOOD, BAD = framed(7, b"good"), b"bad"


@contextmanager
def guarded() -> Iterator[tuple[Scene, Stage]]:
    """The user pat may write to the topic, and not to its dead letter topic."""
    scene = Scene(**WITH_ACLS)
    stage = scene.stage
    with stage:
        stage.wire = lambda node_id=1: admin_of(stage, node_id)  # type: ignore[method-assign]
        scene.registry.register(7, "t-value")
        scene.create(**TO_DEAD)
        stage.create("dead")
        assert create_acls(stage, topic_acl(acls.WRITE)) == [0]
        yield scene, stage
