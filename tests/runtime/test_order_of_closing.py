"""In which order the connections of a process that is killed are closed."""

import select
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).parents[2]
DYING = """
import sys, trio
from raftka.runtime.real.runtime import open_runtime
from tests.runtime.test_real import Echo

async def main():
    async with open_runtime() as runtime:
        network = runtime.network
        ports = [network.listen("127.0.0.1", 0, Echo, first=first).port for first in (False, True)]
        print(*ports, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


def test_a_killed_process_closes_the_connections_of_its_first_listener_before_others(
    kind: str,
) -> None:
    with (
        subprocess.Popen(
            [sys.executable, "-c", DYING], stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as process,
        ExitStack() as stack,
    ):
        stack.callback(process.kill)
        assert process.stdout is not None
        later, first = map(int, process.stdout.readline().split())
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 20))
            for port in (later, first, later, first)
        ]
        for each in sockets:
            each.sendall(b"x")
            assert each.recv(1) == b"x"
        with select.epoll() as epoll:
            for each in sockets:
                epoll.register(each, select.EPOLLIN)
            process.kill()
            process.wait()
            order = [fd for fd, _ in epoll.poll(20)]  # the kernel lists them as they came
            assert order == [sockets[i].fileno() for i in (3, 1, 2, 0)]
