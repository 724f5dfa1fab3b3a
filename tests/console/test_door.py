"""The door of the console: a process starts with the first connection, and no earlier."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from raftka.console import door as door_module
from raftka.console.door import Door, DoorThread
from raftka.json_values import JsonObject
from raftka.testing.waits import WAIT_SECONDS, wait_for_truth, wait_until

STAND_IN = "tests.kit.console_stand_in"
Open = Callable[..., DoorThread]


class Reports(list[str]):
    """Reports of a door; `come` is set with the first."""

    def __init__(self) -> None:
        super().__init__()
        self.come = threading.Event()

    def __call__(self, text: str) -> None:
        self.append(text)
        self.come.set()


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def open_door(reports: Reports) -> Iterator[Open]:
    opened: list[DoorThread] = []

    def start(**order: object) -> DoorThread:
        door = Door(("127.0.0.1", 0), lambda: order, reports, module=STAND_IN)
        opened.append(DoorThread(door).start())
        return opened[-1]

    yield start
    for each in opened:
        if not each.door.is_closed:
            each.close()


def ask(door: Door) -> JsonObject:
    """The answer of the process behind the door."""
    with socket.create_connection(("127.0.0.1", door.port), timeout=30) as sock:
        text = b""
        while more := sock.recv(4096):
            text += more
    answer: JsonObject = json.loads(text)
    return answer


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_pid(door: Door, pid: int | None) -> None:
    wait_until(
        f"the process is not {pid}", lambda: door.pid, lambda found: found == pid, str, WAIT_SECONDS
    )


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
    except ConnectionRefusedError:
        return True
    return False


def test_process_starts_with_the_first_connection_and_gets_the_order(open_door: Open) -> None:
    door = open_door(bootstrap="here:9092").door
    assert door.pid is None

    answer = ask(door)

    assert answer["order"] == {"bootstrap": "here:9092"}
    assert answer["pid"] == door.pid == ask(door)["pid"]


def test_process_that_has_ended_is_started_again(open_door: Open, reports: Reports) -> None:
    door = open_door(connections=1).door
    first = ask(door)["pid"]
    wait_for_pid(door, None)

    assert ask(door)["pid"] != first
    assert reports == []


def test_process_that_was_killed_is_started_again(
    open_door: Open, reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "REST_S", 0.0)  # it has run for longer
    door = open_door().door
    first = ask(door)["pid"]
    os.kill(first, signal.SIGKILL)
    wait_for_pid(door, None)

    assert ask(door)["pid"] != first
    assert reports == ["it ended with exit code -9"]


def test_failure_is_reported_and_connections_are_turned_away(
    open_door: Open, reports: Reports
) -> None:
    door = open_door(fail="no module pages").door
    with socket.create_connection(("127.0.0.1", door.port), timeout=30) as sock:
        answer = sock.recv(4096)

    assert answer.startswith(b"HTTP/1.1 503 ")
    assert reports == ["it ended with exit code 3: no module pages"]
    assert door.rest_s > 0


def test_order_that_cannot_be_made_is_reported(reports: Reports) -> None:
    def order() -> JsonObject:
        raise ValueError("no broker is known")

    thread = DoorThread(Door(("127.0.0.1", 0), order, reports, module=STAND_IN)).start()
    with socket.create_connection(("127.0.0.1", thread.door.port), timeout=30) as sock:
        assert sock.recv(4096).startswith(b"HTTP/1.1 503 ")
    thread.close()
    assert reports == ["no broker is known"]


def test_close_ends_the_process_and_frees_the_port(open_door: Open) -> None:
    thread = open_door()
    pid = ask(thread.door)["pid"]
    thread.close()

    assert not exists(pid)
    assert refuses(thread.door.port)


def test_process_that_does_not_end_is_killed(
    open_door: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "END_S", 0.1)
    thread = open_door(deaf=True)
    pid = ask(thread.door)["pid"]
    thread.close()

    assert not exists(pid)


def test_process_ends_with_its_owner() -> None:
    program = f"""
import sys
from raftka.console.door import Door, DoorThread
door = DoorThread(Door(("127.0.0.1", 0), dict, print, module={STAND_IN!r})).start().door
print(door.port, flush=True)
sys.stdin.read()
"""
    owner = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert owner.stdout is not None
    port = int(owner.stdout.readline())
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        assert json.loads(sock.recv(4096))["order"] == {}
    owner.kill()
    owner.communicate()

    wait_for_truth(lambda: refuses(port), WAIT_SECONDS)


def test_url_has_a_host_that_a_browser_can_reach() -> None:
    for host, shown in (("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "localhost"), ("::1", "[::1]")):
        door = Door((host, 0), dict, print, has_tls=host == "::1")
        scheme = "https" if host == "::1" else "http"
        assert door.url == f"{scheme}://{shown}:{door.port}/"
        door.end()
