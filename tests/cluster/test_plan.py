"""The plan that `cluster start` makes of its options: ids, ports, properties, and its refusals."""

from pathlib import Path

import pytest

from raftka.cluster.plan import (
    NodePlan,
    PlanError,
    bridge_ports_from,
    metrics_ports_from,
    plan_cluster,
    ports_from,
)
from raftka.cluster.properties import parse
from raftka.metadata.configs.settings import NodeSettings


def planned(tmp_path: Path, nodes: int, **settings: str) -> list[NodePlan]:
    return plan_cluster(
        tmp_path,
        ports_from(19000, nodes),
        {name.replace("_", "."): value for name, value in settings.items()},
    )


def test_ids_from_one_and_ports_from_the_base(tmp_path: Path) -> None:
    plans = planned(tmp_path, 3)

    assert [(p.node_id, p.broker_port, p.controller_port) for p in plans] == [
        (1, 19000, 19100),
        (2, 19001, 19101),
        (3, 19002, 19102),
    ]
    assert (
        plans[1].properties["listeners"]
        == "PLAINTEXT://127.0.0.1:19001,CONTROLLER://127.0.0.1:19101"
    )
    assert {p.properties["controller.quorum.voters"] for p in plans} == {
        "1@127.0.0.1:19100,2@127.0.0.1:19101,3@127.0.0.1:19102"
    }


@pytest.mark.parametrize(
    ("nodes", "factor", "min_isr"), [(1, "1", None), (2, "2", None), (3, "3", "2"), (5, "3", "2")]
)
def test_replication_follows_the_number_of_nodes(
    tmp_path: Path, nodes: int, factor: str, min_isr: str | None
) -> None:
    for plan in planned(tmp_path, nodes):
        assert plan.properties["default.replication.factor"] == factor
        assert plan.properties.get("min.insync.replicas") == min_isr


def test_settings_go_to_every_node_and_win(tmp_path: Path) -> None:
    plans = planned(tmp_path, 3, min_insync_replicas="1", num_partitions="4")

    assert {
        (p.properties["min.insync.replicas"], p.properties["num.partitions"]) for p in plans
    } == {("1", "4")}


def test_everything_of_a_node_lies_in_its_folder(tmp_path: Path) -> None:
    plan = planned(tmp_path, 3)[2]
    plan.write()

    assert plan.properties_file == tmp_path / "node-3" / "server.properties"
    assert {
        path.parent for path in (plan.log_file, plan.pid_file, Path(plan.properties["log.dirs"]))
    } == {tmp_path / "node-3"}
    assert parse(plan.properties_file.read_text()) == plan.properties


def test_the_broker_accepts_the_planned_properties(tmp_path: Path) -> None:
    settings = NodeSettings.from_properties(dict(planned(tmp_path, 3)[0].properties))

    assert settings.node_id == 1


@pytest.mark.parametrize("name", ["node.id", "log.dirs", "listeners"])
def test_settings_that_differ_between_nodes_cannot_be_set_for_all(
    tmp_path: Path, name: str
) -> None:
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


B = 20_000


@pytest.mark.parametrize(
    ("bridge", "given", "one", "other"),
    [
        (
            B + 100,
            {},
            "the listener CONTROLLER of node 1 (--base-port)",
            "zookeeper.bridge.port of node 1 (--bridge-port)",
        ),
        (
            B + 2,
            {},
            "zookeeper.bridge.port of node 1 (--bridge-port)",
            "the listener PLAINTEXT of node 3 (--base-port)",
        ),
        (
            B - 2,
            {},
            "the listener PLAINTEXT of node 1 (--base-port)",
            "zookeeper.bridge.port of node 3 (--bridge-port)",
        ),
        (
            B + 199,
            {},
            "metrics.port of node 1 (--base-port)",
            "zookeeper.bridge.port of node 2 (--bridge-port)",
        ),
        (
            0,
            {"metrics.port": str(B + 1)},
            "metrics.port of node 1 (--set metrics.port)",
            "the listener PLAINTEXT of node 2 (--base-port)",
        ),
        (
            0,
            {"metrics.port": "9500"},
            "metrics.port of node 1 (--set metrics.port)",
            "metrics.port of node 2 (--set metrics.port)",
        ),
        (
            0,
            {"registry.port": "8081"},
            "registry.port of node 1 (--set registry.port)",
            "registry.port of node 2 (--set registry.port)",
        ),
        (
            0,
            {"zookeeper.bridge.admin.port": str(B + 201)},
            "zookeeper.bridge.admin.port of node 1 (--set zookeeper.bridge.admin.port)",
            "metrics.port of node 2 (--base-port)",
        ),
        (
            0,
            {"zookeeper.bridge.port": "2181"},
            "zookeeper.bridge.port of node 1 (--set",
            "zookeeper.bridge.port of node 2 (--set",
        ),
    ],
)
def test_ports_that_are_used_twice_are_told_before_anything_starts(
    tmp_path: Path, bridge: int, given: dict[str, str], one: str, other: str
) -> None:
    bridges = bridge_ports_from(bridge, 3) if bridge else ()
    with pytest.raises(PlanError, match=r"^port [0-9]+ is for ") as told:
        plan_cluster(tmp_path, ports_from(B, 3), given, metrics_ports_from(B, 3), bridges)

    assert one in str(told.value)
    assert other in str(told.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bridge", [B + 103, B - 3, B + 203, B + 3])
def test_ports_beside_each_other_are_no_mistake(tmp_path: Path, bridge: int) -> None:
    assert (
        len(
            plan_cluster(
                tmp_path,
                ports_from(B, 3),
                {"registry.port": "0"},
                metrics_ports_from(B, 3),
                bridge_ports_from(bridge, 3),
            )
        )
        == 3
    )


@pytest.mark.parametrize("bridge", [B + 1, B + 3, B + 101])
def test_ports_of_hosts_are_compared_too(tmp_path: Path, bridge: int) -> None:
    with pytest.raises(
        PlanError,
        match=(
            r"^port [0-9]+ is for .* and for .*zookeeper\.bridge\.port|^port [0-9]+ is for "
            r"zookeeper\.bridge\.port"
        ),
    ):
        plan_cluster(
            tmp_path,
            ports_from(B, 2, 2),
            {},
            metrics_ports_from(B, 2),
            bridge_ports_from(bridge, 2),
            brokers=2,
        )
