"""Workers of Kafka Connect as processes."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.request import Request, urlopen

from tests.kit.toolchains import Program

PATIENCE_S = 120
ASK_S = 30
PAUSE_S = 0.05
STRING = "org.apache.kafka.connect.storage.StringConverter"


class Connect:
    """Workers as processes, which are killed and started again, and what they say over HTTP."""

    def __init__(
        self, program: Program, bootstrap_servers: str, directory: Path, ports: list[int]
    ) -> None:
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.program = program
        self.directory = directory
        common = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "connect",
            "exactly.once.source.support": "enabled",
            "key.converter": STRING,
            "value.converter": STRING,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "scheduled.rebalance.max.delay.ms": 1000,
            "plugin.discovery": "service_load",
        }
        for kind in ("config", "offset", "status"):
            common |= {
                f"{kind}.storage.topic": f"connect-{kind}s",
                f"{kind}.storage.replication.factor": 3,
            }
        for port in ports:
            settings = {**common, "listeners": f"http://127.0.0.1:{port}"}
            self._properties(f"127.0.0.1:{port}").write_text(
                "".join(f"{name}={value}\n" for name, value in settings.items())
            )
            self.start(f"127.0.0.1:{port}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        for worker in list(self.workers):
            self.kill(worker)

    def _properties(self, worker: str) -> Path:
        return self.directory / f"{worker}.properties"

    def start(self, worker: str) -> None:
        command = [
            *self.program.command,
            "org.apache.kafka.connect.cli.ConnectDistributed",
            str(self._properties(worker)),
        ]
        self.workers[worker] = subprocess.Popen(command, env=self.program.env)

    def kill(self, worker: str) -> None:
        process = self.workers.pop(worker)
        process.kill()
        process.wait()

    def run(self, name: str, **settings: object) -> None:
        """Make a connector with one task."""
        settings = {
            "name": name,
            "tasks.max": 1,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        wait(
            lambda: (
                self._ask(
                    "PUT",
                    f"/connectors/{name}/config",
                    {key: str(value) for key, value in settings.items()},
                )
                is not None
            )
        )

    def worker_of(self, name: str) -> str | None:
        """The worker that runs the connector's task; None while there is none."""
        status = self._ask("GET", f"/connectors/{name}/status")
        running = [task for task in (status or {}).get("tasks", ()) if task["state"] == "RUNNING"]
        assert all(task["state"] != "FAILED" for task in (status or {}).get("tasks", ())), status
        return (
            running[0]["worker_id"] if running and running[0]["worker_id"] in self.workers else None
        )

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        """None when the worker can not say: it starts, or the group balances."""
        worker = next(iter(self.workers))
        request = Request(
            f"http://{worker}{path}",
            method=method,
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urlopen(request, timeout=ASK_S) as answer:
                return json.load(answer)
        except (URLError, TimeoutError, ConnectionError):
            return None

    def spread(self) -> bool:
        """Each of two connectors has its task on a worker of its own."""
        found = {self.worker_of("source"), self.worker_of("sink")}
        return None not in found and len(found) == 2


def wait(holds: Callable[[], bool], moved: Callable[[], object] = lambda: None) -> None:
    """Wait until it holds. Raises AssertionError after PATIENCE_S in which `moved` returns the
    same.
    """
    seen, end = moved(), time.monotonic() + PATIENCE_S
    while not holds():
        now = moved()
        if now != seen:
            seen, end = now, time.monotonic() + PATIENCE_S
        assert time.monotonic() < end, f"nothing moves, at {seen}"
        time.sleep(PAUSE_S)
