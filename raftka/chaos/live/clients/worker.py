"""One client library in a process of its own: `python -m raftka.chaos.live.clients.worker JSON`,
told by lines on its standard input.

`stop`: send and read no more, and say `stopped` when all is known; `read`: read everything from the
beginning, and say `done`. When the input ends without a word, whoever started it is gone, and so is
this.
"""

import faulthandler
import json
import sys
import threading
import time
from pathlib import Path
from typing import Protocol

from raftka.chaos.live.clients import clients, copying, java, java_roles, roles, wire
from raftka.chaos.live.clients.bootstrap import Bootstrap
from raftka.chaos.live.clients.copying import Copying, Following, Ledger
from raftka.chaos.live.clients.roles import Producing, Reading, Sharing, Task
from raftka.chaos.live.recorder import Recorder
from raftka.cluster.secured.keys import ADMIN, ClientFiles

STOP_S = 130.0  # a little more than a record may take
FINISHES = 3  # tries
# groups: of all libraries in the classic protocol; of those who know the new one
MIXED, NEW = "mixed", "new"


class Role(Protocol):
    def run(self) -> None:
        """Until the task is over."""


def roles_of(task: Task, client: str, seed: int, kafka_home: str) -> list[Role]:
    if client == wire.NAME:
        return [
            wire.WireProducing(task, seed),
            wire.WireReading(task, seed + 1),
            wire.WireCommitting(task, seed + 2),
        ]
    if client == java.NAME:
        kafka = java.find(kafka_home)
        return [java_roles.JavaProducing(task, kafka), java_roles.JavaSharing(task, kafka, seed)]
    library = clients.LIBRARIES[client]()
    found: list[Role] = [
        Producing(task, library, seed),
        Reading(task, library),
        Sharing(task, library, MIXED),
    ]
    if client == "confluent-kafka":
        found.append(Sharing(task, library, NEW, new_protocol=True))
    return found


def transactional_roles(
    task: Task, client: str, seed: int, worker: int, ledger: Ledger, kafka_home: str
) -> list[Role]:
    if client == java.NAME:
        return (
            []
            if task.bootstrap.files
            else [java_roles.JavaCopying(task, java.find(kafka_home), seed, ledger)]
        )
    return (
        [Copying(task, client, seed, worker, ledger), Following(task, client, ledger)]
        if client in clients.LIBRARIES
        else []
    )


def read_everything(task: Task, client: str, seed: int, kafka_home: str, ledger: Ledger) -> str:
    try:
        if client in clients.LIBRARIES and (wrong := copying.read_everything(task, client, ledger)):
            return wrong
        if client == java.NAME:
            return java_roles.read_everything(task, java.find(kafka_home), seed)
        return (
            wire.read_everything(task, seed)
            if client == wire.NAME
            else roles.read_everything(task, clients.LIBRARIES[client]())
        )
    except Exception as error:  # whatever a library raises
        return f"{client}: {error!r}"


def _run(role: Role, broken: list[str]) -> None:
    try:
        role.run()
    except Exception as error:
        broken.append(f"{type(role).__name__} ended with {error!r}")
        raise  # into the worker's log


def _finish(role: Copying | java_roles.JavaCopying, broken: list[str]) -> None:
    """All is healed: a failure is worth to be told, and one that passes is not."""
    for left in reversed(range(FINISHES)):
        try:
            role.finish()
            return
        except Exception as error:  # whatever a library raises
            if not left:
                broken.append(f"{type(role).__name__} did not finish: {error!r}")


def say(**what: str) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> int:
    given = json.loads(sys.argv[1])
    clients.quiet()
    client, seed, home = given["client"], given["seed"], given["kafka_home"]
    over = threading.Event()
    recorder = Recorder(Path(given["history"]), given["began"], given["worker"])
    files = ClientFiles(ADMIN, Path(given["keys"])) if given["keys"] else None
    task = Task(
        Bootstrap(given["servers"], files),
        given["topic"],
        given["partitions"],
        given["per_s"],
        recorder,
        over,
    )
    broken: list[str] = []
    ledger = Ledger(Path(given["transactions"]))
    found: list[Role] = [
        *roles_of(task, client, seed, home),
        *transactional_roles(task, client, seed, given["worker"], ledger, home),
    ]
    threads = [
        threading.Thread(target=_run, args=(role, broken), name=type(role).__name__, daemon=True)
        for role in found
    ]
    for thread in threads:
        thread.start()
    for line in sys.stdin:
        if line == "stop\n":
            over.set()
            end = time.monotonic() + STOP_S
            for thread in threads:
                thread.join(max(0.0, end - time.monotonic()))
            # what it began has not ended, for the history
            if hanging := [f"{thread.name} hangs" for thread in threads if thread.is_alive()]:
                broken += hanging
                faulthandler.dump_traceback(sys.stderr, all_threads=True)  # the worker's log
            for role in found:
                if isinstance(role, Copying | java_roles.JavaCopying):
                    _finish(role, broken)
            say(said="stopped", wrong=f"{client}: {', '.join(broken)}" if broken else "")
        elif line == "read\n":
            say(said="done", wrong=read_everything(task, client, seed, home, ledger))
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
