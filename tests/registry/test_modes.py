"""Modes: a table of mode x request, as Confluent's registry does it."""

import json

import pytest

from raftka.json_values import Json
from tests.registry.rest import Answer, Rest, record

ONE, TWO = record("One", a="string"), record("One", a="string", b=("int", 0))
BREAKS = record("One", a="string", d="int")
WRONG = record("One", a=("int", "none"))
OK, REFUSED, INVALID, CONFLICT = 200, 42205, 42201, 409
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")

# request: method, target, body; then the answer in each of MODES
Line = tuple[str, str, str, Json, tuple[int, int, int, int]]
TABLE: list[Line] = [
    ("a known schema", "POST", "/subjects/t/versions", {"schema": ONE}, (OK, OK, OK, OK)),
    ("a new one", "POST", "/subjects/t/versions", {"schema": TWO}, (OK, REFUSED, REFUSED, REFUSED)),
    (
        "with an id",
        "POST",
        "/subjects/t/versions",
        {"schema": TWO, "id": 9},
        (REFUSED, REFUSED, REFUSED, OK),
    ),
    (
        "with id and version",
        "POST",
        "/subjects/t/versions",
        {"schema": TWO, "id": 9, "version": 7},
        (REFUSED, REFUSED, REFUSED, OK),
    ),
    (
        "an incompatible one",
        "POST",
        "/subjects/t/versions",
        {"schema": BREAKS},
        (CONFLICT, REFUSED, REFUSED, REFUSED),
    ),
    (
        "an incompatible one with an id",
        "POST",
        "/subjects/t/versions",
        {"schema": BREAKS, "id": 9},
        (REFUSED, REFUSED, REFUSED, OK),
    ),
    (
        "with a wrong default",
        "POST",
        "/subjects/t/versions",
        {"schema": WRONG},
        (INVALID, REFUSED, REFUSED, REFUSED),
    ),
    (
        "with a wrong default and an id",
        "POST",
        "/subjects/t/versions",
        {"schema": WRONG, "id": 9},
        (REFUSED, REFUSED, REFUSED, OK),
    ),
    (
        "the next version",
        "POST",
        "/subjects/t/versions",
        {"schema": TWO, "version": 2},
        (OK, REFUSED, REFUSED, REFUSED),
    ),
    (
        "another version",
        "POST",
        "/subjects/t/versions",
        {"schema": TWO, "version": 5},
        (INVALID, REFUSED, REFUSED, REFUSED),
    ),
    (
        "the newest version",
        "POST",
        "/subjects/t/versions",
        {"schema": TWO, "version": -1},
        (OK, REFUSED, REFUSED, REFUSED),
    ),
    ("look up", "POST", "/subjects/t", {"schema": ONE}, (OK, OK, OK, OK)),
    (
        "check",
        "POST",
        "/compatibility/subjects/t/versions",
        {"schema": TWO},
        (OK, OK, OK, OK),
    ),
    ("read", "GET", "/subjects/t/versions/1", None, (OK, OK, OK, OK)),
    ("delete a version", "DELETE", "/subjects/t/versions/1", None, (OK, REFUSED, REFUSED, OK)),
    ("delete a subject", "DELETE", "/subjects/t", None, (OK, REFUSED, REFUSED, OK)),
    ("settings", "PUT", "/config/t", {"compatibility": "FULL"}, (OK, REFUSED, REFUSED, OK)),
    ("no settings", "DELETE", "/config/t", None, (OK, REFUSED, REFUSED, OK)),
    ("all settings", "PUT", "/config", {"normalize": True}, (OK, REFUSED, REFUSED, OK)),
    ("no settings at all", "DELETE", "/config", None, (OK, REFUSED, REFUSED, OK)),
    ("a mode", "PUT", "/mode", {"mode": "READWRITE"}, (OK, OK, OK, OK)),
    ("no mode", "DELETE", "/mode", None, (OK, OK, OK, OK)),
]


def with_text(body: Json) -> Json:
    schema = body.get("schema") if body else None
    return {**body, "schema": json.dumps(schema)} if isinstance(schema, dict) else body


def result(answer: Answer) -> int:
    return answer.status if answer.status == OK else answer.code


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("line", TABLE, ids=[each[0] for each in TABLE])
def test_each_mode_allows_what_it_allows(rest: Rest, mode: str, line: Line) -> None:
    _, method, target, body, answers = line
    rest.register("t", ONE)
    rest.put("/config/t", {"compatibility": "BACKWARD"})
    rest.put("/mode?force=true", {"mode": mode})

    answer = rest.ask(method, target, with_text(body))

    assert result(answer) == answers[MODES.index(mode)], answer


@pytest.mark.parametrize("scope", ["/mode/t", "/mode"])
def test_settings_of_a_subject_that_is_only_read_are_not_changed(rest: Rest, scope: str) -> None:
    rest.put(scope, {"mode": "READONLY"})

    assert rest.ask("PUT", "/config/t", {"compatibility": "NONE"}).code == REFUSED
    assert rest.ask("PUT", "/config/t", {"compatibility": "WRONG"}).code == 42203
    assert rest.ask("GET", "/config/t").code == 40408
    rest.put("/mode/u", {"mode": "READWRITE"})
    assert rest.put("/config/u", {"compatibility": "NONE"})


def test_an_empty_context_that_is_only_read_is_not_deleted(rest: Rest) -> None:
    rest.register(":.one:t", ONE)
    rest.delete("/subjects/:.one:t")
    rest.delete("/subjects/:.one:t?permanent=true")
    rest.put("/mode/:.one:", {"mode": "READONLY"})

    assert rest.ask("DELETE", "/contexts/.one").code == REFUSED
    rest.put("/mode/:.one:", {"mode": "READWRITE"})
    assert rest.delete("/contexts/.one") == {}


# versions


def test_a_version_that_a_request_gives_is_the_one_that_it_gets(rest: Rest) -> None:
    rest.register("t", ONE, version=1)
    assert rest.try_register("t", ONE, version=1).code == INVALID  # it is there
    assert rest.try_register("t", TWO, version=3).code == INVALID
    assert rest.register("t", TWO, version=2)

    found = rest.get("/subjects/t/versions/2")
    assert found["metadata"] == {"properties": {"confluent:version": "2"}}


def test_a_schema_is_found_with_and_without_its_version_in_its_metadata(rest: Rest) -> None:
    number = rest.register("t", ONE, version=-1)
    said = {"properties": {"confluent:version": "1"}}
    assert rest.get("/subjects/t/versions/1")["metadata"] == said

    assert rest.register("t", ONE) == number
    assert rest.register("t", ONE, version=-1) == number
    assert rest.register("t", ONE, metadata=said) == number
    assert rest.get("/subjects/t/versions") == [1]
    rest.register("t", TWO)
    newest = rest.get("/subjects/t/versions/2")["metadata"]
    assert newest == {"properties": {"confluent:version": "2"}}


# importing


@pytest.mark.parametrize(
    ("kind", "text", "code"),
    [
        ("AVRO", '{"type":"record","name":"odd-name","fields":[]}', OK),
        ("AVRO", '{"type":"nonsense"}', INVALID),  # no version of Avro could read it
        ("JSON", '{"type":"nonsense"}', OK),
        ("JSON", '{"$ref":"https://example.com/elsewhere"}', OK),
        ("PROTOBUF", 'syntax = "proto3"; import "elsewhere.proto"; message M {}', OK),
        ("XML", "<schema/>", INVALID),
        ("JSON", "", INVALID),
    ],
)
def test_what_another_registry_has_taken_is_imported(
    rest: Rest, kind: str, text: str, code: int
) -> None:
    rest.put("/mode", {"mode": "IMPORT"})

    answer = rest.try_register("t", text, schemaType=kind, id=7)

    assert result(answer) == code, answer
    if code == OK:
        assert rest.get("/schemas/ids/7")["schema"] == text
        asked = {"schema": text, "schemaType": kind}
        assert rest.ask("POST", "/subjects/t", asked).body["id"] == 7


def test_an_import_changes_no_version_and_adds_no_defaults(rest: Rest) -> None:
    rest.put("/config", {"normalize": True, "defaultMetadata": {"properties": {"a": "b"}}})
    rest.put("/mode", {"mode": "IMPORT"})
    text = '{"fields":[],"name":"R","type":"record"}'

    assert rest.register("t", text, id=7, version=3) == 7

    wanted = {"subject": "t", "version": 3, "id": 7, "schema": text}
    assert rest.get("/subjects/t/versions/3") == wanted
    assert rest.try_register("t", TWO, id=7).code == REFUSED
    assert rest.try_register("t", text, id=7, metadata={"properties": {"x": "y"}}).code == REFUSED


def test_deleted_versions_are_gone_for_ever_where_an_import_begins(rest: Rest) -> None:
    first = rest.register("t", ONE)
    rest.register("u", ONE)
    assert rest.ask("PUT", "/mode/t", {"mode": "IMPORT"}).code == REFUSED
    rest.delete("/subjects/t")

    rest.put("/mode/t", {"mode": "IMPORT"})

    assert rest.get("/subjects?deleted=true") == ["u"]
    assert rest.register("t", ONE, id=first, version=1) == first


def test_modes_of_a_contexts_subjects_are_taken_back_together(rest: Rest) -> None:
    for subject in ("t", ":.one:t", ":.one:u", ":.one:"):
        rest.put(f"/mode/{subject}", {"mode": "READONLY"})

    assert rest.delete("/mode/:.one:?recursive=true") == {"mode": "READONLY"}

    assert rest.ask("GET", "/mode/:.one:t").code == 40409
    assert rest.get("/mode/t") == {"mode": "READONLY"}


def test_a_reference_to_the_newest_version_is_one_to_its_number(rest: Rest) -> None:
    rest.register("engine", record("Engine", power="int"))
    reference = {"name": "Engine", "subject": "engine", "version": -1}

    rest.register("car", record("Car", engine="Engine"), references=[reference])
    rest.register("engine", record("Engine", power="int", size=("int", 1)))

    assert rest.get("/subjects/car/versions/1")["references"][0]["version"] == 1


@pytest.mark.parametrize("body", [{}, {"mode": None}, {"mode": 7}, {"mode": "SIDEWAYS"}])
def test_a_mode_that_is_none_is_refused(rest: Rest, body: Json) -> None:
    rest.put("/mode", {"mode": "IMPORT"})

    assert rest.ask("PUT", "/mode", body).code == 42204
    assert rest.get("/mode") == {"mode": "IMPORT"}
    assert rest.ask("PUT", "/mode", {"mode": "READWRITE", "force": True}).code == 422
