"""One client library in a process of its own: `python -m raftka.chaos.live.clients.worker JSON`, told by lines on its standard input.

`stop`: send and read no more, and say `stopped` when all is known; `read`: read everything from the beginning, and say `done`. When the input ends
without a word, whoever started it is gone, and so is this.
"""

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

from raftka.chaos.live.clients import clients, java, java_roles, roles, wire
from raftka.chaos.live.clients.roles import Producing, Reading, Sharing, Task
from raftka.chaos.live.recorder import Recorder

STOP_S = 130.0  # a little more than a record may take
MIXED, NEW = "mixed", "new"  # groups: of all libraries in the classic protocol; of those who know the new one


def roles_of(task: Task, client: str, seed: int, kafka_home: str) -> list[object]:
    if client == wire.NAME:
        return [wire.WireProducing(task, seed), wire.WireReading(task, seed + 1), wire.WireCommitting(task, seed + 2)]
    if client == java.NAME:
        kafka = java.find(kafka_home)
        return [java_roles.JavaProducing(task, kafka), java_roles.JavaSharing(task, kafka, seed)]
    library = clients.LIBRARIES[client]()
    found: list[Any] = [Producing(task, library, seed), Reading(task, library), Sharing(task, library, MIXED)]
    if client == "confluent-kafka":
        found.append(Sharing(task, library, NEW, new_protocol=True))
    return found


def read_everything(task: Task, client: str, seed: int, kafka_home: str) -> str:
    try:
        if client == java.NAME:
            return java_roles.read_everything(task, java.find(kafka_home), seed)
        return wire.read_everything(task, seed) if client == wire.NAME else roles.read_everything(task, clients.LIBRARIES[client]())
    except Exception as error:  # whatever a library raises
        return f"{client}: {error!r}"


def _run(role: Any, broken: list[str]) -> None:
    try:
        role.run()
    except Exception as error:
        broken.append(f"{type(role).__name__} ended with {error!r}")
        raise  # into the worker's log


def say(**what: str) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> int:
    given = json.loads(sys.argv[1])
    clients.quiet()
    client, seed, home, over = given["client"], given["seed"], given["kafka_home"], threading.Event()
    recorder = Recorder(Path(given["history"]), given["began"], given["worker"])
    task = Task(given["servers"], given["topic"], given["partitions"], given["per_s"], recorder, over)
    broken: list[str] = []
    found = roles_of(task, client, seed, home)
    threads = [threading.Thread(target=_run, args=(role, broken), name=type(role).__name__, daemon=True) for role in found]
    for thread in threads:
        thread.start()
    for line in sys.stdin:
        if line == "stop\n":
            over.set()
            end = time.monotonic() + STOP_S
            for thread in threads:
                thread.join(max(0.0, end - time.monotonic()))
            broken += [f"{thread.name} hangs" for thread in threads if thread.is_alive()]  # what it began has not ended, for the history
            say(said="stopped", wrong=f"{client}: {', '.join(broken)}" if broken else "")
        elif line == "read\n":
            say(said="done", wrong=read_everything(task, client, seed, home))
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
