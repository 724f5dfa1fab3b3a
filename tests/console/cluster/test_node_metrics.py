"""Turn times and software of clients out of nodes' metrics."""

from raftka.console.cluster.node_metrics import (
    SoftwareRow,
    buckets_of,
    quantile,
    software_of,
    software_rows,
)

PAGE = b"""# TYPE raftka_turntimems histogram
raftka_turntimems_bucket{le="0.1"} 5.0
raftka_turntimems_bucket{le="2.5"} 98.0
raftka_turntimems_bucket{le="5.0"} 99.0
raftka_turntimems_bucket{le="+Inf"} 100.0
raftka_turntimems_count 100.0
raftka_other_bucket{le="1.0"} 7.0
"""
SOFTWARE = b"kafka_server_socket_server_metrics_connections_software"
NONE: dict[float, float] = {}


def test_buckets_are_those_of_turns() -> None:
    assert buckets_of(PAGE) == {0.1: 5.0, 2.5: 98.0, 5.0: 99.0, float("inf"): 100.0}
    assert buckets_of(b"<html>no metrics</html>") == {}


def test_a_quantile_is_the_bound_of_its_bucket() -> None:
    buckets = buckets_of(PAGE)
    assert quantile(NONE, buckets, 0.99) == 5.0
    assert quantile(NONE, buckets, 0.5) == 2.5
    assert quantile(NONE, buckets, 1.0) == 5.0, "what took longer still has the last bound"


def test_only_turns_since_the_last_reading_count() -> None:
    before = buckets_of(PAGE)
    now = {**before, 0.1: 105.0, 2.5: 198.0, 5.0: 199.0, float("inf"): 200.0}
    assert quantile(before, now, 0.99) == 0.1
    assert quantile(before, before, 0.99) is None, "there was no turn"
    assert quantile(now, before, 0.99) is None, "the node began anew"


def line(name: str, version: str, listener: str, count: float) -> bytes:
    labels = f'clientSoftwareName="{name}",clientSoftwareVersion="{version}",listener="{listener}"'
    return b"%b{%b} %d\n" % (SOFTWARE, labels.encode(), count)


def test_software_is_summed_over_listeners() -> None:
    java = "apache-kafka-java"
    page = PAGE + line(java, "4.3.1", "PLAINTEXT", 2.0) + line(java, "4.3.1", "SSL", 1.0)
    page += line("unknown", "unknown", "SSL", 4.0)
    assert software_of(page) == {(java, "4.3.1"): 3, ("unknown", "unknown"): 4}
    assert software_of(PAGE) == {}


def test_rows_of_software_are_those_of_all_nodes_with_the_most_connections_first() -> None:
    by_node = {2: {("a", "1"): 1, ("b", "1"): 2}, 1: {("b", "1"): 3, ("a", "2"): 1}}
    assert software_rows(by_node) == [
        SoftwareRow("b", "1", 5, [1, 2]),
        SoftwareRow("a", "1", 1, [2]),
        SoftwareRow("a", "2", 1, [1]),
    ]
