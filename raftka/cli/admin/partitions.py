"""`raftka partitions elect`: hand leadership back to the first replicas, or to whoever lives. Knows
no raftka.
"""

from collections.abc import Sequence

from raftka.cli.admin.client import TIMEOUT_MS, connect, finish, partitions_of, sentence
from raftka.cli.output import CommandFailed, command
from raftka.client.blocking.client import Client, Patience, Where
from raftka.wire.errors import Code
from raftka.wire.messages.metadata import MetadataResponsePartition
from raftka.wire.messages.partitions import ELECT_LEADERS

PREFERRED, UNCLEAN = 0, 1
HEARD_S = 5.0  # so long may the broker that we ask be behind the controller


@command
def elect(
    topics: Sequence[str],
    partitions: Sequence[int],
    unclean: bool,
    bootstrap_server: str,
    output: str,
) -> None:
    if partitions and len(topics) != 1:
        raise CommandFailed("--partition needs exactly one topic")
    if unclean and not topics:
        raise CommandFailed("an unclean election can lose records: name the topics")
    with connect(bootstrap_server) as client:
        there = partitions_of(client, topics)
        wanted: dict[str, list[int]] = {}
        for topic, partition in sorted(there):
            if not partitions or partition in partitions:
                wanted.setdefault(topic, []).append(partition)
        if missing := sorted(set(partitions) - {partition for _, partition in there}):
            raise CommandFailed(f"{topics[0]} has no partition {missing[0]}")
        request = ELECT_LEADERS.request
        rows = [
            request.topic_partitions(topic=topic, partitions=own) for topic, own in wanted.items()
        ]
        asked = request(
            election_type=UNCLEAN if unclean else PREFERRED,
            topic_partitions=rows,
            timeout_ms=TIMEOUT_MS,
        )
        answer = client.ask_controller(ELECT_LEADERS, asked)
        if answer.error_code:
            raise CommandFailed(sentence("the election", answer.error_code))
        results = [
            (each.topic, p)
            for each in answer.replica_election_results
            for p in each.partition_result
        ]
        after = _led(
            client,
            [(topic, p.partition_id) for topic, p in results if p.error_code == Code.NONE],
            unclean,
        )
        elected = [
            {
                "topic": topic,
                "partition": p.partition_id,
                "leader": after[topic, p.partition_id].leader_id,
            }
            for topic, p in results
            if p.error_code == Code.NONE
        ]
        refused = [
            sentence(f"{topic}-{p.partition_id}", p.error_code, p.error_message)
            for topic, p in results
            if p.error_code not in (Code.NONE, Code.ELECTION_NOT_NEEDED)
        ]
        finish(elected, ["topic", "partition", "leader"], output, refused)


def _led(
    client: Client, elected: Sequence[Where], unclean: bool
) -> dict[Where, MetadataResponsePartition]:
    """The partitions of these topics, when the broker that we ask has heard of the election."""
    patience = Patience(HEARD_S, "the election")
    while True:
        found = partitions_of(client, sorted({topic for topic, _ in elected})) if elected else {}
        heard = all(
            found[where].leader_id >= 0
            if unclean
            else found[where].leader_id == found[where].replica_nodes[0]
            for where in elected
        )
        if heard or patience.over:
            return found
        patience.wait("its leaders are not known yet")
