"""Servers of SQL as processes of their own, with their own Spark, that tests kill."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from raftka.testing import Cluster

CHILD = """
import sys, threading
from pathlib import Path
from raftka.sql.session import Session

session = Session(sys.argv[1], state=Path(sys.argv[2]))
for line in sys.stdin:
    answer = session.execute(line)
    print("done", answer.note, list(answer.rows), flush=True)
"""


class Child:
    """A server in a process of its own, with its own Spark."""

    def __init__(self, cluster: Cluster, state: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD, cluster.bootstrap_servers, str(state)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        )

    def execute(self, statement: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(statement + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()
