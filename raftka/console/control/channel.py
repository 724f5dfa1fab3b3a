"""The channel between the console's process and the program that started the nodes: a socket pair,
a JSON object a line, one question at a time.
"""

import json
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from raftka.json_values import Json, JsonObject

MESSAGE_BYTES = 1024 * 1024  # of a question or an answer
CHUNK = 1 << 16
END = b"\n"
DONE = {  # actions, as the time line has them
    "kill": "killed",
    "stop": "asked to stop",
    "start": "started",
    "pause": "paused",
    "resume": "resumed",
    "cut": "cut off from clients",
    "join": "joined with clients again",
    "slow": "slowed for clients",
    "hasten": "quick for clients again",
}


class ControlRefused(Exception):
    """The nodes are not in a state for that, or there is no such thing: a text for the user."""


class Control(Protocol):
    """Values are JSON. Each method may block, is called by one thread at a time, and raises
    ControlRefused.
    """

    def nodes(self) -> list[JsonObject]:
        """Return each node: `node`, `state` (running, starting, paused, stopped), `pid` (None: not
        a process of its own), and `actions`: by name the command that does the same.
        """

    def act(self, node: int, action: str) -> None:
        """Do one of the node's actions; return when it is done."""

    def faults(self) -> JsonObject:
        """Return `kinds` of faults that can be set (none: no faults here), and those that are
        `set`: `id`, `text`, `hits`, `left` (None: without end), `command`.
        """

    def set_fault(self, wanted: JsonObject, try_only: bool = False) -> JsonObject:
        """Set a fault, of a kind, and return it as `faults` does. `try_only`: do not set it."""

    def remove_faults(self, ids: Sequence[int] | None) -> None:
        """Remove these faults; None: all."""

    def events(self) -> JsonObject:
        """Return the last `events` of the time line, the oldest first: `at_ms` (since the epoch),
        `until_ms`, `times`, `text`; and `is_observed`: the nodes tell themselves of leaders, groups
        and errors.
        """


METHODS = ("nodes", "act", "faults", "set_fault", "remove_faults", "events")


class Line:
    """One end of a channel."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._rest = b""

    def send(self, message: JsonObject) -> None:
        """Raises OSError."""
        self._sock.sendall(json.dumps(message).encode() + END)

    def receive(self) -> JsonObject | None:
        """Return the next message; None: the other side has gone, or sends what no message is."""
        while END not in self._rest:
            try:
                more = self._sock.recv(CHUNK)
            except OSError:
                return None
            if not more or len(self._rest) > MESSAGE_BYTES:
                return None
            self._rest += more
        text, _, self._rest = self._rest.partition(END)
        message = json.loads(text)
        return message if isinstance(message, dict) else None

    def close(self) -> None:
        self._sock.close()


class RemoteControl:
    """A Control at the other end of a channel; any thread may use it."""

    def __init__(self, sock: socket.socket) -> None:
        self._line = Line(sock)
        self._lock = threading.Lock()

    def nodes(self) -> list[JsonObject]:
        found: list[JsonObject] = self._ask("nodes")
        return found

    def act(self, node: int, action: str) -> None:
        self._ask("act", node, action)

    def faults(self) -> JsonObject:
        found: JsonObject = self._ask("faults")
        return found

    def set_fault(self, wanted: JsonObject, try_only: bool = False) -> JsonObject:
        found: JsonObject = self._ask("set_fault", wanted, try_only)
        return found

    def remove_faults(self, ids: Sequence[int] | None) -> None:
        self._ask("remove_faults", None if ids is None else list(ids))

    def events(self) -> JsonObject:
        found: JsonObject = self._ask("events")
        return found

    def _ask(self, method: str, *arguments: Json) -> Json:
        with self._lock:
            try:
                self._line.send({"method": method, "arguments": arguments})
                answer = self._line.receive()
            except OSError:
                answer = None
        if answer is None:
            raise ControlRefused("the program that started the nodes has ended")
        if "refused" in answer:
            raise ControlRefused(answer["refused"])
        return answer["answer"]


def serve_control(
    control: Control, report: Callable[[str], None]
) -> Callable[[socket.socket], None]:
    """Return a function that answers the questions of one console, in a thread of its own, until
    that console has ended. `report` is told of what should not happen.
    """

    def serve(line: Line) -> None:
        try:
            while (message := line.receive()) is not None:
                line.send(_answer(control, message, report))
        except (OSError, ValueError) as error:
            report(f"the console's channel ended: {error}")
        finally:
            line.close()

    def begin(sock: socket.socket) -> None:
        threading.Thread(
            target=serve, args=(Line(sock),), name="raftka-console-control", daemon=True
        ).start()

    return begin


def _answer(control: Control, message: JsonObject, report: Callable[[str], None]) -> JsonObject:
    method = message.get("method")
    if method not in METHODS:
        return {"refused": f"there is no {method}"}
    try:
        return {"answer": getattr(control, method)(*message.get("arguments", ()))}
    except ControlRefused as error:
        return {"refused": str(error)}
    except Exception as error:  # the console says it; the nodes and their launcher go on
        report(f"{method} failed: {type(error).__name__} {error}")
        return {"refused": f"it failed: {error}"}
