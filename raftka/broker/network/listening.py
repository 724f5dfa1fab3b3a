"""Listen at an address that a setting gives; an error names the setting."""

from collections.abc import Callable

from raftka.runtime.interfaces import Connection, Listener, Network


class CannotListen(OSError):
    """With the setting that says where the node should listen."""

    def __init__(self, error: OSError, setting: str) -> None:
        super().__init__(error.errno, error.strerror or str(error))
        self.setting = setting


def listen(
    network: Network,
    setting: str,
    host: str,
    port: int,
    accept: Callable[[], Connection | None],
    *,
    first: bool = False,
) -> Listener:
    """`first`: as Network.listen has it. Raises CannotListen."""
    try:
        return network.listen(host, port, accept, first=first)
    except OSError as error:
        raise CannotListen(error, setting) from None
