"""Decisions about replicas on hosts of several brokers: see directed.py."""

from random import Random

from raftka.metadata.controller import assignment
from raftka.metadata.image import MetadataImage
from raftka.metadata.records import BrokerRegistered, BrokerShuttingDown, BrokerUnfenced, Record
from tests.mutants.directed import finds

HOSTS, BROKERS = 3, 2


def image_of(leaving: int | None) -> MetadataImage:
    """Three hosts of two brokers; the brokers of `leaving` are in a controlled shutdown."""
    image = MetadataImage()
    for broker_id in range(HOSTS * BROKERS):
        offset, host = image.offset + 1, broker_id // BROKERS
        records: list[Record] = [
            BrokerRegistered(broker_id, b"i" * 16, b"%d" % broker_id * 16, (), f"host-{host}"),
            BrokerUnfenced(broker_id, offset),
        ]
        if host == leaving:
            records.append(BrokerShuttingDown(broker_id, offset))
        image, _ = image.apply(offset, records)
    return image


def assert_on_three_hosts(image: MetadataImage) -> None:
    for replicas, _, _ in assignment.choose(image, 12, HOSTS, Random(1)):
        assert len({each // BROKERS for each in replicas}) == HOSTS, "two replicas share a host"


@finds
def replicas_share_a_host() -> None:
    assert_on_three_hosts(image_of(None))


@finds
def host_that_restarts_is_forgotten() -> None:
    assert_on_three_hosts(image_of(leaving=1))
