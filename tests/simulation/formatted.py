"""Nodes that were formatted with the voters of their quorum, as `raftka broker format` does it."""

from typing import IO

from raftka.broker.node import Node
from raftka.log.directory import LogDirectory
from raftka.metadata.configs.settings import METADATA_DIRECTORY, NodeSettings
from raftka.metadata.quorum.initial_voters import INITIAL_VOTERS, InitialVoter, write_initial
from raftka.runtime.interfaces import Files, Runtime
from raftka.wire.messages.quorum import DESCRIBE_QUORUM
from tests.broker.stage import CONTROLLER_PORT, Stage

METADATA = f"/data/{METADATA_DIRECTORY}"


def voter(node_id: int) -> InitialVoter:
    return InitialVoter(node_id, f"n{node_id}", CONTROLLER_PORT, bytes(15) + bytes([node_id]))


class Formatted(Stage):
    """Nodes without controller.quorum.voters, the first of them formatted as the voters."""

    def __init__(self, nodes: int, voters: int, *, wait: bool = True) -> None:
        self.initial = tuple(voter(each) for each in range(1, voters + 1))
        super().__init__(
            nodes,
            wait=wait,
            controller_quorum_voters="",
            controller_quorum_bootstrap_servers=",".join(
                f"n{each}:{CONTROLLER_PORT}" for each in range(1, nodes + 1)
            ),
        )

    def make(self, runtime: Runtime, settings: NodeSettings, log: IO[str]) -> Node:
        """Format the directories of a voter before its first start."""
        node_id = settings.node_id
        if not log.tell() and node_id <= len(self.initial):
            self.format(runtime.files, node_id, voter(node_id).directory_id)
        return super().make(runtime, settings, log)

    def format(self, files: Files, node_id: int, directory_id: bytes) -> None:
        LogDirectory.take(files, "/data", node_id, directory_id)
        files.make_directory(METADATA)
        write_initial(files, METADATA, self.initial)

    def voters(self) -> dict[int, bytes]:
        request = DESCRIBE_QUORUM.request
        topic = request.topics(
            topic_name="__cluster_metadata",
            partitions=[request.topics.partitions(partition_index=0)],
        )
        (found,) = self.wire().ask(DESCRIBE_QUORUM, request(topics=[topic])).topics[0].partitions
        return {each.replica_id: each.replica_directory_id for each in found.current_voters}

    def has_file(self, node_id: int) -> bool:
        files = self.nodes[node_id].runtime.files
        return files.exists(f"{METADATA}/{INITIAL_VOTERS}")
