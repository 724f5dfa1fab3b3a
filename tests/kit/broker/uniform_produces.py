"""Produce requests of one size that arrive in one piece."""

from typing import Any

from raftka.broker.network.connection import ServerConnection
from raftka.wire.frame import encode_request
from raftka.wire.messages.produce import PRODUCE
from tests.broker.requests import batch, produce, produced
from tests.broker.stage import Stage, Wire

QUIET_S = 0.5


def one(number: int, version: int = 12, value: bytes = b"v" * 20, **fields: Any) -> bytes:
    row = produce("t", batch(value, **fields), acks=1)
    return encode_request(PRODUCE, version, number, "test", row)


def many(count: int, version: int = 12, first: int = 100) -> list[bytes]:
    """Requests of one size with different records."""
    return [one(first + 7 * at, version, b"%020d" % at) for at in range(count)]


def prepared(stage: Stage, version: int = 12) -> tuple[Wire, ServerConnection]:
    """A connection whose requests have been alike before."""
    wire = stage.wire()
    for _ in range(3):
        assert (
            produced(wire.ask(PRODUCE, produce("t", batch(b"v" * 20), acks=1), version)).error_code
            == 0
        )
    server = stage.server_side()
    give(stage, server, b"".join(many(2, version)))
    assert [wire.frame() is not None for _ in range(2)] == [True, True]
    return wire, server


def give(stage: Stage, server: ServerConnection, data: bytes) -> None:
    """Hand the bytes over as the network does, in one piece."""
    runtime: Any = stage.nodes[1].context.runtime
    runtime.take(server.receive, memoryview(bytearray(data)))


def told(stage: Stage, wire: Wire) -> tuple[list[bytes], str | None]:
    """Return the frames that came, and why the connection was closed, if it was; no more come."""
    stage.world.run(stage.world.now + QUIET_S)
    frames, wire.frames = wire.frames, []
    return frames, wire.close_reason
