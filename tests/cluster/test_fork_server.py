"""Nodes that are forked from one process: as good as those with an interpreter of their own, and
gone when it goes.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftka.cluster.fork_server import Forked
from raftka.cluster.processes import ClusterFailed, Processes, running


@pytest.fixture(scope="module")
def cluster() -> Iterator[Processes]:
    with running(3) as cluster:
        yield cluster


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_all_nodes_have_one_parent_that_is_not_us(cluster: Processes) -> None:
    parents = {parent_of(node.pid) for node in cluster.nodes.values()}

    assert len(parents) == 1
    assert parents != {os.getpid()}
    assert all(os.getsid(node.pid) == node.pid for node in cluster.nodes.values()), (
        "Ctrl-C would reach them"
    )


def test_they_share_what_was_imported(cluster: Processes) -> None:
    for node in cluster.nodes.values():
        kib = dict(
            line.split()[:2]
            for line in Path(f"/proc/{node.pid}/smaps_rollup").read_text().splitlines()[1:]
        )
        assert int(kib["Pss:"]) < 0.7 * int(kib["Rss:"])


def test_a_node_that_was_killed_starts_again(cluster: Processes) -> None:
    first = cluster.nodes[1].pid
    node = cluster.nodes[1].process
    assert isinstance(node, Forked)

    cluster.kill(1)
    assert node.poll() == node.wait() == -signal.SIGKILL
    node.send_signal(signal.SIGTERM)  # harms nobody: it has ended
    cluster.start(1)
    cluster.wait_ready()

    assert cluster.nodes[1].pid != first


def test_a_node_that_ends_by_itself_says_why(cluster: Processes) -> None:
    cluster.kill(2, signal.SIGTERM)
    properties = cluster.nodes[2].plan.properties_file
    before = properties.read_text()
    properties.write_text(before + "\nlog.segment.bytes=many\n")
    try:
        cluster.start(2)
        with pytest.raises(
            ClusterFailed, match=r"(?s)node 2 ended with exit code 1.*log.segment.bytes"
        ):
            cluster.wait_ready()
    finally:
        properties.write_text(before)
        cluster.start(2)
        cluster.wait_ready()


def test_nodes_end_with_what_forked_them_and_start_again(cluster: Processes) -> None:
    forge = parent_of(cluster.nodes[3].pid)
    os.kill(forge, signal.SIGKILL)
    ended: set[int] = set()
    while len(ended) < 3:
        ended |= {event.node_id for event in cluster.poll(60) if event.kind == "ended"}

    cluster.start_all()
    cluster.wait_ready()

    assert parent_of(cluster.nodes[3].pid) != forge
