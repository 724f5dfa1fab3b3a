"""A standalone Spark with a master and two workers, each a process of its own, for drivers outside
of them.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from raftka.pipeline.java import java_home

SECONDS = 240  # for what takes twenty where nothing else runs
SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    # both workers are there before the first task
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


class Standalone:
    """Its processes end with it."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self.folder = folder
        self._home = Path(pyspark.__file__).parent
        self._stack = ExitStack()
        self.master = ""
        self.workers = ("one", "two")
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Standalone":
        try:
            log = self._start("master", "master.Master", "--port", "0")
            self.master = self._said(log, r"Starting Spark master at (spark://\S+)")
            for name in self.workers:
                self._start_worker(name)
            for name in self.workers:
                self._said(self.folder / f"{name}.log", "(Successfully registered)")
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def pid(self, name: str) -> int:
        """The Java of the master or a worker."""
        return self._processes[name].pid

    def kill_worker(self, name: str) -> None:
        """By SIGKILL; its executors end when they find it gone. Another one with its name takes its
        place.
        """
        self._processes[name].kill()
        self._processes[name].wait()
        self._start_worker(name)

    def _start_worker(self, name: str) -> None:
        self._start(
            name,
            "worker.Worker",
            "--cores",
            "1",
            "--memory",
            "600m",
            "--work-dir",
            str(self.folder / name),
            self.master,
        )

    @contextmanager
    def connect_server(self, settings: Mapping[str, str]) -> Iterator[str]:
        """A Spark Connect server, and the URL for its clients. Its driver uses these workers, which
        nobody else can use until it has ended.
        """
        given = {
            **settings,
            "spark.master": self.master,
            "spark.connect.grpc.binding.port": "0",
            "spark.connect.grpc.binding.address": "127.0.0.1",
        }
        pairs = [part for name, value in given.items() for part in ("--conf", f"{name}={value}")]
        server = "org.apache.spark.sql.connect.service.SparkConnectServer"
        log = self._run("connect", "SparkSubmit", "--class", server, *pairs, memory="600m")
        try:
            port = self._said(log, r"Spark Connect server started at:? \S*:(\d+)")
            yield f"sc://127.0.0.1:{port}"
        finally:
            self._processes["connect"].terminate()
            self._processes["connect"].wait()

    def _start(self, name: str, kind: str, *arguments: str) -> Path:
        return self._run(name, kind, "--host", "127.0.0.1", "--webui-port", "0", *arguments)

    def _run(self, name: str, kind: str, *arguments: str, memory: str = "256m") -> Path:
        environment = {
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": memory,
            "JAVA_HOME": str(java_home()),
        }
        environment["PYSPARK_PYTHON"] = sys.executable
        command = [
            str(self._home / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{kind}",
            *arguments,
        ]
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, env={**plain_environment(), **environment}, stdout=out, stderr=out
            )
        self._processes[name] = process
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)
        return log

    @staticmethod
    def _said(log: Path, pattern: str) -> str:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if match := re.search(pattern, log.read_text()):
                return match[1]
            time.sleep(0.1)
        raise AssertionError(log.read_text()[-2000:])


def plain_environment() -> dict[str, str]:
    """Of a shell in which no virtual environment is activated, and nothing is said about Spark."""
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join(each for each in os.environ["PATH"].split(os.pathsep) if each != own)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_", "VIRTUAL_ENV", "PYTHON"))
    }
    return {**kept, "PATH": path}
