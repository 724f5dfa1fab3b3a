"""Share consumers of one process: `python -m raftka.chaos.live.shares.consumers JSON`, with the
keys of Given. They are the members of the simulation, on real sockets, each with connections of
its own.

The line `stop` on its standard input ends their carelessness: from then on they accept whatever
they are given. The process ends when the input does, or when it is killed.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import trio

from raftka.chaos.live.shares.story_file import StoryFile, StoryWriter
from raftka.chaos.simulated.clients.client import Address, Client
from raftka.chaos.simulated.clients.sharing import Notes, ShareMember
from raftka.runtime.real.runtime import open_runtime

# of a member's pauses: a thousand members share a machine with the cluster
PACE, PACE_AT_THE_END = 40.0, 15.0
PATIENCE_S = 10.0  # of a request
ARRIVE_S = 4.0  # within so long all members of a process begin


@dataclass(frozen=True)
class Given:
    servers: Sequence[Address]
    topic: str
    members: Mapping[str, int]  # of each group, in this process
    lock_ms: int
    story: str  # path of the file
    process: str  # its name in the story


async def _run(given: Given) -> None:
    file = StoryFile(Path(given.story))
    servers = [(host, port) for host, port in given.servers]
    async with open_runtime(alone=True) as runtime:
        members = []
        for group, count in given.members.items():
            notes = Notes(given.lock_ms, StoryWriter(file, group, given.process))
            members += [
                ShareMember(Client(runtime, servers), notes, given.topic, group)
                for _ in range(count)
            ]
        chance = runtime.random("arrivals")

        async def live(member: ShareMember) -> None:
            await trio.sleep(chance.uniform(0.0, ARRIVE_S))
            runtime.spawn(member.keep_in_group, "heartbeats")
            await member.run()

        for member in members:
            member.pace, member.patience_s = PACE, PATIENCE_S
            runtime.spawn(lambda member=member: live(member), "member")  # type: ignore[misc]
        while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            if line == "stop\n":
                for member in members:
                    member.over, member.pace = True, PACE_AT_THE_END
        os._exit(0)  # as a crash: none of them says that it leaves


def main() -> None:
    trio.run(_run, Given(**json.loads(sys.argv[1])))


if __name__ == "__main__":
    main()
