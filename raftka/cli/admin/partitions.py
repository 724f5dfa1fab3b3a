"""`raftka partitions elect`: hand leadership back to the first replicas, or to whoever lives. Knows
no raftka.
"""

from collections.abc import Sequence

from raftka.cli.admin.client import connect, finish, partitions_of, sentence
from raftka.cli.output import CommandFailed, command
from raftka.client.blocking.client import Client, Patience, Where
from raftka.client.blocking.reassignments import PREFERRED, UNCLEAN, elect_leaders
from raftka.wire.errors import Code
from raftka.wire.messages.metadata import MetadataResponsePartition

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
        if missing := sorted(set(partitions) - {partition for _, partition in there}):
            raise CommandFailed(f"{topics[0]} has no partition {missing[0]}")
        wanted = [where for where in sorted(there) if not partitions or where[1] in partitions]
        results = elect_leaders(client, wanted, UNCLEAN if unclean else PREFERRED)
        after = _led(client, [each.where for each in results if each.code == Code.NONE], unclean)
        elected = [
            {
                "topic": each.where[0],
                "partition": each.where[1],
                "leader": after[each.where].leader_id,
            }
            for each in results
            if each.code == Code.NONE
        ]
        refused = [
            sentence(f"{each.where[0]}-{each.where[1]}", each.code, each.message)
            for each in results
            if each.code not in (Code.NONE, Code.ELECTION_NOT_NEEDED)
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
