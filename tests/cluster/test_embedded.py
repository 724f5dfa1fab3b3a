"""`launch`: three nodes in this Trio process, killed and started again."""

import shutil
from pathlib import Path

import pytest
import trio

import raftka.cluster
from raftka.cli.recover import recover
from raftka.cluster.ask import ask
from raftka.cluster.plan import PlanError
from raftka.metadata.configs.settings import METADATA_DIRECTORY
from raftka.runtime.real.runtime import NodeFailed


def address(cluster: raftka.cluster.Cluster, node_id: int) -> tuple[str, int]:
    host, _, port = cluster.nodes[node_id].plan.address.rpartition(":")
    return host, int(port)


def cluster_ids(cluster: raftka.cluster.Cluster) -> set[str | None]:
    return {each.node.image.cluster_id for each in cluster.nodes.values() if each.node is not None}


async def brokers_seen_by(cluster: raftka.cluster.Cluster, node_id: int) -> set[int]:
    view = await trio.to_thread.run_sync(ask, address(cluster, node_id))
    return set(view.brokers)


async def test_three_nodes_are_ready_and_know_each_other() -> None:
    async with raftka.cluster.launch(nodes=3) as cluster:
        assert cluster.ready
        assert len(cluster.bootstrap_servers.split(",")) == 3
        assert await brokers_seen_by(cluster, 1) == {1, 2, 3}


async def test_a_killed_node_is_gone_and_comes_back_on_the_same_port() -> None:
    async with raftka.cluster.launch(nodes=3) as cluster:
        before = cluster.bootstrap_servers
        await cluster.kill(2)

        assert not cluster.ready
        assert not cluster.nodes[2].alive
        with pytest.raises(OSError, match="refused"):
            await brokers_seen_by(cluster, 2)

        await cluster.restart(2)

        assert cluster.ready
        assert cluster.bootstrap_servers == before
        assert 2 in await brokers_seen_by(cluster, 2)


async def test_a_cluster_goes_on_from_what_one_controller_has_left(tmp_path: Path) -> None:
    async with raftka.cluster.launch(nodes=3, data=tmp_path) as cluster:
        cluster_id = cluster_ids(cluster).pop()
    for node_id in (1, 3):
        shutil.rmtree(tmp_path / f"node-{node_id}" / "data" / METADATA_DIRECTORY)

    assert recover(str(tmp_path / "node-2" / "server.properties"), yes=True) == 0

    async with raftka.cluster.launch(nodes=3, data=tmp_path) as cluster:
        assert await brokers_seen_by(cluster, 1) == {1, 2, 3}
        assert cluster_ids(cluster) == {cluster_id}


async def test_settings_are_kafkas_names(tmp_path: Path) -> None:
    async with raftka.cluster.launch(
        nodes=1, data=tmp_path, num_partitions=4, properties={"min.insync.replicas": "1"}
    ) as cluster:
        assert cluster.nodes[1].plan.properties["num.partitions"] == "4"
        assert cluster.nodes[1].settings["num.partitions"] == 4

    assert (tmp_path / "node-1" / "data").is_dir()


async def test_a_ceiling_is_for_all_nodes() -> None:
    async with raftka.cluster.launch(nodes=2, api_ceiling="3.9") as cluster:
        for each in cluster.nodes.values():
            ceiling = each.node.dispatcher.ceiling if each.node is not None else None
            assert ceiling is not None
            assert ceiling.release == "3.9"


async def test_an_error_of_the_block_comes_out_as_itself() -> None:
    with pytest.raises(LookupError, match="mine"):
        async with raftka.cluster.launch(nodes=1):
            raise LookupError("mine")


async def test_a_wrong_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"num\.partitions"):
        async with raftka.cluster.launch(nodes=1, num_partition=4):
            pass
    with pytest.raises(PlanError):
        async with raftka.cluster.launch(nodes=0):
            pass


async def test_a_taken_port_is_reported() -> None:
    async with raftka.cluster.launch(nodes=1) as first:
        with pytest.raises((OSError, NodeFailed), match="cannot listen"):
            async with raftka.cluster.launch(nodes=1, base_port=first.nodes[1].plan.broker_port):
                pass
