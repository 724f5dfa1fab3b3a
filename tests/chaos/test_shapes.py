"""The requests of each client library: every version that it sends can carry what it says."""

import pytest

from raftka.chaos.simulated.clients.shapes import APIS, MANY_KEYS, NEW_GROUPS, SHAPES, STATIC, Shape
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.groups import HEARTBEAT
from raftka.wire.messages.offsets import OFFSET_COMMIT, OFFSET_FETCH
from raftka.wire.schema import AnyApi

each_library = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
ID = bytes(range(16))


@each_library
def test_shapes_send_existing_versions(shape: Shape) -> None:
    for api in APIS:
        version = shape.version(api)
        assert version is not None
        assert api.min_version <= version <= api.max_version


@each_library
@pytest.mark.parametrize("topics", [None, {"orders": [0, 3]}], ids=["all", "some"])
def test_each_shape_reads_its_answer_to_offset_fetch(
    shape: Shape, topics: dict[str, list[int]] | None
) -> None:
    version = shape.version(OFFSET_FETCH)
    assert version is not None
    asked = OFFSET_FETCH.encode_request(
        version, shape.fetch_offsets("group", topics, {"orders": ID}, "member", 7)
    )
    assert b"group" in asked
    assert (b"orders" in asked or ID in asked) == (topics is not None)
    struct = OFFSET_FETCH.response
    answer = (
        struct(error_code=5)
        if version < 8
        else struct(groups=[struct.groups(group_id="group", error_code=5)])
    )
    assert shape.offsets(answer).error_code == 5


@each_library
def test_each_shape_finds_one_coordinator_or_several(shape: Shape) -> None:
    version = shape.version(FIND_COORDINATOR)
    assert version is not None
    asked = ["one", "other"] if version >= MANY_KEYS else ["one"]
    assert b"one" in FIND_COORDINATOR.encode_request(version, shape.find_coordinator(asked))
    struct = FIND_COORDINATOR.response
    answer = struct(node_id=3, coordinators=[struct.coordinators(key="one", node_id=3)])
    assert shape.coordinators(answer)[0].node_id == 3


@each_library
def test_old_versions_have_no_word_for_an_instance(shape: Shape) -> None:
    apis: tuple[AnyApi, ...] = (OFFSET_COMMIT, HEARTBEAT)
    for api in apis:
        version = shape.version(api)
        assert version is not None
        api.encode_request(
            version,
            api.request(
                group_id="group", member_id="m", group_instance_id=shape.instance(api, "instance")
            ),
        )


def test_shapes_of_static_members_and_of_the_new_protocol() -> None:
    assert [shape.name for shape in STATIC] == ["kafka-python-3.0.12", "rdkafka", "java-4.3", "kgo"]
    assert [shape.name for shape in NEW_GROUPS] == ["rdkafka", "java-4.3", "kgo"]
