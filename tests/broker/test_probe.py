"""The controller's question whether a broker's process is gone: what tells so, and what does not."""

import pytest

from raftka.broker.controller.controller_host import _Probe


class _Transport:
    peer = "b:1"

    def __init__(self) -> None:
        self.closed: list[str] = []

    def wake(self) -> None: ...

    def close(self, reason: str) -> None:
        self.closed.append(reason)

    drop = close

    def hold_reading(self, held: bool) -> None: ...

    def left(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("opened", "answered", "reason", "told"),
    [
        (False, False, "Connection refused", ["refused"]),
        (False, False, "timed out", []),
        (True, False, "Connection reset by peer", ["broken"]),
        (True, True, "it lives", []),
    ],
)
def test_a_listener_that_takes_a_connection_and_breaks_it_does_not_show_that_the_broker_lives(
    opened: bool, answered: bool, reason: str, told: list[str]
) -> None:
    """A process that is being killed closes its listener last."""
    heard: list[str] = []
    probe = _Probe(lambda: heard.append("refused"), lambda: heard.append("broken"))
    if opened:
        probe.opened(_Transport())
        assert probe.take_output()
    if answered:
        probe.receive(memoryview(b"versions"))
    probe.closed(reason)

    assert heard == told
