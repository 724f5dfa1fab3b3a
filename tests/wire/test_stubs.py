"""The stubs beside the messages are those of the messages as they are now, and what they promise is
there when the code runs.
"""

from types import ModuleType

import pytest

from bench.stubs import FOLDER, modules, path_of, stub
from raftka.wire.messages import fetch
from raftka.wire.messages.consumer_groups import MemberAssignment
from raftka.wire.messages.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from raftka.wire.rows import Row
from raftka.wire.schema import api, row_classes


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_stub_is_current(module: ModuleType) -> None:
    assert path_of(module).read_text() == stub(module), "run ./run stubs"


def test_no_stub_is_left_of_a_module_that_has_gone() -> None:
    assert {path.stem for path in FOLDER.glob("*.pyi")} == {
        path.stem for path in FOLDER.glob("*.py")
    } - {"__init__"}


def test_a_class_of_rows_has_one_name_and_is_found_by_it() -> None:
    row = FetchRequest(topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=3)])])

    assert type(row) is FETCH.request
    assert FetchPartition is FETCH.request.topics.partitions
    assert FETCH.decode_request(12, memoryview(FETCH.encode_request(12, row)))[0] == row
    assert issubclass(FetchTopic, Row)
    with pytest.raises(AttributeError, match="FetchTopics"):
        _ = fetch.FetchTopics  # type: ignore[attr-defined]


def test_a_struct_that_stands_in_two_places_has_one_class() -> None:
    from raftka.wire.messages.consumer_groups import CONSUMER_GROUP_DESCRIBE

    member = CONSUMER_GROUP_DESCRIBE.response.groups.members
    assert member.assignment is member.target_assignment is MemberAssignment


def test_two_structs_of_one_name_have_no_stub() -> None:
    module = ModuleType("twice")
    twice = "topics Topic[]\n    name string"
    module.TWICE = api("Twice", 99, versions="0", flexible=None, request=twice, response=twice)  # type: ignore[attr-defined]

    with pytest.raises(ValueError, match="two structs are called Topic"):
        stub(module)
    assert row_classes(module.TWICE)("TwiceRequest").struct.name == "TwiceRequest"
