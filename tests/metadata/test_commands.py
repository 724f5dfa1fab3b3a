"""Commands and replies over the controller port: back as they went, and everything else refused."""

from typing import Any

import msgpack
import pytest

from raftka.metadata.commands import (
    AlteredPartition,
    AlterPartition,
    AlterReassignments,
    Change,
    Command,
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DescribeQuorum,
    DoomedTopic,
    ElectLeaders,
    ExtensionCommand,
    FeatureUpdate,
    Heartbeat,
    HeartbeatAnswer,
    HeldReplicas,
    ListReassignments,
    MorePartitions,
    Move,
    MovedTopic,
    NewTopic,
    OngoingPartition,
    OngoingTopic,
    PartitionResult,
    QuorumReplica,
    QuorumState,
    RegisterBroker,
    ReplicasLost,
    ReplicasOffline,
    TopicPartitions,
    TopicReplicas,
    TopicResult,
    TopicResults,
    UnregisterBroker,
    UpdateFeatures,
    WriteExtension,
    from_wire,
    read_reply,
    to_wire,
)

ID = b"t" * 16
COMMANDS: list[Command] = [
    RegisterBroker(
        1, b"i" * 16, b"d" * 16, None, (("PLAINTEXT", "host", 9092, "PLAINTEXT"),), "rack"
    ),
    Heartbeat(1, 5, 9, want_shutdown=True),
    AlterPartition(1, 5, (Change(ID, 0, 3, 4, ((1, 5), (2, -1))), Change(ID, 1, 0, 0, ()))),
    CreateTopics(
        (
            NewTopic("a", 3, 2, configs=(("x", None), ("y", "1"))),
            NewTopic("b", assignments=((0, (1, 2)),)),
        ),
        validate_only=True,
    ),
    DeleteTopics((DoomedTopic("a"), DoomedTopic(topic_id=ID))),
    WriteExtension("zoo", ((b"/a", b""), (b"/b", None)), 7),
    UnregisterBroker(3),
    CreatePartitions(
        (MorePartitions("a", 3), MorePartitions("b", 2, ((1, 2), ()))), validate_only=True
    ),
    ElectLeaders(1, (TopicPartitions("a", (0, 1)),)),
    AlterReassignments(
        (MovedTopic("a", (Move(0, (1, 2)), Move(1, None))),), allow_replication_factor_change=False
    ),
    ListReassignments(),
    UpdateFeatures((FeatureUpdate("metadata.version", 30, 1),)),
    DescribeQuorum(),
    RegisterBroker(
        1,
        ID,
        ID,
        None,
        (),
        None,
        (b"e" * 16,),
        1,
        (HeldReplicas(ID, (TopicReplicas(ID, (0, 2)),)),),
    ),
    ReplicasOffline(1, 5, ID, (TopicReplicas(ID, (0, 2)),)),
    ReplicasLost(1, 5, (TopicReplicas(ID, (0, 2)),)),
    ExtensionCommand("zoo", b"\0"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
@pytest.mark.parametrize("use_list", [True, False])
def test_a_command_comes_back_as_it_went(command: Command, use_list: bool) -> None:
    name, values = msgpack.unpackb(msgpack.packb(to_wire(command)), use_list=use_list)

    back = from_wire(name, values)

    assert back == command
    assert hash(back) == hash(command)


def test_a_reply_gets_its_names_back() -> None:
    for command, reply in (
        (COMMANDS[1], HeartbeatAnswer(False, True, False)),
        (COMMANDS[2], (AlteredPartition(ID, 0, 0, 1, 3, (1, 2), 5), AlteredPartition(ID, 1, 95))),
        (COMMANDS[3], (CreatedTopic("a", ID, 0, None, 3, 2),)),
        (COMMANDS[5], 12),
        (COMMANDS[6], None),
        (COMMANDS[7], (TopicResult("a", 37, "no"),)),
        (COMMANDS[8], (TopicResults("a", (PartitionResult(0, 84, None),)),)),
        (COMMANDS[10], (OngoingTopic("a", (OngoingPartition(0, (1, 2), (1,), (2,)),)),)),
        (COMMANDS[-1], b"any"),
        (COMMANDS[12], QuorumState(1, 2, 30, (QuorumReplica(1, 30, 5, 5),), ())),
    ):
        back = read_reply(command, msgpack.unpackb(msgpack.packb(reply)))

        assert back == reply
        assert type(back) is type(reply)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Nonsense", ()),
        ("Heartbeat", None),
        ("Heartbeat", (1, 5)),
        ("Heartbeat", (1, 5, "9", False, False)),
        ("Heartbeat", (1, 5, 9, 0, False)),
        ("Heartbeat", (True, 5, 9, False, False)),
        ("RegisterBroker", (1, "text", b"d", None, (), None, (), 0, None)),
        ("RegisterBroker", (1, b"i", b"d", None, (("P", "h", 1),), None, (), 0, None)),
        ("RegisterBroker", (1, b"i", b"d", None, {"P": "h"}, None, (), 0, None)),
        ("AlterPartition", (1, 5, ((ID, 0, 3, 4, ((1,),)),))),
        ("CreateTopics", ((("a", 1, 1, (), ((None, "x"),)),), False)),
        ("DeleteTopics", ("abc",)),
    ],
)
def test_anything_else_is_refused(name: str, values: Any) -> None:
    with pytest.raises(ValueError, match=r"expected|no such command"):
        from_wire(name, values)


def test_a_command_of_another_release_may_have_other_last_fields() -> None:
    later = from_wire("Heartbeat", (1, 5, 9, False, True, True, "of a later one"))
    earlier = from_wire("Heartbeat", (1, 5, 9))

    assert later == Heartbeat(1, 5, 9, want_fenced=True, is_cordoned=True)
    assert earlier == Heartbeat(1, 5, 9)
