"""Changes that the time line tells, found in two successive metadata."""

from raftka.console.timeline import NAMES, _metadata_changes
from raftka.console.view.metadata import Topic
from tests.console.cluster.clusters import metadata, partition


def test_partitions_of_users_come_before_those_of_the_brokers() -> None:
    def known(leader: int) -> dict[str, Topic]:
        many = [partition(each, leader) for each in range(50)]
        found = metadata({"__consumer_offsets": many, "orders": [partition(0, leader)]}).topics
        return {**found, "__consumer_offsets": found["__consumer_offsets"]._replace(internal=True)}

    before, after = metadata({}), metadata({})
    before.topics, after.topics = known(1), known(2)

    changes = list(_metadata_changes(before, after))
    assert changes[0] == "orders-0: leader 1 -> 2, epoch 0"
    assert changes[1].startswith("__consumer_offsets-0: ")
    assert changes[NAMES:] == [f"and {51 - NAMES} partitions more"]
