"""Client quotas of simulated nodes, as clients set and read them."""

from collections.abc import Mapping

from raftka.wire.messages.client_quotas import ALTER_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.schema import AnyApi, Row
from tests.broker.requests import batch, fetch, produce
from tests.broker.stage import BY_NAME, Stage, Wire, decoded

Entity = tuple[tuple[str, str | None], ...]


def alter(wire: Wire, entity: Mapping[str, str | None], **values: float | None) -> int:
    """Set the values of one entity; None removes one. Returns the error."""
    row = ALTER_CLIENT_QUOTAS.request.entries
    components = [row.entity(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    ops = [
        row.ops(key=key, value=0.0 if value is None else value, remove=value is None)
        for key, value in values.items()
    ]
    (result,) = wire.ask(
        ALTER_CLIENT_QUOTAS, ALTER_CLIENT_QUOTAS.request(entries=[row(entity=components, ops=ops)])
    ).entries
    return result.error_code


def described(wire: Wire) -> dict[Entity, dict[str, float]]:
    """All quotas."""
    answer = wire.ask(DESCRIBE_CLIENT_QUOTAS, DESCRIBE_CLIENT_QUOTAS.request())
    assert answer.error_code == 0
    return {
        tuple((each.entity_type, each.entity_name) for each in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries or ()
    }


class Busy(Wire):
    """A client that sends the same request again `pause_s` after each answer, and obeys no throttle
    time: the broker must.
    """

    def __init__(
        self,
        stage: Stage,
        client_id: str,
        api: AnyApi,
        row: Row,
        pause_s: float = 0.0,
        node_id: int = 1,
    ) -> None:
        self.api, self.row, self.pause_s = api, row, pause_s
        self.version = BY_NAME.get(api.key, api.max_version)
        # when, how many bytes went or came, seconds since it was asked
        self.answers: list[tuple[float, int, float]] = []
        self.told_s = 0.0
        self._asked_at = 0.0
        self._clock = stage.runtime.clock
        super().__init__(stage.world, stage.runtime, f"n{node_id}")
        self.client_id = client_id
        self.size = len(api.encode_request(self.version, row))
        self.again()

    def again(self) -> None:
        if self.close_reason is None:
            self._asked_at = self.world.now
            self.request(self.api, self.row)

    def receive(self, view: memoryview) -> None:
        super().receive(view)
        while self.frames:
            data = self.frames.pop(0)
            self.told_s += decoded(self.api, self.version, data).throttle_time_ms / 1000
            size = len(data) if self.api is FETCH else self.size
            self.answers.append((self.world.now, size, self.world.now - self._asked_at))
            self._clock.call_at(self._clock.now() + self.pause_s, self.again)

    def per_s(self, begin: float, end: float) -> float:
        """Bytes a second between two times."""
        return sum(size for at, size, _ in self.answers if begin <= at < end) / (end - begin)

    def slowest(self) -> float:
        return max(took for _, _, took in self.answers)


def producing(stage: Stage, client_id: str, size: int, pause_s: float = 0.0) -> Busy:
    return Busy(stage, client_id, PRODUCE, produce("t", batch(bytes(size)), acks=1), pause_s)


def fetching(stage: Stage, client_id: str, size: int, pause_s: float = 0.0) -> Busy:
    return Busy(
        stage, client_id, FETCH, fetch("t", 0, partition_max_bytes=size, max_bytes=size), pause_s
    )
