"""The schema registry: how soon it answers, and how many lookups and registrations a second it does
for eight connections.
"""

import json
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from bench.systems import Raftka
from raftka.testing import Cluster

CONNECTIONS = 8
WARM_UP_S = 1.0
HEAD = "Host: localhost\r\nAccept: application/vnd.schemaregistry.v1+json\r\n"


def rows(runs: int, seconds: float) -> Iterator[str]:
    yield "| schema registry, one node, eight connections | median | least | most |"
    yield "|---|---|---|---|"
    yield _row(
        "ready in a process that has a cluster, s", [_ready_in_process() for _ in range(runs)], 3
    )
    with ExitStack() as stack:
        system = stack.enter_context(Raftka(1))
        system.start()
        system.wait_ready()
        bootstrap = ",".join(f"{host}:{port}" for host, port in system.addresses)
        yield _row(
            "`raftka registry start` until it answers, s",
            [_started(bootstrap) for _ in range(runs)],
            2,
        )
        port = stack.enter_context(_registry(bootstrap))
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            for _ in range(CONNECTIONS)
        ]
        posted = _post("/subjects/t-value/versions", {"schema": '"string"'})
        _ask(sockets[:1], lambda _: posted)
        loads: dict[str, Callable[[int], bytes]] = {
            "lookups by id a second": lambda _: (
                f"GET /schemas/ids/1 HTTP/1.1\r\n{HEAD}\r\n".encode()
            ),
            "schemas registered again a second (no write)": lambda _: posted,
            "new schemas a second": lambda number: _post(
                f"/subjects/s{number}/versions",
                {"schema": f'{{"type":"fixed","name":"F{number}","size":1}}'},
            ),
        }
        for title, make in loads.items():
            _rate(sockets, make, WARM_UP_S, 0)
            yield _row(title, [_rate(sockets, make, seconds, run + 1) for run in range(runs)], 0)


def _row(title: str, figures: list[float], digits: int) -> str:
    shown = " | ".join(
        f"{figure:,.{digits}f}"
        for figure in (statistics.median(figures), min(figures), max(figures))
    )
    return f"| {title} | {shown} |"


def _ready_in_process() -> float:
    with Cluster() as cluster:
        begun = time.perf_counter()
        with cluster.registry():
            return time.perf_counter() - begun


@contextmanager
def _registry(bootstrap: str) -> Iterator[int]:
    """Its port."""
    command = [
        sys.executable,
        "-m",
        "raftka.cli",
        "registry",
        "start",
        "--bootstrap-server",
        bootstrap,
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r":(\d+)$", process.stdout.readline().strip())
            assert found is not None, "the registry did not start"
            yield int(found[1])
        finally:
            process.terminate()


def _started(bootstrap: str) -> float:
    begun = time.perf_counter()
    with _registry(bootstrap):
        return time.perf_counter() - begun


def _post(target: str, body: dict[str, str]) -> bytes:
    data = json.dumps(body)
    return f"POST {target} HTTP/1.1\r\n{HEAD}Content-Length: {len(data)}\r\n\r\n{data}".encode()


def _new(number: int) -> bytes:
    return _post(
        f"/subjects/s{number}/versions",
        {"schema": json.dumps({"type": "fixed", "name": f"F{number}", "size": 1})},
    )


def _rate(
    sockets: list[socket.socket], make: Callable[[int], bytes], seconds: float, run: int
) -> float:
    """Requests a second; `run`: so that each has numbers of its own."""
    begun, asked = time.perf_counter(), 0
    while (taken := time.perf_counter() - begun) < seconds:
        _ask(sockets, lambda at: make(run * 10_000_000 + asked + at))  # noqa: B023
        asked += len(sockets)
    return asked / taken


def _ask(sockets: list[socket.socket], make: Callable[[int], bytes]) -> None:
    for at, each in enumerate(sockets):
        each.sendall(make(at))
    for each in sockets:
        answer = each.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200 "), answer
