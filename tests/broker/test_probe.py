"""The controller's question whether a broker's process is gone: what tells so, and what does
not.
"""

import pytest

from raftka.broker.controller.controller_host import SILENT, open_probe
from raftka.runtime.interfaces import Connection
from raftka.wire.frame import encode_response
from raftka.wire.messages.api_versions import API_VERSIONS


class _Network:
    connection: Connection

    def connect(self, host: str, port: int, connection: Connection) -> None:
        self.connection = connection


class _Transport:
    peer = "b:1"

    def __init__(self) -> None:
        self.closed: list[str] = []

    def wake(self) -> None: ...

    def close(self, reason: str) -> None:
        self.closed.append(reason)

    drop = close

    def hold_reading(self, held: bool) -> None: ...

    def own_host(self) -> str:
        return "broker"

    def left(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("opened", "answered", "reason", "told"),
    [
        (False, False, "Connection refused", ["refused"]),
        (False, False, "timed out", []),
        (True, False, "Connection reset by peer", ["broken"]),
        (True, False, SILENT, []),
        (True, True, "it lives", []),
    ],
)
def test_a_listener_that_takes_a_connection_and_breaks_it_does_not_show_that_the_broker_lives(
    opened: bool, answered: bool, reason: str, told: list[str]
) -> None:
    """A process that is being killed closes its listener last."""
    heard: list[str] = []
    network, transport = _Network(), _Transport()
    probe = open_probe(
        network, ("b", 1), lambda: heard.append("refused"), lambda: heard.append("broken")
    )
    assert network.connection is probe
    if opened:
        probe.opened(transport)
        assert probe.take_output()
    if answered:
        versions = API_VERSIONS.response.api_keys(
            api_key=API_VERSIONS.key, min_version=0, max_version=4
        )
        (answer,) = encode_response(API_VERSIONS, 4, 0, API_VERSIONS.response(api_keys=[versions]))
        assert isinstance(answer, bytes)
        probe.receive(memoryview(bytearray(answer)))
        assert transport.closed == ["it lives"]
    probe.closed(reason)

    assert heard == told
