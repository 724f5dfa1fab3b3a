"""The console of a cluster that a launcher has started: its door, and control of the nodes. A
secured cluster of `cluster start --secure` has none: its users have certificates, and every browser
on this machine would have the administrator's.
"""

import socket
import sys
from collections.abc import Callable, Mapping, Sequence

from raftka.client.connection import Address
from raftka.cluster.plan import HOST, NodePlan
from raftka.cluster.processes import Processes
from raftka.console.control.channel import Control, serve_control
from raftka.console.control.processes import Mailbox, ProcessesControl
from raftka.console.door import Door, DoorThread
from raftka.console.order import check_console, connection_of, listener_of_clients, order_of
from raftka.json_values import JsonObject
from raftka.metadata.configs.settings import NodeSettings


def report_failure(text: str) -> None:
    print(f"raftka: the console: {text}", file=sys.stderr, flush=True)


def open_door(
    plan: NodePlan,
    addresses: Sequence[Address],
    port: int,
    control: Callable[[socket.socket], None] | None,
    own: Mapping[str, str] | None = None,
) -> Door:
    """Return the door of a cluster's console. `plan`: of any node; `addresses`: of the brokers;
    port 0 is a free one; `own`: client properties of the console, where the listener does not say
    enough. Raises OSError for a port that is taken, ValueError where no user could connect.
    """
    settings = NodeSettings.from_properties(dict(plan.properties))
    check_console(settings)
    properties, login = connection_of(settings, listener_of_clients(settings), own)

    def order() -> JsonObject:
        return order_of(settings, door.port, addresses, properties, login, has_sql=True)

    has_tls = settings["console.ssl.certificate.location"] is not None
    door = Door((HOST, port), order, report_failure, has_tls=has_tls, control=control)
    return door


class ProcessesConsole:
    """The console of a cluster of processes. Its owner calls `work_off` when `fileno()` is
    readable.
    """

    def __init__(self, cluster: Processes, port: int) -> None:
        """Listen; `start` lets browsers in. Raises OSError and ValueError, as `open_door`."""
        self._mailbox = Mailbox()
        self.control = ProcessesControl(cluster, self._mailbox)
        checked: Control = self.control
        try:
            door = open_door(
                next(iter(cluster.nodes.values())).plan,
                cluster.addresses,
                port,
                serve_control(checked, report_failure),
            )
        except (OSError, ValueError):
            self._mailbox.close()
            raise
        self._thread = DoorThread(door)

    @property
    def url(self) -> str:
        return self._thread.door.url

    @property
    def is_open(self) -> bool:
        """Return whether a browser has been there of late, so that stopped nodes may come back."""
        return self._thread.door.pid is not None

    def start(self) -> None:
        self._thread.start()

    def fileno(self) -> int:
        return self._mailbox.fileno()

    def work_off(self) -> None:
        """Do to the nodes what the console's users have asked for."""
        self._mailbox.work_off()

    def close(self) -> None:
        """Return when its process is gone; before the cluster is closed."""
        self._mailbox.close()
        self._thread.close()
