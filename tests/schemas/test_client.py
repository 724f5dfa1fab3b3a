"""The protocol of a registry's client: paths, answers, errors, and kept answers."""

import base64
import json
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from raftka import limits
from raftka.schemas.client import (
    Answer,
    AnswerCache,
    BadAnswer,
    LoginRefused,
    Missing,
    Reference,
    Schema,
    ask_message_names,
    ask_schema,
    ask_subjects,
    ask_version,
    is_registry_url,
    read_answer,
    request_headers,
)
from tests.broker.conftest import Lower


def answered(question: Any, document: Any, status: int = 200) -> Any:
    return read_answer(question, status, json.dumps(document).encode())


def test_paths_are_confluents() -> None:
    assert ask_schema(7).path == "/schemas/ids/7"
    assert ask_schema(7, serialized=True).path == "/schemas/ids/7?format=serialized"
    assert ask_version("a/b", 3).path == "/subjects/a%2Fb/versions/3?deleted=true"
    assert ask_subjects(7).path == "/schemas/ids/7/versions"
    assert ask_message_names(7).path == ask_schema(7, serialized=True).path


def test_schema_without_a_type_is_of_avro() -> None:
    references = [{"name": "a.B", "subject": "b", "version": 3}]
    assert answered(ask_schema(7), {"schema": '"string"', "references": references}) == Schema(
        "AVRO", '"string"', (Reference("a.B", "b", 3),), "string"
    )


def test_subjects_have_no_context() -> None:
    document = [{"subject": ":.staging:a", "version": 1}, {"subject": "b", "version": 2}]
    assert answered(ask_subjects(7), document) == {"a", "b"}


def test_message_names_are_read_from_the_descriptor() -> None:
    file = FileDescriptorProto(package="p")
    file.message_type.add(name="A").nested_type.add(name="B")
    text = base64.b64encode(file.SerializeToString()).decode()
    assert answered(ask_message_names(7), {"schema": text}) == {(0,): "p.A", (0, 0): "p.A.B"}


@pytest.mark.parametrize(
    ("status", "document", "reason"),
    [
        (404, {"error_code": 40403}, "the registry has no schema 7"),
        (403, {"error_code": 40301}, "the registry does not let this user see schema 7"),
    ],
)
def test_missing_schema_is_an_answer(status: int, document: Any, reason: str) -> None:
    assert answered(ask_schema(7), document, status) == Missing(reason)


@pytest.mark.parametrize(
    ("status", "document"),
    [(200, {}), (200, []), (404, {"error_code": 404}), (500, {"error_code": 50001}), (503, None)],
)
def test_answer_of_another_kind_is_no_answer_about_a_schema(status: int, document: Any) -> None:
    with pytest.raises(BadAnswer):
        answered(ask_schema(7), document, status)


def test_text_in_place_of_a_descriptor_is_a_bad_answer() -> None:
    with pytest.raises(BadAnswer, match="another document"):
        answered(ask_schema(7, serialized=True), {"schema": 'syntax = "proto3";'})


@pytest.mark.parametrize(("status", "body"), [(401, b"{}"), (401, b"<html>"), (403, b"<html>")])
def test_refused_login_is_told_apart(status: int, body: bytes) -> None:
    with pytest.raises(LoginRefused):
        read_answer(ask_schema(7), status, body)


def test_login_is_sent_as_basic_authorization() -> None:
    assert request_headers("a:b")["Authorization"] == "Basic YTpi"
    assert "Authorization" not in request_headers(None)


@pytest.mark.parametrize(
    ("url", "is_one"),
    [
        ("http://localhost:8081", True),
        ("https://a/registry", True),
        ("localhost:8081", False),
        ("http://a:x", False),
        ("http://a?b=c", False),
    ],
)
def test_url_of_a_registry(url: str, is_one: bool) -> None:
    assert is_registry_url(url) is is_one


def test_old_answers_are_not_found_and_the_first_one_leaves_first(lowered: Lower) -> None:
    hits: list[limits.Limit] = []
    cache: AnswerCache[str] = AnswerCache(hits.append)
    cache.keep("a", Answer("A", 10, 1.0))
    assert cache.get("a", 1.0) == Answer("A", 10, 1.0)
    assert cache.get("a", 1.5) is None

    lowered(limits.SCHEMA_DOCUMENTS, 2)
    for path in ("b", "c"):
        cache.keep(path, Answer(path, 10, 2.0))
    assert [cache.get(path, 0.0) is None for path in "abc"] == [True, False, False]
    lowered(limits.SCHEMA_DOCUMENTS_BYTES, 25)
    cache.keep("d", Answer("d", 20, 3.0))
    assert len(cache) == 1
    assert hits[0] is limits.SCHEMA_DOCUMENTS
    assert limits.SCHEMA_DOCUMENTS_BYTES in hits
