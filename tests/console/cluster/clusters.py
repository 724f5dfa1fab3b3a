"""Metadata as values, for tests of what is made of them."""

from collections.abc import Mapping, Sequence

from raftka.console.view.metadata import Broker, Metadata, Partition, Topic

ID = "00000000-0000-0000-0000-000000000001"


def partition(
    index: int = 0,
    leader: int = 1,
    isr: Sequence[int] = (1, 2, 3),
    replicas: Sequence[int] = (1, 2, 3),
    epoch: int = 0,
) -> Partition:
    return Partition(index, leader, epoch, list(replicas), list(isr), [])


def metadata(
    topics: Mapping[str, Sequence[Partition]],
    brokers: Sequence[int] = (1, 2, 3),
    gone: Sequence[int] = (),
    controller: int = 1,
    ids: Mapping[str, str] | None = None,
) -> Metadata:
    return Metadata(
        "a-cluster",
        controller,
        {each: Broker(each, "127.0.0.1", 9000 + each, None) for each in brokers},
        {
            name: Topic(name, (ids or {}).get(name, ID), False, list(partitions), None)
            for name, partitions in topics.items()
        },
        dict.fromkeys(gone, "it is registered and not alive"),
    )
