"""The sender of markers, with a coordinator, a writer and channels that the test speaks for: who is
sent what, and what becomes of each answer.
"""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from raftka.broker.coordinators.marker_sender import MARKERS_OF_REQUEST
from raftka.broker.coordinators.partition import ACTIVE, CLOSED
from raftka.coordinator.transactions.commands import MarkersWritten, ResumeMarkers
from raftka.coordinator.transactions.records import TopicPartitions
from raftka.metadata.image import NO_PARTITION, MetadataImage, TopicImage
from raftka.runtime.simulated.world import World
from raftka.wire.errors import Code, KafkaError
from raftka.wire.rows import ZERO_UUID
from tests.kit.broker.markers import ELSEWHERE, HERE, THERE, WRITE, Scene, T


@pytest.fixture
def scene() -> Iterator[Scene]:
    with World(1) as world:
        scene = Scene(world)
        yield scene
        assert not scene.failures
        assert not world.failures


def test_each_leader_is_told_and_then_the_coordinator(scene: Scene) -> None:
    scene.send(("t", 0), ("t", 1), ("t", 3), ("u", 0))

    assert [place for place, _ in scene.written] == [("t", 0)]
    assert [(each.broker, each.places) for each in scene.questions] == [
        (THERE, [("t", 1), ("u", 0)]),
        (ELSEWHERE, [("t", 3)]),
    ]
    (marker,) = scene.questions[0].row.markers
    assert (
        marker.producer_id,
        marker.producer_epoch,
        marker.coordinator_epoch,
        marker.transaction_result,
    ) == (1000, 7, 5, True)
    assert marker.transaction_version == 2
    scene.do(lambda: scene.written[0][1](Code.NONE))
    scene.do(scene.questions[0].answer)
    assert scene.told == []
    scene.do(scene.questions[1].answer)
    assert scene.is_over


def test_a_transaction_without_partitions_is_over_at_once(scene: Scene) -> None:
    scene.send()

    assert scene.is_over


def test_one_request_is_in_flight_to_a_broker(scene: Scene) -> None:
    scene.send(("t", 1))
    scene.send(("t", 1), ("t", 2), transactional_id="y", producer_id=2000)
    scene.send(("u", 0), transactional_id="z", producer_id=3000)

    assert [each.places for each in scene.questions] == [[("t", 1)]]
    assert scene.sender.queued == 3
    scene.do(scene.questions[0].answer)
    assert scene.told == [MarkersWritten("x", 1000, 7, (1, 2))]
    assert scene.questions[1].places == [("t", 1), ("t", 2), ("u", 0)]  # all that was queued
    assert [marker.producer_id for marker in scene.questions[1].row.markers] == [2000, 3000]


def test_a_request_has_a_bounded_number_of_markers(scene: Scene) -> None:
    count = 2 * MARKERS_OF_REQUEST + 1
    scene.move(t=[THERE] * count)
    scene.send(*[("t", index) for index in range(count)])
    scene.run(1.0)

    for _ in range(3):
        scene.do(scene.questions[-1].answer)
        scene.run(1.0)

    assert [len(each.places) for each in scene.questions] == [
        MARKERS_OF_REQUEST,
        MARKERS_OF_REQUEST,
        1,
    ]
    assert scene.is_over


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize(
    "code", [Code(code) for code in (3, 6, 7, 19, 20, 56)], ids=lambda code: str(code.name)
)
def test_what_is_refused_for_a_time_is_tried_again_at_the_leader_as_then_known(
    scene: Scene, code: Code, here: bool
) -> None:
    """The other partition is not sent again."""
    place = ("t", 0) if here else ("t", 1)
    scene.send(place, ("t", 3))
    scene.do(
        lambda: scene.written[0][1](code) if here else scene.questions[0].answer({place: code})
    )
    scene.do(scene.questions[-1].answer)
    assert scene.sender.parked == 1
    assert scene.told == []

    scene.run(0.1)
    if here:
        assert [each for each, _ in scene.written] == [place] * 2
        scene.do(lambda: scene.written[1][1](code))
    else:
        assert [each.places for each in scene.questions] == [[place], [("t", 3)], [place]]
        scene.do(lambda: scene.questions[2].answer({place: code}))
    scene.move(t=[ELSEWHERE] * 4)

    assert (scene.questions[-1].broker, scene.questions[-1].places) == (ELSEWHERE, [place])
    scene.do(scene.questions[-1].answer)
    assert scene.is_over
    assert scene.warned == []


@pytest.mark.parametrize(
    "code",
    [Code.INVALID_PRODUCER_EPOCH, Code.UNSUPPORTED_VERSION, Code.UNSUPPORTED_FOR_MESSAGE_FORMAT],
)
def test_a_partition_that_has_nothing_to_end_is_passed_over(scene: Scene, code: Code) -> None:
    """Kafka gives up all of the transaction's markers for the first of these."""
    scene.send(("t", 1), ("t", 2))

    scene.do(
        lambda: scene.questions[0].answer({("t", 1): code, ("t", 2): Code.NOT_ENOUGH_REPLICAS})
    )

    assert scene.told == []
    assert scene.warned == ["marker_passed_over"]
    scene.run(0.1)
    assert scene.questions[1].places == [("t", 2)]
    scene.do(scene.questions[1].answer)
    assert scene.is_over


def test_who_has_heard_of_a_later_coordinator_ends_the_sending(scene: Scene) -> None:
    scene.send(("t", 1), ("t", 3))

    scene.do(lambda: scene.questions[0].answer({("t", 1): Code.TRANSACTION_COORDINATOR_FENCED}))
    scene.do(scene.questions[1].answer)
    scene.run(5.0)

    assert scene.told == []
    assert scene.warned == ["markers_fenced"]
    assert len(scene.questions) == 2
    assert not scene.sender._endings


def test_a_lost_connection_is_tried_again(scene: Scene) -> None:
    scene.send(("t", 1))
    scene.do(scene.questions[0].fail)
    scene.run(0.1)

    scene.do(scene.questions[1].answer)

    assert scene.is_over


def test_an_answer_without_the_partition_is_no_success(scene: Scene) -> None:
    scene.send(("t", 1))
    scene.questions[0].row.markers = []
    scene.do(scene.questions[0].answer)
    scene.run(0.1)

    assert scene.told == []
    assert scene.questions[1].places == [("t", 1)]


def test_a_partition_without_a_leader_waits_for_one(scene: Scene) -> None:
    scene.move(t=[-1])
    scene.send(("t", 0))
    scene.run(5.0)
    assert scene.written == []
    assert scene.sender.parked == 1

    scene.move(t=[HERE])

    scene.do(lambda: scene.written[0][1](Code.NONE))
    assert scene.is_over


def test_a_deleted_topic_is_passed_over_also_when_another_has_its_name(scene: Scene) -> None:
    scene.send(("t", 1), ("u", 0))
    scene.do(scene.questions[0].fail)
    scene.leaders = {"t": [HERE]}  # of fewer partitions, too
    scene.metadata.image = scene.image()
    other = TopicImage("u", b"v" * 16, (NO_PARTITION._replace(leader=HERE),))
    scene.metadata.image = MetadataImage(
        topics={**scene.metadata.image.topics, b"v" * 16: other}, topic_ids={"t": T, "u": b"v" * 16}
    )
    scene.do(scene.sender.on_image)
    scene.run(0.1)

    assert scene.written == []
    assert scene.is_over


def test_a_topic_of_which_no_id_is_known_is_found_by_its_name(scene: Scene) -> None:
    topics = {"t": TopicPartitions(ZERO_UUID, frozenset({0}), b"")}
    scene.do(lambda: scene.sender.send(WRITE._replace(topics=topics), None))

    assert [place for place, _ in scene.written] == [("t", 0)]


def test_what_is_queued_is_dropped_with_its_coordinator(scene: Scene) -> None:
    scene.send(("t", 1))
    scene.send(("t", 2), ("t", 3), transactional_id="y")
    scene.coordinator.state = CLOSED
    scene.do(lambda: scene.questions[1].answer({("t", 3): Code.NOT_ENOUGH_REPLICAS}))
    scene.do(scene.questions[0].answer)
    scene.do(scene.sender.on_image)
    scene.run(5.0)

    assert scene.told == []
    assert len(scene.questions) == 2
    assert not scene.sender._endings
    assert scene.sender.queued == scene.sender.parked == 0


def test_after_a_reload_the_markers_are_sent_with_the_new_epoch_alone(scene: Scene) -> None:
    scene.send(("t", 1))
    scene.coordinator.state = CLOSED
    scene.coordinator = SimpleNamespace(epoch=6, state=ACTIVE)
    scene.send(("t", 1))
    scene.do(scene.questions[0].answer)

    assert scene.told == []  # that was the former coordinator's
    assert scene.questions[1].row.markers[0].coordinator_epoch == 6
    scene.do(scene.questions[1].answer)
    assert scene.is_over


def test_markers_that_are_on_their_way_are_not_sent_twice(scene: Scene) -> None:
    scene.send(("t", 1))
    scene.send(("t", 1))
    scene.do(scene.questions[0].answer)

    assert len(scene.questions) == 1
    assert scene.is_over


def test_a_coordinator_that_does_not_know_whether_the_end_is_committed_is_asked_again(
    scene: Scene,
) -> None:
    scene.refusal = KafkaError(Code.COORDINATOR_NOT_AVAILABLE)
    scene.send(("t", 1), failure=scene.refusal)
    scene.run(1.1)
    assert scene.told == [ResumeMarkers("x")] * 2
    scene.refusal = None
    scene.run(5.0)

    assert scene.told == [ResumeMarkers("x")] * 3
    assert scene.questions == []


def test_a_coordinator_that_cannot_write_the_end_is_told_again(scene: Scene) -> None:
    scene.refusal = KafkaError(Code.COORDINATOR_NOT_AVAILABLE)
    scene.send(("t", 1))
    scene.do(scene.questions[0].answer)
    scene.run(1.1)
    scene.refusal = None
    scene.run(1.0)

    assert scene.told == [MarkersWritten("x", 1000, 7, (1, 2))] * 4
    assert not scene.sender._endings


def test_the_next_transaction_of_an_epoch_gets_its_own_markers(scene: Scene) -> None:
    """The coordinator has gone on, though it could not say so when the markers of the one before
    were written.
    """
    scene.refusal = KafkaError(Code.COORDINATOR_NOT_AVAILABLE)
    scene.send(("t", 1))
    scene.do(scene.questions[0].answer)
    scene.send(("t", 1), times=(3, 4), commit=False)
    scene.refusal = None
    scene.run(1.0)

    assert [question.row.markers[0].transaction_result for question in scene.questions] == [
        True,
        False,
    ]
    assert scene.told == [MarkersWritten("x", 1000, 7, (1, 2))]  # once, and nobody heard of it
    scene.do(scene.questions[1].answer)
    assert scene.told[1:] == [MarkersWritten("x", 1000, 7, (3, 4))]
