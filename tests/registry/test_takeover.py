"""A `_schemas` topic that another registry has written: what it holds is read, and kept when a
record is written anew.

The records are in the formats of Confluent's registries from 3.0 (2016) to 8.2 (2026), and of
Karapace.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.producer import Producer
from raftka.json_values import Json
from raftka.registry.records import read_key, schema_record
from raftka.registry.server import RegistryServer
from raftka.registry.state import State
from raftka.testing import Cluster
from tests.registry.rest import Rest, record

TOPIC = "_schemas-taken-over"
OLD = json.dumps(record("Old", a=("int", "none")))
ODD = '{"type":"record","name":"odd-name","fields":[{"name":"first name","type":"int"}]}'
RULED = json.dumps(record("Ruled", a="string"))
RULES = {
    "domainRules": [
        {
            "name": "encrypt",
            "kind": "TRANSFORM",
            "mode": "WRITEREAD",
            "type": "ENCRYPT",
            "tags": ["PII"],
            "disabled": False,
            "from": "later",
        }
    ]
}
METADATA = {"properties": {"owner": "fleet"}}
HUGE = 1 << 31


def schema(subject: str, version: int, **more: Json) -> tuple[Json, Json]:
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    return key, {"subject": subject, "version": version, **more}


# (key, value): key's type, which fields; the years are of the releases that write so
RECORDS: list[tuple[Json, Json]] = [
    # 3.0: a key of magic 0, no type of schema
    (
        {"keytype": "SCHEMA", "subject": "old-value", "version": 1, "magic": 0},
        {"subject": "old-value", "version": 1, "id": 1, "schema": OLD, "deleted": False},
    ),
    schema("odd-value", 1, id=2, schema=ODD, deleted=False),
    # 5.5: types and references
    schema("leaf", 1, id=3, schemaType="JSON", schema='{"type":"string"}', deleted=False),
    schema(
        "json-value",
        1,
        id=4,
        schemaType="JSON",
        references=[{"name": "leaf", "subject": "leaf", "version": 1, "digest": "later"}],
        schema='{"$ref":"leaf"}',
        deleted=False,
    ),
    # 7.4 and later: md5, contracts, a time, a guid
    schema(
        "ruled-value",
        1,
        id=5,
        md5="HvbEgGNzCgrN7LPuPhW8aw==",
        metadata=METADATA,
        ruleSet=RULES,
        schema=RULED,
        deleted=False,
        ts=1700000000000,
        guid="0e1b-2",
    ),
    schema("huge-value", 1, id=HUGE, schema='"long"', deleted=False),
    schema("soft-value", 1, id=6, schema='"bytes"', deleted=False),
    (
        {"keytype": "DELETE_SUBJECT", "subject": "soft-value", "magic": 0},
        {"subject": "soft-value", "version": 1, "by": "admin"},
    ),
    # 3.0; then 7.4, whose record sets no level
    (
        {"keytype": "CONFIG", "subject": "old-value", "magic": 0},
        {"compatibilityLevel": "NONE"},
    ),
    (
        {"keytype": "CONFIG", "subject": "old-value", "magic": 0},
        {"subject": "old-value", "normalize": True, "validateFields": True, "later": [1]},
    ),
    ({"keytype": "CONFIG", "subject": None, "magic": 0}, {"compatibilityLevel": "FULL"}),
    (
        {"keytype": "CONFIG", "subject": "odd-value", "magic": 0},
        {"compatibilityLevel": "SIDEWAYS"},
    ),
    (
        {"keytype": "MODE", "subject": "ruled-value", "magic": 0},
        {"subject": "ruled-value", "mode": "READWRITE", "until": 7},
    ),
    ({"keytype": "MODE", "subject": "sent-on", "magic": 0}, {"mode": "FORWARD"}),
    (
        {"keytype": "CONTEXT", "tenant": "default", "context": ".one", "magic": 0},
        {"tenant": "default", "context": ".one", "note": "later"},
    ),
    schema(":.one:t", 1, id=1, schema='"string"', deleted=False),
    ({"keytype": "CLEAR_SUBJECT", "subject": "nobody", "magic": 0}, {"subject": "nobody"}),
    ({"keytype": "ASSOC", "resourceName": "t", "magic": 0}, {"guid": "x"}),
    ({"keytype": "NOOP", "magic": 0}, {"note": "later"}),
]
KARAPACE = b'{"keytype": "SCHEMA", "subject": "spaced", "version": 1, "magic": 1}'
SPACED = b'{"subject":"spaced","version":1,"id":7,"schema":"\\"float\\"","deleted":false}'


def compact(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def written() -> list[tuple[bytes, bytes | None]]:
    found: list[tuple[bytes, bytes | None]] = [
        (compact(key), compact(value)) for key, value in RECORDS
    ]
    return [(b'{"keytype":"NOOP","magic":0}', None), *found, (KARAPACE, SPACED)]


@contextmanager
def taken_over(raftka_cluster: Cluster) -> Iterator[RegistryServer]:
    raftka_cluster.create_topic(TOPIC, 1, cleanup_policy="compact")
    with Client(addresses_of(raftka_cluster.bootstrap_servers), "test") as client:
        producer = Producer(client)
        for key, value in written():
            producer.add((TOPIC, 0), (key, value, (), 0))
        producer.flush()
    with raftka_cluster.registry(TOPIC) as registry:
        yield registry
    raftka_cluster.delete_topic(TOPIC)


@pytest.fixture
def taken(raftka_cluster: Cluster) -> Iterator[RegistryServer]:
    with taken_over(raftka_cluster) as registry:
        yield registry


@pytest.fixture
def rest(taken: RegistryServer) -> Iterator[Rest]:
    with Rest(taken) as rest:
        yield rest


def newest(cluster: Cluster) -> dict[bytes, Json]:
    """Return the topic as it is once it is compacted."""
    found = {each.key: each.value for each in cluster.records(TOPIC)}
    return {key: value and json.loads(value) for key, value in found.items() if key is not None}


def value_of(cluster: Cluster, key: Json) -> Json:
    return newest(cluster)[compact(key)]


def test_all_schemas_are_found(rest: Rest) -> None:
    assert rest.get("/subjects") == [
        ":.one:t",
        "huge-value",
        "json-value",
        "leaf",
        "odd-value",
        "old-value",
        "ruled-value",
        "spaced",
    ]
    found = rest.get("/schemas/ids/5")
    assert (found["metadata"], found["ruleSet"]) == (METADATA, RULES)


@pytest.mark.parametrize("subject", ["old-value", "odd-value"])
def test_old_avro_schemas_are_looked_up_and_do_not_block_the_next_version(
    rest: Rest, subject: str
) -> None:
    text = OLD if subject == "old-value" else ODD
    number = rest.get(f"/subjects/{subject}/versions/1")["id"]

    spaced = json.dumps(json.loads(text), indent=2)
    assert rest.ask("POST", f"/subjects/{subject}", {"schema": spaced}).body["id"] == number
    assert rest.register(subject, spaced) == number
    new = json.loads(text)
    new["fields"] = [{"name": "b", "type": "string", "default": ""}]
    new["name"] = "Old" if subject == "old-value" else "odd_name"
    rest.put(f"/config/{subject}", {"compatibility": "BACKWARD"})
    answer = rest.try_register(subject, new)
    assert answer.status == (200 if subject == "old-value" else 409), answer  # another name
    assert "cannot be parsed" not in str(answer.body)
    assert rest.try_register("new-value", text).code == 42201  # as a new one it is refused


def test_an_id_beyond_32_bits_blocks_no_new_ones(rest: Rest) -> None:
    assert rest.get("/subjects/huge-value/versions/1")["id"] == HUGE
    assert rest.register("new-value", '"double"') == 8


def test_a_soft_delete_keeps_all_fields_of_the_record(rest: Rest, raftka_cluster: Cluster) -> None:
    for subject in ("ruled-value", "json-value"):
        rest.delete(f"/subjects/{subject}/versions/1")

    for key, value in RECORDS:
        if key["keytype"] == "SCHEMA" and key["subject"] in ("ruled-value", "json-value"):
            assert value_of(raftka_cluster, key) == {**value, "deleted": True}


def test_settings_keep_fields_that_are_not_known(rest: Rest, raftka_cluster: Cluster) -> None:
    rest.put("/config/old-value", {"compatibilityGroup": "major"})
    key = {"keytype": "CONFIG", "subject": "old-value", "magic": 0}

    assert value_of(raftka_cluster, key) == {
        "subject": "old-value",
        "normalize": True,
        "validateFields": True,
        "compatibilityGroup": "major",
        "later": [1],
    }


def test_modes_contexts_and_ids_keep_fields_that_are_not_known(
    rest: Rest, raftka_cluster: Cluster
) -> None:
    rest.put("/mode/ruled-value", {"mode": "READONLY"})
    for subject in ("leaf2", ":.one:t"):
        rest.register(subject, '"string"')
        rest.delete(f"/subjects/{subject}")
        rest.delete(f"/subjects/{subject}?permanent=true")
    rest.register("soft-value", '"bytes"')
    rest.delete("/subjects/soft-value")

    mode = value_of(raftka_cluster, {"keytype": "MODE", "subject": "ruled-value", "magic": 0})
    assert mode == {"subject": "ruled-value", "mode": "READONLY", "until": 7}
    context = {"keytype": "CONTEXT", "tenant": "default", "context": ".one", "magic": 0}
    assert value_of(raftka_cluster, context)["note"] == "later"
    noop = value_of(raftka_cluster, {"keytype": "NOOP", "magic": 0})
    assert noop == {"note": "later", "maxId": 8}
    deleted = {"keytype": "DELETE_SUBJECT", "subject": "soft-value", "magic": 0}
    assert value_of(raftka_cluster, deleted) == {
        "subject": "soft-value",
        "version": 2,
        "by": "admin",
    }


def test_a_settings_record_without_a_level_sets_none_at_once(
    rest: Rest, raftka_cluster: Cluster
) -> None:
    """An instance that read the record before it, and one that reads the compacted topic, agree."""
    assert rest.get("/config/old-value")["compatibilityLevel"] == "FULL"
    assert rest.get("/config/odd-value")["compatibilityLevel"] == "FULL"  # a level of nobody's

    later = State()
    for key, value in newest(raftka_cluster).items():
        later.apply(key, value and compact(value))
    assert later.level("old-value") == later.level("odd-value") == "FULL"


def test_a_mode_that_is_not_known_is_kept_and_takes_no_writes(rest: Rest) -> None:
    assert rest.get("/mode/sent-on") == {"mode": "FORWARD"}
    answer = rest.try_register("sent-on", '"string"')
    assert (answer.code, "FORWARD" in answer.body["message"]) == (42205, True)
    rest.put("/mode/sent-on", {"mode": "READWRITE"})
    assert rest.register("sent-on", '"string"')


def test_a_key_that_another_registry_writes_with_spaces_is_written_so_again(
    rest: Rest, raftka_cluster: Cluster
) -> None:
    """Compaction takes it for another key: a tombstone under ours alone would bring the record
    back.
    """
    rest.delete("/subjects/spaced/versions/1")
    rest.delete("/subjects/spaced/versions/1?permanent=true")

    ours = [value for key, value in newest(raftka_cluster).items() if b"spaced" in key]
    assert KARAPACE in newest(raftka_cluster)
    assert ours == [None] * len(ours)


def test_what_is_written_is_read_alike_by_a_new_instance(
    rest: Rest, raftka_cluster: Cluster
) -> None:
    rest.register("ruled-value", RULED, metadata={"properties": {"owner": "other"}})
    rest.delete("/subjects/json-value/versions/1")
    rest.put("/config/old-value", {"compatibility": "NONE"})

    with raftka_cluster.registry(TOPIC) as second, Rest(second) as other:
        for path in ("/schemas?deleted=true", "/config/old-value", "/schemas?subjectPrefix=:*:"):
            assert other.get(path) == rest.get(path)


@pytest.mark.parametrize("name", ["schema", "schemaType", "later"])
def test_half_of_a_surrogate_pair_keeps_no_version_from_being_deleted(name: str) -> None:
    """A writer that escapes all but ASCII, as Karapace does, can leave one."""
    state = State()
    key, value = schema("t", 1, **{"id": 1, "schema": OLD, name: '"half \ud800"'})
    state.apply(compact(key), json.dumps(value).encode())
    (there,) = state.versions("t")

    for written in state.rewritten([schema_record(replace(there, deleted=True))]):
        state.apply(*written)
        assert json.loads(written[1] or b"") == {**value, "deleted": True}

    assert [each.deleted for each in state.versions("t", deleted=True)] == [True]


@pytest.mark.parametrize("kind", ["CONFIG", "MODE"])
@pytest.mark.parametrize("value", ["{}", '{"mode":null}', '{"mode":7,"compatibilityLevel":7}'])
def test_a_record_without_a_level_or_mode_takes_back_the_one_before(kind: str, value: str) -> None:
    state = State()
    key = compact({"keytype": kind, "subject": "t", "magic": 0})
    state.apply(key, b'{"compatibilityLevel":"NONE","mode":"READONLY"}')

    state.apply(key, value.encode())

    assert (state.level("t"), state.mode("t")) == ("BACKWARD", "READWRITE")


@pytest.mark.parametrize(
    "more",
    [
        {"version": 0},
        {"version": 1 << 31},
        {"version": True},
        {"id": -1},
        {"id": 1.5},
        {"id": True},
    ],
)
def test_a_schema_with_a_number_that_none_can_have_is_passed_by(more: Json) -> None:
    state = State()
    value = {"subject": "t", "version": 1, "id": 1, "schema": "{}", **more}
    key = {"keytype": "SCHEMA", "subject": "t", "version": value["version"], "magic": 1}

    state.apply(compact(key), compact(value))

    assert (state.ignored, state.version_count, state.highest()) == (1, 0, 0)


@pytest.mark.parametrize("highest", [1 << 31, -1, "7", True, None])
def test_a_highest_id_that_is_none_is_no_highest_id(highest: Json) -> None:
    state = State()
    for kind in ({"keytype": "NOOP"}, {"keytype": "CONTEXT", "context": ".one"}):
        state.apply(compact(kind), compact({"maxId": highest}))

    assert (state.highest(), state.highest(".one")) == (0, 0)


def test_a_clear_record_forgets_deleted_versions_of_a_context() -> None:
    state = State()
    for subject in (":.one:t", "t"):
        key, value = schema(subject, 1, id=1, schema='"int"', deleted=True)
        state.apply(compact(key), compact(value))

    state.apply(b'{"keytype":"CLEAR_SUBJECT","subject":":.one:","magic":0}', None)
    assert state.version_count == 2
    state.apply(
        b'{"keytype":"CLEAR_SUBJECT","subject":":.one:","magic":0}', b'{"subject":":.one:"}'
    )
    assert [each.subject for each in state] == ["t"]


def test_keys_are_written_as_confluents_registry_writes_them() -> None:
    for key, _ in RECORDS:
        if key["keytype"] != "ASSOC" and key["magic"] == {"SCHEMA": 1}.get(key["keytype"], 0):
            assert read_key(compact(key)).written == compact(key)
