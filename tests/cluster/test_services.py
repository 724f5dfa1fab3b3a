"""Services beside the broker: opened when their setting says so, refused with a sentence when they
can not be.
"""

import socket

import pytest
import trio

import raftka.cluster
from raftka.cluster import services as edges


async def test_an_edge_is_there_when_its_setting_is() -> None:
    async with raftka.cluster.launch(nodes=1, bridge_port=0) as cluster:
        node = cluster.nodes[1]
        host, _, port = cluster.zookeeper_connect.partition(":")
        assert node.edges["zookeeper.bridge.port"].port == int(port)
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            await stream.send_all(b"srvr")
            assert (await stream.receive_some(100)).startswith(b"Zookeeper version")


async def test_no_edge_is_opened_by_default() -> None:
    async with raftka.cluster.launch(nodes=1) as cluster:
        assert not cluster.nodes[1].edges
        assert not cluster.nodes[1].node.extensions  # type: ignore[union-attr]
        assert cluster.zookeeper_connect == ""


async def test_a_taken_port_is_reported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(
            ValueError,
            match=f"zookeeper.bridge.port={port}: .*in use; .* change `zookeeper.bridge.port`",
        ):
            async with raftka.cluster.launch(
                nodes=1, properties={"zookeeper.bridge.port": str(port)}
            ):
                raise AssertionError("it started")


async def test_a_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(edges.EDGES, "zookeeper.bridge.port", "no_such_package.edge")

    with pytest.raises(ValueError, match="no no_such_package"):
        async with raftka.cluster.launch(nodes=1, bridge_port=0):
            raise AssertionError("it started")
