"""What `cluster start` makes of its options: ids, ports, properties, and what it refuses."""

from pathlib import Path

import pytest

from raftka.cluster.plan import NodePlan, PlanError, bridge_ports_from, plan_cluster, ports_from
from raftka.cluster.properties import parse
from raftka.metadata.configs.settings import NodeSettings


def planned(tmp_path: Path, nodes: int, **settings: str) -> list[NodePlan]:
    return plan_cluster(tmp_path, ports_from(19000, nodes), {name.replace("_", "."): value for name, value in settings.items()})


def test_ids_from_one_and_ports_from_the_base(tmp_path: Path) -> None:
    plans = planned(tmp_path, 3)

    assert [(p.node_id, p.broker_port, p.controller_port) for p in plans] == [(1, 19000, 19100), (2, 19001, 19101), (3, 19002, 19102)]
    assert plans[1].properties["listeners"] == "PLAINTEXT://127.0.0.1:19001,CONTROLLER://127.0.0.1:19101"
    assert {p.properties["controller.quorum.voters"] for p in plans} == {"1@127.0.0.1:19100,2@127.0.0.1:19101,3@127.0.0.1:19102"}


@pytest.mark.parametrize(("nodes", "factor", "min_isr"), [(1, "1", None), (2, "2", None), (3, "3", "2"), (5, "3", "2")])
def test_replication_follows_the_number_of_nodes(tmp_path: Path, nodes: int, factor: str, min_isr: str | None) -> None:
    for plan in planned(tmp_path, nodes):
        assert plan.properties["default.replication.factor"] == factor
        assert plan.properties.get("min.insync.replicas") == min_isr


def test_settings_go_to_every_node_and_win(tmp_path: Path) -> None:
    plans = planned(tmp_path, 3, min_insync_replicas="1", num_partitions="4")

    assert {(p.properties["min.insync.replicas"], p.properties["num.partitions"]) for p in plans} == {("1", "4")}


def test_everything_of_a_node_lies_in_its_folder(tmp_path: Path) -> None:
    plan = planned(tmp_path, 3)[2]
    plan.write()

    assert plan.properties_file == tmp_path / "node-3" / "server.properties"
    assert {path.parent for path in (plan.log_file, plan.pid_file, Path(plan.properties["log.dirs"]))} == {tmp_path / "node-3"}
    assert parse(plan.properties_file.read_text()) == plan.properties


def test_the_broker_accepts_the_planned_properties(tmp_path: Path) -> None:
    settings = NodeSettings.from_properties(dict(planned(tmp_path, 3)[0].properties))

    assert settings.node_id == 1


@pytest.mark.parametrize("name", ["node.id", "log.dirs", "listeners"])
def test_settings_that_differ_between_nodes_cannot_be_set_for_all(tmp_path: Path, name: str) -> None:
    with pytest.raises(PlanError, match=name):
        plan_cluster(tmp_path, ports_from(19000, 3), {name: "x"})


@pytest.mark.parametrize(("base", "nodes"), [(65500, 3), (-1, 3), (65435, 2)])
def test_invalid_ports_are_refused(base: int, nodes: int) -> None:
    with pytest.raises(PlanError, match="ports up to"):
        ports_from(base, nodes)


def test_a_cluster_keeps_its_size(tmp_path: Path) -> None:
    for plan in planned(tmp_path, 3):
        plan.write()

    with pytest.raises(PlanError, match="--nodes 3"):
        planned(tmp_path, 5)


def test_a_bridge_port_is_the_first_nodes(tmp_path: Path) -> None:
    plans = plan_cluster(tmp_path, ports_from(19000, 3), bridge_ports=bridge_ports_from(2181, 3))

    assert [plan.properties["zookeeper.bridge.port"] for plan in plans] == ["2181", "2182", "2183"]
    assert "zookeeper.bridge.port" not in planned(tmp_path, 3)[0].properties
    with pytest.raises(PlanError):
        bridge_ports_from(65535, 3)
