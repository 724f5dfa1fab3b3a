"""AddRaftVoter and RemoveRaftVoter answer as Apache Kafka 4.4.0 (tests/broker/golden_quorum.jsonl):
codes and words, with this cluster's directories in the place of those.
"""

import json
import re
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any
from uuid import UUID

from raftka.chaos.simulated.scene import Scene
from raftka.runtime.simulated.world import World
from raftka.wire.messages.cluster import UNREGISTER_CONTROLLER
from raftka.wire.messages.quorum import ADD_RAFT_VOTER, REMOVE_RAFT_VOTER
from raftka.wire.schema import AnyApi
from tests.simulation.voters import directory_of, raise_level

GOLDEN = Path(__file__).parents[1] / "broker" / "golden_quorum.jsonl"
EXCHANGES = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
# of the nodes of that cluster
DIRECTORIES = {
    1: "c36a1c89-e0da-4411-9504-f2b0a9f3892d",
    2: "2c69a4a5-0f55-04f2-beba-e878bdbc5d37",
    3: "fcc1b3ec-706f-5e5d-42a0-544a86382883",
}
KAFKAS_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
APIS: dict[str, AnyApi] = {
    "AddRaftVoter": ADD_RAFT_VOTER,
    "RemoveRaftVoter": REMOVE_RAFT_VOTER,
    "UnregisterController": UNREGISTER_CONTROLLER,
}
KEY = re.compile(r"ReplicaKey\([^)]*\)")


class Replay:
    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.cluster_id = scene.cluster.newest.image.cluster_id
        self.ours = {
            UUID(theirs).bytes: directory_of(scene.cluster, node)
            for node, theirs in DIRECTORIES.items()
        }

    def ask(self, exchange: dict[str, Any]) -> tuple[int, str | None]:
        api, asked = APIS[exchange["api"]], exchange["request"]
        client = self.scene.client
        if api is UNREGISTER_CONTROLLER:
            row = api.request(controller_id=asked["ControllerId"])
            answer = self.scene.cluster.do(client, lambda: client.anybody(api, row))
            return answer.error_code, answer.error_message
        directory = UUID(asked["VoterDirectoryId"]).bytes
        cluster_id = asked["ClusterId"]
        fields = {
            "cluster_id": self.cluster_id if cluster_id == KAFKAS_CLUSTER else cluster_id,
            "voter_id": asked["VoterId"],
            "voter_directory_id": self.ours.get(directory, directory),
        }
        if api is ADD_RAFT_VOTER:
            fields |= {
                "timeout_ms": asked["TimeoutMs"],
                "listeners": [
                    api.request.listeners(name=each["Name"], host=each["Host"], port=each["Port"])
                    for each in asked["Listeners"]
                ],
                "ack_when_committed": asked.get("AckWhenCommitted", True),
            }
        answer = self.scene.cluster.do(client, lambda: client.anybody(api, api.request(**fields)))
        return answer.error_code, in_order(answer.error_message)

    def expected(self, exchange: dict[str, Any]) -> tuple[int, str | None]:
        message = exchange["response"]["ErrorMessage"]
        if message is not None:
            message = message.replace(KAFKAS_CLUSTER, str(self.cluster_id))
            for theirs, ours in self.ours.items():
                message = message.replace(text(theirs), text(ours))
        return exchange["response"]["ErrorCode"], in_order(message)


def text(directory: bytes) -> str:
    return urlsafe_b64encode(directory).decode().rstrip("=")


def in_order(message: str | None) -> str | None:
    """Kafka prints a set in no order."""
    if message is None or "[" not in message:
        return message
    head, _, rest = message.partition("[")
    keys, _, tail = rest.rpartition("]")
    return f"{head}[{', '.join(sorted(KEY.findall(keys)))}]{tail}"


def test_answers_are_kafkas() -> None:
    with World(7) as world:
        scene = Scene(world, nodes=3, voters=1, later_voters=(2, 3))
        raise_level(scene)
        replay = Replay(scene)
        differ = {
            exchange["n"]: (found, wanted)
            for exchange in EXCHANGES
            if (found := replay.ask(exchange)) != (wanted := replay.expected(exchange))
        }

    assert differ == {}
