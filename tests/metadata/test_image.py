"""The image: what each record makes of it, what the delta says, that it never changes under who
holds it, and that all nodes come to the same.
"""

from dataclasses import fields, replace
from random import Random

import pytest

from raftka.metadata.extension import changes_of
from raftka.metadata.image import (
    BROKER,
    TOPIC,
    BrokerImage,
    Delta,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from raftka.metadata.records import (
    NUMBERS,
    BrokerFenced,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnfenced,
    BrokerUnregistered,
    ClusterFormed,
    ConfigSet,
    ExtensionChanged,
    ExtensionDelete,
    ExtensionPut,
    FeatureLevelSet,
    NoOp,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsAllocated,
    Record,
    TopicCreated,
    TopicDeleted,
    decode_batch,
    encode_batch,
)
from raftka.versions import NewerFormat

A, B = b"A" * 16, b"B" * 16
REGISTERED = BrokerRegistered(
    1, b"i" * 16, b"d" * 16, (("PLAINTEXT", "host", 9092, "PLAINTEXT"),), "rack"
)
TWO_PARTITIONS = TopicCreated("a", A, (((1, 2), (1, 2), 1), ((2, 1), (2,), 2)))


def image_of(*batches: list[Record]) -> MetadataImage:
    image = MetadataImage()
    for offset, batch in enumerate(batches, start=1):
        image, _ = image.apply(offset, batch)
    return image


def test_a_brokers_epoch_is_the_offset_of_its_registration_and_it_begins_fenced() -> None:
    image = image_of([NoOp()], [REGISTERED])

    endpoints = (Endpoint("PLAINTEXT", "host", 9092, "PLAINTEXT"),)
    assert image.brokers[1] == BrokerImage(
        1, 2, b"i" * 16, b"d" * 16, endpoints, "rack", fenced=True, shutting_down=False
    )
    assert image.brokers[1].endpoint("PLAINTEXT") == endpoints[0]
    assert image.brokers[1].endpoint("OTHER") is None


@pytest.mark.parametrize(
    ("records", "alive"),
    [
        ([], False),
        ([BrokerUnfenced(1, 1)], True),
        ([BrokerUnfenced(1, 1), BrokerFenced(1, 1)], False),
        ([BrokerUnfenced(1, 1), BrokerShuttingDown(1, 1)], False),
        ([BrokerUnfenced(1, 9)], False),  # of another process
        ([BrokerUnfenced(1, 1), BrokerFenced(1, 9)], True),
        ([BrokerUnfenced(1, 1), BrokerUnregistered(1, 9)], True),
        ([BrokerUnfenced(1, 1), BrokerUnregistered(1, 1)], False),
        ([BrokerUnfenced(7, 1)], False),
    ],
)
def test_alive_is_unfenced_and_not_shutting_down(records: list[Record], alive: bool) -> None:
    image = image_of([REGISTERED], records)

    assert image.alive(1) is alive
    assert image.alive_brokers() == ([1] if alive else [])


def test_a_topic_is_found_by_name_and_by_id() -> None:
    image = image_of([TWO_PARTITIONS])

    topic = TopicImage(
        "a",
        A,
        (PartitionImage((1, 2), (1, 2), 1, 0, 0), PartitionImage((2, 1), (2,), 2, 0, 0)),
        1,
        1,
        1,
    )
    assert image.topic_named("a") == image.topics[A] == topic
    assert image.partition(A, 1) == topic.partitions[1]
    assert image.topic_named("b") is None
    assert all(image.partition(*nowhere) is None for nowhere in ((A, 2), (A, -1), (B, 0)))
    assert image.partition_count == 2


def test_a_changed_partition_keeps_its_replicas_unless_the_record_has_others() -> None:
    image = image_of(
        [TWO_PARTITIONS],
        [PartitionChanged(A, 0, 2, 1, (2,), 1), PartitionChanged(A, 1, -1, 1, (), 1, (3, 4))],
    )

    assert image.topics[A].partitions == (
        PartitionImage((1, 2), (2,), 2, 1, 1),
        PartitionImage((3, 4), (), -1, 1, 1),
    )


def test_a_deleted_topic_takes_its_configs_along_and_leaves_others_alone() -> None:
    configs: list[Record] = [
        ConfigSet(TOPIC, "a", "x", "1"),
        ConfigSet(TOPIC, "b", "x", "1"),
        ConfigSet(BROKER, "a", "x", "1"),
    ]
    image = image_of(
        [TWO_PARTITIONS, TopicCreated("b", B, (((1,), (1,), 1),))], configs, [TopicDeleted(A)]
    )

    assert list(image.topics) == [B]
    assert image.topic_ids == {"b": B}
    assert image.configs == {(TOPIC, "b"): {"x": "1"}, (BROKER, "a"): {"x": "1"}}
    assert image.partition_count == 1


def test_a_config_without_a_value_is_gone_and_so_is_a_resource_without_configs() -> None:
    image = image_of(
        [
            ConfigSet(TOPIC, "a", "x", "1"),
            ConfigSet(TOPIC, "a", "y", "2"),
            ConfigSet(BROKER, "", "x", "3"),
        ]
    )
    assert image.config(TOPIC, "a") == {"x": "1", "y": "2"}

    image, _ = image.apply(
        2,
        [
            ConfigSet(TOPIC, "a", "x", None),
            ConfigSet(BROKER, "", "x", None),
            ConfigSet(BROKER, "7", "never", None),
        ],
    )

    assert image.configs == {(TOPIC, "a"): {"y": "2"}}
    assert image.config(TOPIC, "nobody") == {}


def test_a_feature_at_level_zero_is_not_finalized() -> None:
    image = image_of(
        [FeatureLevelSet("metadata.version", 30), FeatureLevelSet("group.version", 1)],
        [FeatureLevelSet("group.version", 0)],
    )

    assert image.features == {"metadata.version": 30}


def test_an_extension_knows_when_it_changed() -> None:
    image = image_of(
        [ExtensionPut("zoo", b"a", b"1"), ExtensionPut("zoo", b"b", b"2")],
        [ExtensionDelete("zoo", b"a")],
        [ProducerIdsAllocated(1, 1, 7)],
    )

    assert image.extensions["zoo"] == (2, {b"b": b"2"})
    assert image.next_producer_id == 7


def test_many_changes_of_an_extension_are_one_record() -> None:
    several = ExtensionChanged("zoo", ((b"a", b"1"), (b"b", b"2"), (b"a", None), (b"b", b"3")))
    image, delta = MetadataImage().apply(1, [several, ExtensionChanged("x", ((b"a", b""),))])

    assert image.extensions["zoo"] == (1, {b"b": b"3"})
    assert delta.extensions_changed == {"zoo": list(several.changes), "x": [(b"a", b"")]}
    records: list[Record] = [
        ExtensionPut("zoo", b"c", b""),
        several,
        ExtensionDelete("zoo", b"c"),
        ExtensionPut("x", b"c", b""),
    ]
    assert changes_of("zoo", records) == [(b"c", b""), *several.changes, (b"c", None)]


def test_the_delta_says_what_changed_and_nothing_else() -> None:
    before = image_of(
        [
            REGISTERED,
            TWO_PARTITIONS,
            TopicCreated("b", B, (((1,), (1,), 1),)),
            ConfigSet(TOPIC, "b", "x", "1"),
        ]
    )
    records: list[Record] = [
        PartitionChanged(A, 1, -1, 1, (2,), 1),
        PartitionChanged(B, 0, -1, 1, (1,), 1),
        TopicDeleted(B),
        BrokerUnfenced(1, 1),
        BrokerUnfenced(1, 9),
        ConfigSet(BROKER, "", "x", "1"),
        ExtensionPut("zoo", b"a", b""),
    ]

    _, delta = before.apply(2, records)

    assert delta.topics_changed == {A}
    assert delta.partitions_changed == [(A, 1)]
    assert delta.topics_deleted == {B: before.topics[B]}
    assert delta.brokers_changed == {1}
    assert delta.configs_changed == {(TOPIC, "b"), (BROKER, "")}
    assert delta.extensions_changed == {"zoo": [(b"a", b"")]}
    assert not delta.cluster_formed


def test_the_delta_of_a_created_topic_has_all_its_partitions() -> None:
    _, delta = MetadataImage().apply(1, [ClusterFormed("id"), TWO_PARTITIONS])

    assert delta.partitions_changed == [(A, 0), (A, 1)]
    assert delta.cluster_formed


def test_added_partitions_come_behind_those_that_are_there() -> None:
    before = image_of([TWO_PARTITIONS])

    image, delta = before.apply(2, [PartitionsAdded(A, 2, (((3, 1), (3,), 3),))])

    assert image.topics[A].partitions[2] == PartitionImage((3, 1), (3,), 3, 0, 0)
    assert image.topics[A].partitions[:2] == before.topics[A].partitions
    assert (image.partition_count, delta.topics_changed, delta.partitions_changed) == (
        3,
        {A},
        [(A, 2)],
    )


def test_a_topic_that_grows_and_is_deleted_in_one_batch_leaves_nothing() -> None:
    image, delta = image_of([TWO_PARTITIONS]).apply(
        2, [PartitionsAdded(A, 2, (((3, 1), (3,), 3),)), TopicDeleted(A)]
    )

    assert (image.partition_count, list(delta.topics_deleted), delta.partitions_changed) == (
        0,
        [A],
        [],
    )


def test_a_reassignment_stays_until_a_record_says_otherwise() -> None:
    under_way = PartitionChanged(A, 0, 1, 0, (1,), 1, (3, 1), (3,), (1,))
    image = image_of([TWO_PARTITIONS, under_way], [PartitionChanged(A, 0, 1, 0, (1, 3), 2)])

    assert image.topics[A].partitions[0] == PartitionImage((3, 1), (1, 3), 1, 0, 2, (3,), (1,))
    done, _ = image.apply(3, [PartitionChanged(A, 0, 3, 1, (3,), 3, (3,), (), ())])
    assert done.topics[A].partitions[0] == PartitionImage((3,), (3,), 3, 1, 3)


def test_records_from_before_reassignments_are_read() -> None:
    import msgpack

    image = image_of([TWO_PARTITIONS])
    version, offset, cluster_id, features, brokers, topics, *rest = msgpack.unpackb(
        image.to_snapshot(), use_list=False
    )
    old = tuple(
        (name, topic_id, tuple(partition[:5] for partition in partitions))
        for name, topic_id, partitions, *_ in topics
    )

    assert version == 5
    read = MetadataImage.from_snapshot(
        msgpack.packb((0, offset, cluster_id, features, brokers, old, *rest))
    )
    assert read.topics[A] == image.topics[A]._replace(created_at=0, changed_at=0, assigned_at=0)
    assert replace(read, topics=image.topics) == image
    row = (NUMBERS[PartitionChanged][0], 0, (A, 0, 1, 0, (1,), 1, None))
    assert (
        image.apply_entry(2, msgpack.packb((2, [row])))[0].topics[A].partitions[0].partition_epoch
        == 1
    )


def test_a_topic_knows_when_it_was_created_and_changed_and_how_often_it_was_assigned_anew() -> None:
    def told(image: MetadataImage) -> tuple[int, ...]:
        return image.topics[A][3:]

    image = image_of([TWO_PARTITIONS], [NoOp()])
    assert told(image) == (1, 1, 1, 0)
    led, _ = image.apply(3, [PartitionChanged(A, 0, 2, 1, (2,), 1)])
    assert told(led) == (1, 3, 1, 0)
    moved, _ = led.apply(
        4,
        [
            PartitionChanged(A, 0, 2, 1, (2,), 2, (3, 2), (3,), ()),
            PartitionsAdded(A, 2, (((1,), (1,), 1),)),
        ],
    )
    assert told(moved) == (1, 4, 4, 1)
    beside, _ = moved.apply(
        5, [PartitionsAdded(A, 9, (((1,), (1,), 1),)), PartitionChanged(A, 9, 1, 1, (1,), 1)]
    )
    assert told(beside) == (1, 4, 4, 1)
    assert told(MetadataImage.from_snapshot(moved.to_snapshot())) == (1, 4, 4, 1)


def test_a_topic_created_and_deleted_in_one_batch_was_never_there() -> None:
    changed = PartitionChanged(A, 0, 2, 1, (2,), 1)
    image, delta = MetadataImage().apply(1, [TWO_PARTITIONS, changed, TopicDeleted(A), changed])

    assert not image.topics
    assert not image.topic_ids
    assert (delta.topics_changed, delta.partitions_changed, delta.topics_deleted) == (set(), [], {})


@pytest.mark.parametrize(
    "record",
    [
        TopicCreated("a", B, ()),
        TopicCreated("b", A, ()),
        PartitionChanged(B, 0, 1, 1, (1,), 1),
        PartitionChanged(A, 9, 1, 1, (1,), 1),
        PartitionsAdded(A, 1, (((1,), (1,), 1),)),
        PartitionsAdded(A, 3, (((1,), (1,), 1),)),
        PartitionsAdded(B, 0, (((1,), (1,), 1),)),
        TopicDeleted(B),
    ],
)
def test_a_record_that_makes_no_sense_changes_nothing(record: Record) -> None:
    before = image_of([TWO_PARTITIONS])

    after, delta = before.apply(1, [record])

    assert after == before
    assert not delta.topics_changed
    assert not delta.topics_deleted


def test_an_entry_that_stands_elsewhere_than_it_was_decided_for_is_void() -> None:
    """A controller that was deposed and did not know what came before."""
    image = image_of([NoOp()])

    at_its_place, _ = image.apply_entry(2, encode_batch([TWO_PARTITIONS], 2))
    elsewhere, delta = image.apply_entry(2, encode_batch([TWO_PARTITIONS], 3))

    assert at_its_place.topics
    assert elsewhere == MetadataImage(offset=2)
    assert not delta.topics_changed


def test_an_entry_of_rafts_own_only_moves_the_offset() -> None:
    assert MetadataImage().apply_entry(5, b"")[0] == MetadataImage(offset=5)


def test_records_of_a_newer_raftka_are_refused_as_a_whole() -> None:
    import msgpack

    number, version = NUMBERS[TopicDeleted]
    for row in ((99, 0, ()), (number, version + 1, (A, "new"))):
        with pytest.raises(NewerFormat, match="this release reads"):
            MetadataImage().apply_entry(1, msgpack.packb((1, [row])))
    with pytest.raises(NewerFormat, match="version 9 of the metadata snapshot"):
        MetadataImage.from_snapshot(msgpack.packb((9, "anything")))


class Records:
    """Random batches that hit what is there, most of the time."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def batch(self) -> list[Record]:
        return [self.record() for _ in range(self.random.randint(1, 6))]

    def record(self) -> Record:
        random = self.random
        topic = random.choice([A, B, b"C" * 16])
        broker, epoch = random.randint(1, 3), random.randint(1, 30)
        isr = tuple(random.sample([1, 2, 3], random.randint(0, 3)))
        kinds: list[Record] = [
            BrokerRegistered(
                broker,
                random.randbytes(16),
                random.randbytes(16),
                (("P", "h", 1, "PLAINTEXT"),),
                random.choice([None, "r"]),
            ),
            BrokerUnfenced(broker, epoch),
            BrokerFenced(broker, epoch),
            BrokerShuttingDown(broker, epoch),
            BrokerUnregistered(broker, epoch),
            TopicCreated(
                topic.decode()[:1] + str(random.randint(0, 1)),
                topic,
                tuple(((1, 2, 3), isr, 1) for _ in range(random.randint(1, 3))),
            ),
            PartitionChanged(
                topic, random.randint(0, 2), 1, epoch, isr, epoch, random.choice([None, (3, 2, 1)])
            ),
            PartitionChanged(
                topic,
                random.randint(0, 2),
                1,
                epoch,
                isr,
                epoch,
                (1, 2, 3),
                random.choice([(), (1,)]),
                random.choice([(), (2, 3)]),
            ),
            PartitionsAdded(
                topic,
                random.randint(1, 4),
                tuple(((1, 2, 3), isr, 1) for _ in range(random.randint(1, 2))),
            ),
            TopicDeleted(topic),
            ConfigSet(
                random.choice([TOPIC, BROKER]),
                random.choice(["A0", "1", ""]),
                random.choice("xy"),
                random.choice([None, "1", ""]),
            ),
            ProducerIdsAllocated(broker, epoch, epoch * 1000),
            ExtensionPut(random.choice(["zoo", "x"]), random.randbytes(1), random.randbytes(3)),
            ExtensionDelete(random.choice(["zoo", "x"]), random.randbytes(1)),
            ExtensionChanged(
                "zoo", tuple((random.randbytes(1), random.choice([None, b"v"])) for _ in range(3))
            ),
            FeatureLevelSet("transaction.version", random.randint(0, 2)),
            ClusterFormed(str(epoch)),
        ]
        return random.choice(kinds)


def frozen(image: MetadataImage) -> str:
    return repr(image)


@pytest.mark.parametrize("seed", range(50))
def test_nodes_agree_however_they_came_by_their_image(seed: int) -> None:
    """One applies everything; one starts from a snapshot half way. An image that somebody holds
    stays as it was.
    """
    random = Random(seed)
    records = Records(random)
    taken_at = random.randint(1, 60)
    first = second = MetadataImage()
    held: list[tuple[MetadataImage, str]] = []
    for offset in range(1, 61):
        batch = records.batch()
        entry = encode_batch(batch, offset)
        assert decode_batch(entry) == (offset, batch)
        first, _ = first.apply_entry(offset, entry)
        second = (
            MetadataImage.from_snapshot(first.to_snapshot())
            if offset == taken_at
            else second.apply_entry(offset, entry)[0]
        )
        held.append((first, frozen(first)))
        assert first == second
        assert first.to_snapshot() == second.to_snapshot()
        assert first.topic_ids == {topic.name: topic_id for topic_id, topic in first.topics.items()}
        assert first.partition_count == sum(
            len(topic.partitions) for topic in first.topics.values()
        )
    assert all(frozen(image) == was for image, was in held)


def test_a_delta_is_of_extensions_alone_when_no_other_field_has_anything() -> None:
    changes: dict[str, list[tuple[bytes, bytes | None]]] = {"p": [(b"k", b"v")]}
    others = [each.name for each in fields(Delta) if each.name != "extensions_changed"]

    assert Delta(extensions_changed=changes).of_extensions_alone
    assert not Delta().of_extensions_alone
    for name in others:
        assert not Delta(**{"extensions_changed": changes, name: True}).of_extensions_alone, name  # type: ignore[arg-type]
