"""Topics that are made on demand: soon, some at a time, and not more than a node may have
waiting.
"""

from collections.abc import Iterator

import pytest

from raftka.broker.coordinators.group_service import TOPIC
from raftka.limits import AUTOMATIC_TOPICS
from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.metadata import METADATA, MetadataRequest
from tests.broker.conftest import Lower
from tests.broker.stage import Stage


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage
        assert not stage.world.failures


def ask(names: list[str]) -> MetadataRequest:
    return METADATA.request(
        topics=[METADATA.request.topics(name=name) for name in names],
        allow_auto_topic_creation=True,
    )


def there(stage: Stage) -> set[str]:
    return {topic.name for topic in stage.nodes[1].image.topics.values()}


def test_all_that_one_request_asks_for_are_made(stage: Stage) -> None:
    names = [f"t{i}" for i in range(35)]
    wire = stage.wire()

    codes = {topic.error_code for topic in wire.ask(METADATA, ask(names)).topics}

    assert codes == {Code.UNKNOWN_TOPIC_OR_PARTITION}
    stage.wait(lambda: there(stage) == set(names))
    stage.wait(
        lambda: all(topic.error_code == 0 for topic in wire.ask(METADATA, ask(names)).topics)
    )
    assert stage.counted(AUTOMATIC_TOPICS.metric) == 0


def test_more_than_may_wait_are_left_to_be_asked_for_again(stage: Stage, lowered: Lower) -> None:
    lowered(AUTOMATIC_TOPICS, 20)
    names = [f"t{i}" for i in range(50)]
    wire = stage.wire()
    wire.ask(METADATA, ask(names))

    assert stage.counted(AUTOMATIC_TOPICS.metric) == 30
    stage.wait(lambda: len(there(stage)) == 20)
    stage.wait(
        lambda: all(topic.error_code == 0 for topic in wire.ask(METADATA, ask(names)).topics)
    )


def test_one_that_can_not_be_made_keeps_no_other_from_it(stage: Stage) -> None:
    stage.create("a.b")
    wire = stage.wire()
    wire.ask(METADATA, ask(["a_b", "good"]))  # collides: metrics take . and _ for the same

    stage.wait(lambda: "good" in there(stage))
    assert there(stage) == {"a.b", "good"}


def test_a_flood_of_names_does_not_keep_groups_from_their_topic(
    stage: Stage, lowered: Lower
) -> None:
    lowered(AUTOMATIC_TOPICS, 10)
    stage.wire().request(METADATA, ask([f"t{i}" for i in range(50)]))
    wire = stage.wire()
    stage.wait(lambda: stage.counted(AUTOMATIC_TOPICS.metric) > 0)

    wire.ask(
        FIND_COORDINATOR, FIND_COORDINATOR.request(key="g", key_type=0, coordinator_keys=["g"])
    )

    assert stage.counted(AUTOMATIC_TOPICS.metric) == 40
    stage.wait(lambda: TOPIC in there(stage))
