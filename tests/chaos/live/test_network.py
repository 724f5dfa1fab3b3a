"""Packets that are lost, in a network namespace of a process's own: nodes and clients go on, nobody
outside notices.
"""

import random
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from raftka.chaos.live import network
from raftka.chaos.live.nemeses.mix import chosen
from raftka.chaos.live.network import OwnNetwork, enter
from raftka.chaos.live.run import TOPIC
from raftka.chaos.live.stage import Stage
from raftka.cluster.ask import ask
from raftka.wire.messages.topics import CREATE_TOPICS

SOON_S = 20.0
SENT = 1000


def test_packets_are_lost_and_the_cluster_is_whole_afterwards(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("missing"):
        pytest.skip(done.stdout)
    assert done.stdout.splitlines() == [
        "loses some",
        "loses none",
        "lost-packets bites",
        "narrow-network bites",
        "whole",
    ]


def test_an_unsuitable_kernel_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: str) -> str:
        raise subprocess.CalledProcessError(2, ["tc", *arguments], stderr="Unknown qdisc\n")

    monkeypatch.setattr(network, "_tc", fails)

    assert network._tried(OwnNetwork()) == "`tc qdisc add dev lo clsact` fails: Unknown qdisc"


def arrived(receiver: socket.socket, address: tuple[str, int]) -> int:
    """Of so many datagrams."""
    receiver.setblocking(False)
    count = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(SENT):
            sender.sendto(b"x", address)
            try:
                count += len(receiver.recv(1))
            except BlockingIOError:
                pass
    return count


def loses(own: OwnNetwork) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        own.lose(20)
        if SENT / 2 < arrived(receiver, receiver.getsockname()) < SENT and own.hindered() > 0:
            print("loses some")
        own.lose_none()
        if arrived(receiver, receiver.getsockname()) == SENT:
            print("loses none")


def bites(stage: Stage) -> None:
    for nemesis in chosen(("lost-packets", "narrow-network")):
        nemesis.begin(stage, TOPIC, random.Random(3))

        def bitten() -> bool:
            for address in map(stage.address, stage.alive):
                ask(address)
            return nemesis.bitten(stage)  # noqa: B023

        if stage.wait_for(bitten, SOON_S):
            print(f"{nemesis.name} bites")
        nemesis.end(stage)


def main(folder: Path) -> None:
    own = enter()
    if own.missing:
        print(f"missing: {own.missing}")
        return
    loses(own)
    with Stage(folder, 3, network=own) as stage:
        request = CREATE_TOPICS.request
        stage.ask_anybody(
            CREATE_TOPICS,
            request(
                topics=[request.topics(name=TOPIC, num_partitions=3, replication_factor=3)],
                timeout_ms=5000,
            ),
        )
        stage.until_whole([TOPIC])
        bites(stage)
        stage.heal()
        stage.until_whole([TOPIC])
        print("whole")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
