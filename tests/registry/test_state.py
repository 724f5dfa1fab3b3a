"""Records of `_schemas` and the state that they make: those of ours, of Confluent's registry, and
foreign ones.
"""

import json

import pytest

from raftka.registry.errors import RegistryError
from raftka.registry.records import (
    Body,
    Record,
    Registered,
    SchemaReference,
    delete_subject_record,
    mode_record,
    no_schema_record,
    schema_record,
    settings_record,
    used_ids_record,
)
from raftka.registry.state import State

A, B = Body("AVRO", '"string"'), Body("JSON", "{}")

# As Confluent's registry 7.9 writes them.
CONFLUENTS = [
    ('{"keytype":"NOOP","magic":0}', None),
    (
        '{"keytype":"SCHEMA","subject":"t-value","version":1,"magic":1}',
        '{"subject":"t-value","version":1,"id":1,"md5":"HvbEgGNzCgrN7LPuPhW8aw==",'
        '"schema":"\\"string\\"","deleted":false}',
    ),
    (
        '{"keytype":"SCHEMA","subject":"t-value","version":2,"magic":1}',
        '{"subject":"t-value","version":2,"id":2,"schemaType":"JSON","references":[{"name":"r",'
        '"subject":"t-value","version":1}],"schema":"{}",'
        '"deleted":false,"ts":1700000000000}',
    ),
    (
        '{"keytype":"CONFIG","subject":null,"magic":0}',
        '{"compatibilityLevel":"FULL","compatibilityGroup":null}',
    ),
    ('{"keytype":"CONFIG","subject":"t-value","magic":0}', '{"compatibilityLevel":"NONE"}'),
    ('{"keytype":"MODE","subject":"t-value","magic":0}', '{"mode":"READONLY"}'),
]


def state_of(*records: Record) -> State:
    state = State()
    for key, value in records:
        state.apply(key, value)
    return state


def test_records_of_confluents_registry() -> None:
    state = state_of(
        *(
            (key.encode(), value.encode() if value is not None else None)
            for key, value in CONFLUENTS
        )
    )

    assert state.ignored == 0
    assert [
        (each.version, each.schema_id, each.body.schema_type) for each in state.versions("t-value")
    ] == [(1, 1, "AVRO"), (2, 2, "JSON")]
    assert state.versions("t-value")[1].body.references == (SchemaReference("r", "t-value", 1),)
    assert (
        state.level("t-value"),
        state.level("other"),
        state.mode("t-value"),
        state.mode("other"),
    ) == ("NONE", "FULL", "READONLY", "READWRITE")


def test_a_record_as_confluents_registry_has_it() -> None:
    key, value = schema_record(
        Registered("t", 2, 7, Body("JSON", "{}", (SchemaReference("r", "s", 1),)))
    )

    assert key == b'{"keytype":"SCHEMA","subject":"t","version":2,"magic":1}'
    assert json.loads(value or b"") == {
        "subject": "t",
        "version": 2,
        "id": 7,
        "schemaType": "JSON",
        "references": [{"name": "r", "subject": "s", "version": 1}],
        "schema": "{}",
        "deleted": False,
    }
    assert settings_record(None, {"compatibilityLevel": "NONE"}) == (
        b'{"keytype":"CONFIG","subject":null,"magic":0}',
        b'{"compatibilityLevel":"NONE"}',
    )
    assert mode_record("t", None) == (b'{"keytype":"MODE","subject":"t","magic":0}', None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"", b"{}"),
        (b"7", b"{}"),
        (b"[" * 100_000, b"{}"),
        (b"\xff", b"{}"),
        (b'{"keytype":"SCHEMA","subject":"t","version":1}', b"no json"),
        (b'{"keytype":"SCHEMA","subject":"t","version":1}', b'{"subject":"t"}'),
        (
            b'{"keytype":"SCHEMA","subject":"t","version":1}',
            b'{"subject":"t","version":1,"id":1,"schema":"","references":[7]}',
        ),
        (b'{"keytype":"SCHEMA","version":1}', b"{}"),
        (b'{"keytype":"SOMETHING","subject":"t"}', b"{}"),
        (b'{"keytype":["SCHEMA"],"subject":"t"}', b"{}"),
    ],
)
def test_a_record_of_nobody_is_passed_by_and_counted(key: bytes | None, value: bytes) -> None:
    state = State()

    state.apply(key, value)
    state.apply(*schema_record(Registered("t", 1, 1, A)))

    assert state.ignored == 1
    assert len(state.versions("t")) == 1


def test_a_record_whose_key_is_of_another_version_than_its_value_is_passed_by() -> None:
    kept, other = schema_record(Registered("t", 1, 1, A)), schema_record(Registered("t", 2, 2, B))
    state = state_of(kept, (other[0], kept[1]), no_schema_record(Registered("t", 2, 2, B)))

    assert state.ignored == 1
    assert [(each.version, each.schema_id) for each in state] == [(1, 1)]
    assert [each.version for each in state.users(1)] == [1]


def test_a_registry_of_deleted_schemas_is_as_an_empty_one() -> None:
    reference = SchemaReference("r", "t", 1)
    versions = [Registered("t", 1, 1, A), Registered("u", 1, 2, Body("JSON", "{}", (reference,)))]
    state = state_of(*map(schema_record, versions), *map(no_schema_record, reversed(versions)))

    assert (state.version_count, state.characters, list(state), len(state)) == (0, 0, [], 0)
    assert not state._referrers
    assert not state._subjects


def test_what_is_deleted_is_found_by_its_id() -> None:
    state = state_of(
        schema_record(Registered("t", 1, 1, A)),
        schema_record(Registered("t", 2, 2, B)),
        delete_subject_record("t", 1),
    )

    assert [each.version for each in state.versions("t")] == [2]
    assert state.body(1) == A
    assert state.users(1) == []
    assert [each.version for each in state.users(1, deleted=True)] == [1]


def test_a_subject_that_was_deleted_and_is_used_again_has_its_new_versions_only() -> None:
    state = state_of(
        schema_record(Registered("t", 1, 1, A)),
        delete_subject_record("t", 1),
        schema_record(Registered("t", 2, 1, A)),
    )

    assert [each.version for each in state.versions("t")] == [2]
    assert state.next_version("t") == 3


def test_what_never_was_has_no_id() -> None:
    version = Registered("t", 1, 5, A)
    state = state_of(schema_record(version), used_ids_record(5), no_schema_record(version))

    with pytest.raises(RegistryError):
        state.body(5)
    assert state.id_of(A) is None
    assert state.subjects(deleted=True) == []
    assert state.highest() == 5


def test_the_highest_id_is_known_after_compaction_took_the_schema_away() -> None:
    assert state_of(used_ids_record(5)).highest() == 5


def test_two_versions_may_share_an_id() -> None:
    first, second = Registered("t", 1, 1, A), Registered("u", 1, 1, A)
    state = state_of(schema_record(first), schema_record(second), no_schema_record(first))

    assert state.body(1) == A
    assert state.users(1) == [second]


def test_references_come_after_those_that_they_need() -> None:
    leaf = Body("AVRO", "leaf")
    middle = Body("AVRO", "middle", (SchemaReference("leaf", "l", 1),))
    state = state_of(
        schema_record(Registered("l", 1, 1, leaf)), schema_record(Registered("m", 1, 2, middle))
    )

    found = list(
        state.resolved([SchemaReference("middle", "m", 1), SchemaReference("leaf", "l", 1)])
    )

    assert [name for name, _ in found] == ["leaf", "middle"]


def test_references_in_a_circle_end() -> None:
    """No registry takes such schemas; a topic may have them."""
    first = Registered("a", 1, 1, Body("AVRO", "a", (SchemaReference("b", "b", 1),)))
    second = Registered("b", 1, 2, Body("AVRO", "b", (SchemaReference("a", "a", 1),)))
    state = state_of(schema_record(first), schema_record(second))

    assert sorted({name for name, _ in state.resolved(first.body.references)}) == ["a", "b"]


def test_referrers_are_those_that_are_not_deleted() -> None:
    by = Registered("m", 1, 2, Body("AVRO", "middle", (SchemaReference("leaf", "l", 1),)))
    state = state_of(schema_record(Registered("l", 1, 1, A)), schema_record(by))
    assert state.referrers("l", 1) == [by]

    state.apply(*delete_subject_record("m", 1))

    assert state.referrers("l", 1) == []
