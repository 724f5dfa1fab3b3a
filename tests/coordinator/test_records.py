"""The records of __consumer_offsets: Kafka's bytes, every version that may lie in a log, and what
cannot be read.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftka.coordinator.records import (
    NO_TIME,
    CommittedOffset,
    GroupMember,
    GroupMetadata,
    group_key,
    group_record,
    kind,
    offset_key,
    offset_prefix,
    offset_topic_prefix,
    offset_value,
    read_group_key,
    read_group_value,
    read_offset_key,
    read_offset_value,
)
from raftka.versions import NewerFormat
from raftka.wire.rows import ZERO_UUID

EXAMPLES = settings(max_examples=150, deadline=None, derandomize=True, database=None)
NAME = st.text(max_size=20) | st.sampled_from(
    ["", "\0", "../..", "a\nb", "ä" * 200, "😀", "x" * 32767]
)
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
ID = st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16)
MEMBERS = st.lists(
    st.builds(
        GroupMember,
        NAME,
        st.none() | NAME,
        NAME,
        NAME,
        st.integers(0, 2**31 - 1),
        INT32,
        st.binary(max_size=50),
        st.binary(max_size=50),
    ),
    max_size=3,
)

CUT = "cannot be read|is cut|a key or value of . bytes"


def key_of(group: str, topic: str, partition: int) -> bytes:
    return offset_key(offset_topic_prefix(offset_prefix(group), topic), partition)


@EXAMPLES
@given(NAME, NAME, INT32)
def test_keys_of_offsets(group: str, topic: str, partition: int) -> None:
    key = key_of(group, topic, partition)

    assert kind(key) == 1
    assert read_offset_key(key) == (group, topic, partition)


@EXAMPLES
@given(INT64, INT32, NAME, INT64, st.just(NO_TIME) | st.integers(0, 2**63 - 1), ID)
def test_committed_offsets(
    offset: int, epoch: int, metadata: str, commit_ms: int, expire_ms: int, topic_id: bytes
) -> None:
    """Version 1, for a time to expire, has neither leader epoch nor topic id."""
    value = offset_value(offset, epoch, metadata, commit_ms, expire_ms, topic_id)
    old = expire_ms != NO_TIME

    assert kind(value) == (1 if old else 4)
    assert read_offset_value(value) == CommittedOffset(
        offset, -1 if old else epoch, metadata, commit_ms, expire_ms, ZERO_UUID if old else topic_id
    )


@EXAMPLES
@given(
    NAME,
    st.builds(
        GroupMetadata, NAME, INT32, st.none() | NAME, st.none() | NAME, INT64, MEMBERS.map(tuple)
    ),
)
def test_groups(group: str, metadata: GroupMetadata) -> None:
    key, value = group_record(group, metadata)

    assert (kind(key), read_group_key(key)) == (2, group)
    assert value is not None
    assert (kind(value), read_group_value(value)) == (3, metadata)


def test_the_bytes_are_kafkas() -> None:
    """As Kafka 4.3 defines them, field by field; test_dump_offsets.py has its own tool read
    them.
    """
    assert key_of("g", "t", 7).hex() == "0001" + "000167" + "000174" + "00000007"
    assert (
        offset_value(5, 3, "m", 9).hex()
        == "0004" + f"{5:016x}" + f"{3:08x}" + "026d" + f"{9:016x}" + "00"
    )
    assert (
        offset_value(5, -1, "", 9, topic_id=b"i" * 16).hex()
        == "0004" + f"{5:016x}" + "ffffffff" + "01" + f"{9:016x}" + "01" + "0010" + "69" * 16
    )
    assert (
        offset_value(5, 3, "m", 9, 10).hex()
        == "0001" + f"{5:016x}" + "00016d" + f"{9:016x}" + f"{10:016x}"
    )
    member = GroupMember("m", "i", "c", "/h", 6, 7, b"s", b"a")
    assert group_record("g", GroupMetadata("consumer", 2, "range", "m", 9, (member,))) == (
        bytes.fromhex("0002" + "000167"),
        bytes.fromhex(
            "0003"
            + "0008"
            + b"consumer".hex()
            + "00000002"
            + "0005"
            + b"range".hex()
            + "00016d"
            + f"{9:016x}"
            + "00000001"
        )
        + bytes.fromhex(
            "00016d"
            + "000169"
            + "000163"
            + "00022f68"
            + "00000006"
            + "00000007"
            + "0000000173"
            + "0000000161"
        ),
    )


@pytest.mark.parametrize(
    ("value", "committed"),
    [
        (f"0000{5:016x}00016d{9:016x}", CommittedOffset(5, -1, "m", 9)),
        (f"0001{5:016x}00016d{9:016x}{10:016x}", CommittedOffset(5, -1, "m", 9, 10)),
        (f"0002{5:016x}00016d{9:016x}", CommittedOffset(5, -1, "m", 9)),
        (f"0003{5:016x}{3:08x}00016d{9:016x}", CommittedOffset(5, 3, "m", 9)),
        (f"0004{5:016x}{3:08x}026d{9:016x}00", CommittedOffset(5, 3, "m", 9)),
        (
            f"0004{5:016x}{3:08x}01{9:016x}02070100" + "0010" + "69" * 16,
            CommittedOffset(5, 3, "", 9, NO_TIME, b"i" * 16),
        ),
    ],
)
def test_older_versions_of_offsets(value: str, committed: CommittedOffset) -> None:
    assert read_offset_value(bytes.fromhex(value)) == committed


def test_older_versions_of_groups() -> None:
    """Before version 1 a member had no rebalance time-out of its own: its session's was both."""
    member = "00016d" + "000163" + "00022f68" + "00000007" + "0000000173" + "0000000161"
    first = "0000" + "0001" + b"c".hex() + "00000002" + "ffff" + "ffff" + "00000001" + member

    assert read_group_value(bytes.fromhex(first)) == GroupMetadata(
        "c", 2, None, None, -1, (GroupMember("m", None, "c", "/h", 7, 7, b"s", b"a"),)
    )


def test_a_key_of_version_0_is_the_same() -> None:
    assert read_offset_key(b"\0\0" + key_of("g", "t", 7)[2:]) == ("g", "t", 7)


@EXAMPLES
@given(st.binary(max_size=60), st.integers(0, 59), st.sampled_from([0, 1, 2, 3, 4, 5, 255]))
def test_what_cannot_be_read_is_a_value_error_or_newer(data: bytes, cut: int, version: int) -> None:
    whole = [
        offset_value(5, 3, "note", 9, topic_id=b"i" * 16),
        group_record("g", GroupMetadata("c", 1, "p", None, 1))[1] or b"",
    ]
    for value in (bytes([0, version]) + data, *(each[:cut] for each in whole)):
        for read in (read_offset_key, read_offset_value, read_group_key, read_group_value, kind):
            try:
                read(value)
            except (ValueError, NewerFormat):
                continue


def test_cut_records_are_refused() -> None:
    value = offset_value(5, 3, "note", 9, topic_id=b"i" * 16)
    key, group = group_record("g", GroupMetadata("c", 1, "p", None, 1))

    assert group is not None
    for size in range(len(value)):
        with pytest.raises(ValueError, match=CUT):
            read_offset_value(value[:size])
    for size in range(len(group)):
        with pytest.raises(ValueError, match=CUT):
            read_group_value(group[:size])
    for whole, read in ((key_of("g", "t", 7), read_offset_key), (key, read_group_key)):
        for size in range(len(whole)):
            with pytest.raises(ValueError, match=CUT):
                read(whole[:size])
    with pytest.raises(NewerFormat, match="version 5"):
        read_offset_value(b"\0\5" + value[2:])
    assert group_key("g") == key
