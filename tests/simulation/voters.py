"""An administrator of voters, for tests of whole clusters."""

from random import Random

from raftka.chaos.simulated.cluster import CONTROLLER_PORT, Cluster
from raftka.chaos.simulated.scene import Scene
from raftka.metadata.configs.settings import METADATA_DIRECTORY
from raftka.metadata.quorum.journal import Journal
from raftka.metadata.quorum.recovery import begin_anew, read_remains
from raftka.wire.errors import Code
from raftka.wire.messages.quorum import (
    ADD_RAFT_VOTER,
    DESCRIBE_QUORUM,
    REMOVE_RAFT_VOTER,
    UPDATE_FEATURES,
    DescribeQuorumResponse,
    PartitionData,
)


def raise_level(scene: Scene) -> None:
    request = UPDATE_FEATURES.request
    row = request(
        feature_updates=[request.feature_updates(feature="kraft.version", max_version_level=1)]
    )
    answer = scene.cluster.do(scene.client, lambda: scene.client.anybody(UPDATE_FEATURES, row))
    assert (answer.error_code, answer.error_message) == (0, None)


def directory_of(cluster: Cluster, node_id: int) -> bytes:
    return cluster.nodes[node_id].quorum.directory_id


def add(
    scene: Scene, node_id: int, directory: bytes | None = None, port: int = CONTROLLER_PORT
) -> tuple[Code, str | None]:
    request = ADD_RAFT_VOTER.request
    row = request(
        timeout_ms=8000,
        voter_id=node_id,
        voter_directory_id=directory or directory_of(scene.cluster, node_id),
        listeners=[request.listeners(name="CONTROLLER", host=f"n{node_id}", port=port)],
    )
    answer = scene.cluster.do(scene.client, lambda: scene.client.anybody(ADD_RAFT_VOTER, row))
    return Code(answer.error_code), answer.error_message


def remove(scene: Scene, node_id: int, directory: bytes | None = None) -> tuple[Code, str | None]:
    row = REMOVE_RAFT_VOTER.request(
        voter_id=node_id,
        voter_directory_id=directory or directory_of(scene.cluster, node_id),
    )
    answer = scene.cluster.do(scene.client, lambda: scene.client.anybody(REMOVE_RAFT_VOTER, row))
    return Code(answer.error_code), answer.error_message


def describe(scene: Scene) -> DescribeQuorumResponse:
    request = DESCRIBE_QUORUM.request
    row = request(
        topics=[
            request.topics(
                topic_name="__cluster_metadata",
                partitions=[request.topics.partitions(partition_index=0)],
            )
        ]
    )
    answer: DescribeQuorumResponse = scene.cluster.do(
        scene.client, lambda: scene.client.anybody(DESCRIBE_QUORUM, row)
    )
    assert answer.error_code == 0
    return answer


def quorum(scene: Scene) -> PartitionData:
    found: PartitionData = describe(scene).topics[0].partitions[0]
    return found


def voters(scene: Scene) -> list[int]:
    return sorted(each.replica_id for each in quorum(scene).current_voters)


def recover_alone(cluster: Cluster, node_id: int) -> None:
    """As `raftka cluster recover`, on a node that does not run: it is the whole quorum then."""
    runtime = cluster.world.node(f"n{node_id}")
    done: list[bool] = []

    def run(_: object) -> None:
        journal = Journal.open(runtime.files, f"/data/{METADATA_DIRECTORY}", node_id)
        begin_anew(journal, read_remains(journal), (node_id,), "a test", Random(node_id))
        journal.close()
        done.append(True)

    runtime.take(run, None)
    assert cluster.world.run(lambda: bool(done), at_most_s=1.0)
    cluster.kill(node_id, power_loss=True)
