"""The harness' side of the workers: started, told to stop, told to read everything, gone. Knows no
client.
"""

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from raftka.chaos.live.clients import clients, java, wire
from raftka.chaos.live.clients.worker import STOP_S
from raftka.cluster.processes import SOURCES
from raftka.json_values import JsonObject

ANSWER_S = STOP_S + 30.0
READ_S = 600.0


def missing(kafka_home: str) -> dict[str, str]:
    """Clients that are not here, and why."""
    found = dict.fromkeys(clients.missing(), "it is not installed")
    try:
        java.find(kafka_home)
    except java.Missing as error:
        found[java.NAME] = str(error)
    return found


def clients_here(kafka_home: str) -> list[str]:
    lacking = missing(kafka_home)
    return [wire.NAME, *(name for name in (*clients.LIBRARIES, java.NAME) if name not in lacking)]


class Workers:
    """One process for each client. Leaving the block kills them."""

    def __init__(self, clients: list[str], given: JsonObject) -> None:
        self.wrong: list[str] = []
        self._processes: dict[str, subprocess.Popen[str]] = {}
        try:
            for number, client in enumerate(clients, 1):
                self._processes[client] = _start(
                    {
                        **given,
                        "client": client,
                        "worker": number,
                        "seed": 1000 * given["seed"] + 10 * number,
                    }
                )
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def stop(self) -> None:
        """Until all that was sent is acknowledged, or given up."""
        self._ask("stop", ANSWER_S)

    def read_everything(self) -> None:
        self._ask("read", READ_S)

    def _ask(self, word: str, within_s: float) -> None:
        end = time.monotonic() + within_s
        for process in self._processes.values():
            try:
                assert process.stdin is not None
                process.stdin.write(word + "\n")
                process.stdin.flush()
            except BrokenPipeError:
                pass  # its answer, or that there is none, tells
        for client, process in self._processes.items():
            assert process.stdout is not None
            ready = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))[0]
            line = process.stdout.readline() if ready else ""
            if (
                wrong := json.loads(line).get("wrong", "")
                if line
                else f"the worker of {client} did not {word}"
            ):
                self.wrong.append(wrong)


def _start(given: JsonObject) -> "subprocess.Popen[str]":
    log = Path(given["history"]).with_name(f"worker-{given['worker']}.log")
    with log.open("ab") as errors:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "raftka.chaos.live.clients.worker", json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(
                    [str(SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])]
                ),
            },
            start_new_session=True,  # Ctrl-C is for the harness
        )
