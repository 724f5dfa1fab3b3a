"""The state of a cluster that a plan of balance needs: replicas with their bytes, rates of leaders,
brokers with their racks.
"""

import time
from collections.abc import Collection, Mapping
from typing import NamedTuple

from raftka.client.blocking.client import Client, Where, check
from raftka.client.blocking.connection import ClientError, Unsupported
from raftka.client.blocking.every_broker import ask_brokers
from raftka.client.blocking.log_dirs import read_directories
from raftka.metadata.balance import BalancedBroker, BalancedPartition
from raftka.wire.messages.cluster import DESCRIBE_CLUSTER
from raftka.wire.messages.configs import DESCRIBE_CONFIGS
from raftka.wire.messages.log_dirs import DESCRIBE_LOG_DIRS

CORDONED = "cordoned.log.dirs"  # of a broker: `*`: it gets no new replicas
BROKER = 4  # type of a resource with settings
ANSWER_S = 20.0  # of a broker with many replicas


class ClusterState(NamedTuple):
    """`gone`: brokers that are registered and not alive. `lagging`: partitions with replicas that
    are not in sync.
    """

    partitions: Mapping[Where, BalancedPartition]
    brokers: Mapping[int, BalancedBroker]
    gone: Collection[int]
    lagging: Collection[Where]


def read_state(client: Client, look_s: float) -> ClusterState:
    """Look twice, `look_s` seconds apart, for the rates; 0: once, and rates are 0. Raises
    ClientError when a broker that is alive does not tell its replicas.
    """
    racks, gone = find_brokers(client)
    topics = client.metadata(None).topics
    sizes, rates = _sizes(client, racks), {}
    if look_s:
        began = time.monotonic()
        time.sleep(look_s)
        later, passed_s = _sizes(client, racks), time.monotonic() - began
        rates = {
            where: max(0, size - sizes.get(where, size)) / passed_s for where, size in later.items()
        }
        sizes = later
    cordoned = find_cordoned(client, racks)
    rows = {
        (topic.name or "", each.partition_index): each
        for topic in topics
        for each in topic.partitions
        if each.replica_nodes
    }
    return ClusterState(
        {
            where: BalancedPartition(each.replica_nodes, sizes.get(where, 0), rates.get(where, 0.0))
            for where, each in rows.items()
        },
        {node_id: BalancedBroker(rack, node_id not in cordoned) for node_id, rack in racks.items()},
        gone,
        [where for where, each in rows.items() if len(each.isr_nodes) < len(each.replica_nodes)],
    )


def find_brokers(client: Client) -> tuple[dict[int, str | None], list[int]]:
    """Return the racks of the brokers that are alive, and the others."""
    request = DESCRIBE_CLUSTER.request
    for asked in (request(include_fenced_brokers=True), request()):
        try:
            answer = client.ask(DESCRIBE_CLUSTER, asked)
        except Unsupported:
            continue
        check(answer.error_code, answer.error_message)
        return (
            {each.broker_id: each.rack for each in answer.brokers if not each.is_fenced},
            [each.broker_id for each in answer.brokers if each.is_fenced],
        )
    return {each.node_id: each.rack for each in client.metadata(()).brokers}, []


def _sizes(client: Client, node_ids: Collection[int]) -> dict[Where, int]:
    """Return the bytes of the largest replica of each partition."""
    row = DESCRIBE_LOG_DIRS.request(topics=None)
    answers = ask_brokers(
        client, DESCRIBE_LOG_DIRS, dict.fromkeys(node_ids, row), within_s=ANSWER_S
    )
    for node_id, why in answers.missing.items():
        raise ClientError(f"broker {node_id} does not tell its replicas ({why})")
    found: dict[Where, int] = {}
    for answer in answers.of.values():
        check(answer.error_code, "in answer to DescribeLogDirs")
        for each in read_directories(answer):
            for where, size in each.sizes.items():
                found[where] = max(size, found.get(where, 0))
    return found


def find_cordoned(client: Client, node_ids: Collection[int]) -> set[int]:
    """Return the brokers that get no new replicas: all of their directories are cordoned."""
    resource = DESCRIBE_CONFIGS.request.resources
    rows = {
        node_id: DESCRIBE_CONFIGS.request(
            resources=[
                resource(
                    resource_type=BROKER,
                    resource_name=str(node_id),
                    configuration_keys=[CORDONED],
                )
            ]
        )
        for node_id in node_ids
    }
    answers = ask_brokers(client, DESCRIBE_CONFIGS, rows)
    return {
        node_id
        for node_id, answer in answers.of.items()
        for result in answer.results
        for each in result.configs
        if each.value == "*"
    }
