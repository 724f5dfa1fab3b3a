"""The brokers that are made of one properties file, and the sentences for files that will not
do.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftka.cluster.host.plan import HostPlan, plan_host
from raftka.limits import HOST_BROKERS
from raftka.metadata.configs.values import SettingError

FILE = {
    "process.roles": "broker,controller",
    "node.id": "10",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9192",
    "advertised.listeners": "PLAINTEXT://one.example.org:9092",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": (
        "10@one.example.org:9192,20@two.example.org:9192,30@three.example.org:9192"
    ),
    "log.dirs": "/a,/b/",
    "num.partitions": "7",
}


def planned(brokers: int, **more: str | None) -> HostPlan:
    properties = {**FILE, **{name.replace("_", "."): value for name, value in more.items()}}
    return plan_host(
        {name: value for name, value in properties.items() if value is not None}, brokers, "one"
    )


def test_ids_ports_and_directories_follow_each_other() -> None:
    plan = planned(3)

    assert (
        [each.node_id for each in plan.brokers]
        == [each.settings.node_id for each in plan.brokers]
        == [10, 11, 12]
    )
    assert [each.address for each in plan.brokers] == [
        "one.example.org:9092",
        "one.example.org:9093",
        "one.example.org:9094",
    ]
    assert [[listener.port for listener in each.settings.listeners] for each in plan.brokers] == [
        [9092],
        [9093],
        [9094],
    ]
    assert [each.settings.log_dirs for each in plan.brokers] == [
        ("/a/10", "/b/10"),
        ("/a/11", "/b/11"),
        ("/a/12", "/b/12"),
    ]
    assert {each.settings["num.partitions"] for each in plan.brokers} == {7}


def test_the_first_broker_alone_has_the_vote() -> None:
    plan = planned(3)

    assert [each.has_vote for each in plan.brokers] == [True, False, False]
    assert [each.settings.is_controller for each in plan.brokers] == [True, False, False]
    assert [len(each.settings.controller_listeners) for each in plan.brokers] == [1, 0, 0]
    assert all(each.settings.is_broker and len(each.settings.voters) == 3 for each in plan.brokers)


def test_a_host_may_have_no_vote() -> None:
    plan = planned(2, process_roles="broker", node_id="40", listeners="PLAINTEXT://:9092")

    assert [each.settings.roles for each in plan.brokers] == [frozenset({"broker"})] * 2
    assert not any(each.has_vote for each in plan.brokers)


@pytest.mark.parametrize(("given_rack", "rack"), [(None, "one"), ("shelf-3", "shelf-3")])
def test_all_brokers_are_on_the_rack_of_the_host(given_rack: str | None, rack: str) -> None:
    plan = planned(3, broker_rack=given_rack)

    assert plan.rack == rack
    assert {each.settings.rack for each in plan.brokers} == {rack}


def test_listeners_with_other_names_and_addresses_move_too() -> None:
    plan = planned(
        2,
        listeners="INSIDE://[::1]:19000,OUTSIDE://:0,CONTROLLER://:9192",
        advertised_listeners="INSIDE://[::1]:19000,OUTSIDE://gate:443",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        inter_broker_listener_name="INSIDE",
    )
    second = plan.brokers[1].settings

    assert [(each.listener, each.host, each.port) for each in second.listeners] == [
        ("INSIDE", "::1", 19001),
        ("OUTSIDE", "", 0),
    ]
    assert [(each.host, each.port) for each in second.advertised_listeners] == [
        ("::1", 19001),
        ("gate", 444),
    ]


def test_a_port_that_is_chosen_later_is_no_address() -> None:
    plan = planned(
        2, listeners="PLAINTEXT://:0,CONTROLLER://:9192", advertised_listeners="PLAINTEXT://one:0"
    )

    assert [each.address for each in plan.brokers] == [None, None]


def test_the_directory_of_the_metadata_log_is_each_brokers_own() -> None:
    plan = planned(2, metadata_log_dir="/fast", log_dirs=None, log_dir="/x")

    assert [each.settings["metadata.log.dir"] for each in plan.brokers] == ["/fast/10", "/fast/11"]
    assert [each.settings.log_dirs for each in plan.brokers] == [("/x/10",), ("/x/11",)]


def test_the_registry_and_the_bridge_are_the_first_brokers() -> None:
    plan = planned(2, registry_port="8081", zookeeper_bridge_port="2181")

    assert [
        (each.settings["registry.port"], each.settings["zookeeper.bridge.port"])
        for each in plan.brokers
    ] == [(8081, 2181), (None, None)]


def test_pages_of_brokers_are_on_loopback_behind_the_supervisors_token() -> None:
    logins = {"metrics_auth_basic_users": "prometheus:secret", "metrics_host": "0.0.0.0"}
    plan = planned(2, metrics_port="9292", **logins).with_pages([31001, 31002], "secret-token")

    assert [each.settings["metrics.port"] for each in plan.brokers] == [31001, 31002]
    assert {each.settings.page_host for each in plan.brokers} == {"127.0.0.1"}
    assert {each.settings["metrics.auth.bearer.token"] for each in plan.brokers} == {"secret-token"}
    assert {each.settings["metrics.auth.basic.users"] for each in plan.brokers} == {None}, (
        "users of the host's page open no broker's"
    )
    assert plan.settings.page_host == "0.0.0.0"


def test_without_metrics_port_no_broker_has_a_page() -> None:
    assert [each.settings["metrics.port"] for each in planned(2).brokers] == [None, None]


def test_the_admin_page_of_a_bridge_stays_open_where_no_login_was_asked_for() -> None:
    plan = planned(
        2, zookeeper_bridge_port="2181", zookeeper_bridge_admin_port="8080", metrics_port="9292"
    ).with_pages([1, 2], "t")

    assert [each.settings["metrics.auth.bearer.token"] for each in plan.brokers] == [None, "t"]


@pytest.mark.parametrize(
    ("brokers", "more", "said"),
    [
        (0, {}, "--brokers 0: a host has 1 to 64 brokers"),
        (HOST_BROKERS.value + 1, {}, "--brokers 65: a host has 1 to 64 brokers"),
        (2, {"node_id": None}, "node.id is missing"),
        (2, {"node_id": "9"}, "controller.quorum.voters does not have node 9"),
        (
            2,
            {
                "process_roles": "controller",
                "listeners": "CONTROLLER://:9192",
                "advertised_listeners": None,
            },
            "a host runs brokers",
        ),
        (11, {}, "broker 20 of this host is in controller.quorum.voters: a host has one voter"),
        (
            2,
            {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"},
            "port 9093 is for the listener CONTROLLER of broker 10 and for",
        ),
        (
            3,
            {"metrics_port": "9094"},
            "port 9094 is for metrics.port and for the listener PLAINTEXT of broker 12",
        ),
        (
            3,
            {"registry_port": "9093", "registry_host": "0.0.0.0"},
            "port 9093 is for registry.port and",
        ),
        (
            2,
            {"listeners": "PLAINTEXT://:65535,CONTROLLER://:9192"},
            "listeners: port 65535 + 1 is above 65535",
        ),
        (2, {"broker_rak": "x"}, "there is no setting broker.rak; did you mean broker.rack?"),
        (
            2,
            {"zookeeper_bridge_admin_port": "8080", "metrics_ssl_enable": "false"},
            "zookeeper.bridge.admin.port shares metrics.ssl",
        ),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(
    brokers: int, more: dict[str, str | None], said: str
) -> None:
    with pytest.raises(SettingError) as refused:
        planned(brokers, **more)

    assert said in str(refused.value)


def test_the_same_port_on_two_addresses_is_no_collision() -> None:
    plan = planned(
        2,
        listeners="PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.2:9093",
        advertised_listeners=None,
        controller_quorum_voters="10@127.0.0.2:9093",
    )

    assert plan.brokers[1].settings.listeners[0].port == 9093


@given(st.integers(1, 20), st.integers(1, 60_000), st.integers(0, 1000))
def test_no_two_brokers_share_an_id_a_port_or_a_directory(
    brokers: int, port: int, node_id: int
) -> None:
    plan = planned(
        brokers,
        node_id=str(node_id),
        listeners=f"PLAINTEXT://:{port}",
        process_roles="broker",
        controller_quorum_voters="5000@v:1",
        broker_rack="r",
    )

    for own in ("node_id", "address"):
        assert len({getattr(each, own) for each in plan.brokers}) == brokers
    assert len({path for each in plan.brokers for path in each.settings.log_dirs}) == 2 * brokers
