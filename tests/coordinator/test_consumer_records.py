"""The records of consumer groups: Kafka's bytes, what comes back is what was written, and what
cannot be read.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftka.coordinator.commands import Protocol
from raftka.coordinator.consumer.records import (
    CURRENT,
    FORM,
    GROUP,
    KINDS,
    MEMBER,
    REGEX,
    TARGET,
    TARGETS,
    Classic,
    Current,
    Epoch,
    Resolved,
    Said,
    current_record,
    group_record,
    member_record,
    read_key,
    read_value,
    regex_record,
    target_record,
    targets_record,
    tombstone,
)
from raftka.coordinator.modern.records import MemberState, Targets
from raftka.versions import NewerFormat

EXAMPLES = settings(max_examples=100, deadline=None, derandomize=True, database=None)
NAME = st.text(max_size=20) | st.sampled_from(["", "\0", "ä" * 200, "😀"])
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
ID = st.binary(min_size=16, max_size=16)
NAMES = st.frozensets(NAME, max_size=4).map(lambda names: tuple(sorted(names)))
CLASSIC = st.builds(
    Classic,
    INT32,
    st.lists(st.builds(Protocol, NAME, st.binary(max_size=20)), max_size=3).map(tuple),
)
SAID = st.builds(
    Said,
    st.none() | NAME,
    st.none() | NAME,
    NAME,
    NAME,
    NAMES,
    st.none() | NAME,
    INT32,
    st.none() | NAME,
    st.none() | CLASSIC,
)
EPOCHS = st.dictionaries(
    ID, st.dictionaries(st.integers(0, 2**31 - 1), INT32, min_size=1, max_size=4), max_size=3
)
TARGETED = st.dictionaries(
    ID,
    st.frozensets(st.integers(0, 2**31 - 1), max_size=4).map(lambda found: tuple(sorted(found))),
    max_size=3,
)


@EXAMPLES
@given(
    NAME,
    NAME,
    SAID,
    st.builds(Current, INT32, INT32, st.sampled_from(MemberState), EPOCHS, EPOCHS),
    TARGETED,
)
def test_members(
    group: str, member: str, said: Said, current: Current, target: dict[bytes, tuple[int, ...]]
) -> None:
    for what, record, value in (
        (MEMBER, member_record(group, member, said), said),
        (CURRENT, current_record(group, member, current), current),
        (TARGET, target_record(group, member, target), target),
    ):
        assert read_key(record.key) == (what, group, member)
        assert read_value(what, record.value or b"") == value


@EXAMPLES
@given(NAME, NAME, INT32, INT64, NAMES)
def test_groups(group: str, regex: str, epoch: int, number: int, names: tuple[str, ...]) -> None:
    for what, record, value, name in (
        (GROUP, group_record(group, Epoch(epoch, number)), Epoch(epoch, number), ""),
        (TARGETS, targets_record(group, Targets(epoch, number)), Targets(epoch, number), ""),
        (
            REGEX,
            regex_record(group, regex, Resolved(names, number, number)),
            Resolved(names, number, number),
            regex,
        ),
    ):
        assert read_key(record.key) == (what, group, name)
        assert read_value(what, record.value or b"") == value


def test_the_bytes_are_kafkas() -> None:
    """Put together by hand from Kafka's schemas: key version and names; value version, compact
    fields, tags.
    """
    assert group_record("g", Epoch(2)) == (b"\0\3\0\1g", b"\0\0\0\0\0\2\0")
    assert group_record("g", Epoch(2, 5)).value == b"\0\0\0\0\0\2\1\0\x08" + (5).to_bytes(8, "big")
    assert targets_record("g", Targets(3)) == (b"\0\6\0\1g", b"\0\0\0\0\0\3\0")
    said = Said("i", None, "c", "/h", ("t",), None, 7, None, Classic(9, (Protocol("range", b"x"),)))
    classic = b"\1\0\0\0\x09\2\6range\2x\0\0"
    body = b"\2i\0\2c\3/h\2\2t\0\0\0\0\7\0"
    tagged = b"\1\0" + bytes([len(classic)]) + classic
    assert member_record("g", "m", said) == (b"\0\5\0\1g\0\1m", b"\0\0" + body + tagged)
    assert (
        target_record("g", "m", {b"T" * 16: (0, 1)}).value
        == b"\0\0\2" + b"T" * 16 + b"\3\0\0\0\0\0\0\0\1\0\0"
    )
    epochs = b"\1\0\5\2\0\0\0\4"
    current = Current(4, 3, MemberState.UNREVOKED, {b"T" * 16: {1: 4}})
    assert (
        current_record("g", "m", current).value
        == b"\0\0\0\0\0\4\0\0\0\3\2\2" + b"T" * 16 + b"\2\0\0\0\1" + epochs + b"\1\0"
    )
    assert regex_record("g", "t.*", Resolved(("t",), 1, 2)).key == b"\0\x10\0\1g\0\3t.*"
    assert tombstone(CURRENT, "g", "m") == (b"\0\x08\0\1g\0\1m", None)


def test_what_kafka_4_1_wrote_has_no_epochs_of_partitions() -> None:
    value = b"\0\0\0\0\0\4\0\0\0\3\1\2" + b"T" * 16 + b"\2\0\0\0\1\0\1\0"

    assert read_value(CURRENT, value) == Current(4, 3, MemberState.STABLE, {b"T" * 16: {1: 4}})


def test_a_state_that_is_not_known_is_worked_out_anew() -> None:
    value = b"\0\0\0\0\0\4\0\0\0\3\x7f\1\1\0"

    assert read_value(CURRENT, value).state is MemberState.UNRELEASED


@pytest.mark.parametrize(
    "data", [b"\0", b"\0\3", b"\0\3\0\2g", b"\0\3\0\1gx", b"\0\5\0\1g", b"\0\5\0\1g\0\2m"]
)
def test_keys_that_cannot_be_read(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"is cut|is too long|a key or value of"):
        read_key(data)


@pytest.mark.parametrize("what", sorted(KINDS))
@pytest.mark.parametrize("value", [b"", b"\0\1", b"\0\0"])
def test_values_that_cannot_be_read(what: int, value: bytes) -> None:
    with pytest.raises((ValueError, NewerFormat), match=r"cannot be read|version 1|a key or value"):
        read_value(what, value)


def test_a_key_holds_the_whole_name() -> None:
    assert read_key(FORM.key(MEMBER, "g", "x" * 32767)) == (MEMBER, "g", "x" * 32767)
