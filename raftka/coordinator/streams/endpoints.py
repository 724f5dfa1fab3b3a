"""The end points of a streams group's members, for interactive queries: the partitions that each
member reads, as standby or active.
"""

from raftka.coordinator.machine import Steps, Topics
from raftka.coordinator.streams.commands import EndpointPartitions
from raftka.coordinator.streams.group import Member, StreamsGroup
from raftka.coordinator.streams.tasks import TaskMap
from raftka.coordinator.streams.topology import Topology


def list_endpoints(
    group: StreamsGroup, asking: Member, topics: Topics
) -> Steps[tuple[EndpointPartitions, ...]]:
    """Return an entry for each member that has an end point, the asking member last."""
    others = [each for each in group.members.values() if each.member_id != asking.member_id]
    found = []
    for member in (*others, asking):
        endpoint = member.said.endpoint
        if endpoint is not None and group.topology is not None:
            tasks = member.current.assigned.tasks()
            active = _partitions(tasks.active, group.topology, topics)
            copies = {**tasks.standby}
            for name, partitions in tasks.warmup.items():
                copies[name] = tuple(sorted({*copies.get(name, ()), *partitions}))
            standby = _partitions(copies, group.topology, topics)
            found.append(EndpointPartitions(endpoint, active, standby))
        yield
    return tuple(found)


def _partitions(tasks: TaskMap, topology: Topology, topics: Topics) -> dict[str, tuple[int, ...]]:
    """Return the partitions that these tasks read, by topic: a topic may have fewer than the
    subtopology has tasks.
    """
    found: dict[str, set[int]] = {}
    for subtopology in topology.subtopologies if tasks else ():
        partitions = tasks.get(subtopology.id, ())
        for name in subtopology.sources() if partitions else ():
            count = topics.partition_count(name)
            found.setdefault(name, set()).update([each for each in partitions if each < count])
    return {name: tuple(sorted(partitions)) for name, partitions in sorted(found.items())}
