"""Requests of workers to a registry: the answers that are kept, the ids that are asked for again,
and failures that are no dead letters. No Spark.
"""

import json
import pickle
import ssl
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import trustme

from raftka.pipeline.errors import OptionRefused
from raftka.pipeline.records.registry_client import (
    FRESH_S,
    PAUSES_S,
    UNKNOWN_S,
    Http,
    RegistryAccess,
    RegistryAway,
    RegistryClient,
    UnknownSchema,
)
from raftka.schemas.client import GRACE_S, Reference, Schema

URL = "http://registry:8081"
NOT_FOUND = (404, {"error_code": 40403, "message": "Schema not found"})


class Registry:
    """Answers by path; an answer may be an error to raise. Time passes when somebody waits."""

    def __init__(self, answers: dict[str, Any], urls: tuple[str, ...] = (URL,)) -> None:
        self.answers, self.asked, self.pauses, self.now = answers, list[str](), list[float](), 100.0
        self.client = RegistryClient(RegistryAccess(urls), self._get, lambda: self.now, self._pause)

    def _get(self, url: str, path: str) -> tuple[int, bytes]:
        self.asked.append(path if url == URL else f"{url}{path}")
        found = self.answers.get(self.asked[-1], NOT_FOUND)
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(found, Exception):
            raise found
        status, body = found
        return status, body if isinstance(body, bytes) else json.dumps(body).encode()

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def test_a_schema_is_asked_for_once() -> None:
    references = [{"name": "a.B", "subject": "b", "version": 3}]
    registry = Registry(
        {
            "/schemas/ids/7": (200, {"schema": '"string"'}),
            "/schemas/ids/8": (200, {"schema": "x", "schemaType": "PROTOBUF"}),
        }
    )
    registry.answers["/subjects/a%2Fb/versions/3?deleted=true"] = (
        200,
        {"schema": "{}", "references": references},
    )

    assert [registry.client.schema(7), registry.client.schema(7)] == [
        Schema("AVRO", '"string"', (), "string")
    ] * 2
    assert registry.client.schema(8).kind == "PROTOBUF"
    assert registry.client.version("a/b", 3) == Schema("AVRO", "{}", (Reference("a.B", "b", 3),))
    assert registry.asked == [
        "/schemas/ids/7",
        "/schemas/ids/8",
        "/subjects/a%2Fb/versions/3?deleted=true",
    ]


def test_a_kept_schema_is_compared_with_the_registry_after_some_time() -> None:
    """A registry that was made anew gives its numbers again."""
    path = "/schemas/ids/7"
    registry = Registry({path: (200, {"schema": '"string"'})})
    registry.client.schema(7)
    registry.answers[path] = (200, {"schema": '"int"'})

    registry.now += FRESH_S - 1
    assert registry.client.schema(7).text == '"string"'
    registry.now += 1
    assert [registry.client.schema(7).text, registry.client.schema(7).text] == ['"int"', '"int"']
    assert registry.asked == [path] * 2


@pytest.mark.parametrize(
    "answer",
    [
        OSError("away"),
        NOT_FOUND,
        (503, {}),
        (401, {}),
        (403, {"error_code": 40301, "message": "no"}),
    ],
)
def test_a_kept_schema_stays_while_the_registry_does_not_give_it(answer: Any) -> None:
    """A schema that was deleted is still the one that records were written with; and no batch waits
    for a registry that it does not need.
    """
    path = "/schemas/ids/7"
    registry = Registry({path: [(200, {"schema": '"string"'}), answer]})
    registry.client.schema(7)
    registry.now += FRESH_S

    for _ in range(3):
        assert registry.client.schema(7).text == '"string"'
    assert registry.asked == [path] * 2
    assert registry.pauses == []


def test_a_descriptor_is_another_answer_than_the_text() -> None:
    registry = Registry(
        {
            "/schemas/ids/7": (200, {"schema": "text"}),
            "/schemas/ids/7?format=serialized": (200, {"schema": "YmFzZTY0"}),
        }
    )

    assert [registry.client.schema(7).text, registry.client.schema(7, serialized=True).text] == [
        "text",
        "YmFzZTY0",
    ]


def test_an_unknown_number_is_asked_for_again_later() -> None:
    registry = Registry({})

    for _ in range(3):
        with pytest.raises(UnknownSchema, match="the registry has no schema 7"):
            registry.client.schema(7)
    # the second time after the moment that an instance may be behind
    assert registry.asked == ["/schemas/ids/7"] * 2
    assert registry.pauses == [GRACE_S]

    registry.answers["/schemas/ids/7"] = (200, {"schema": "new"})
    registry.now += UNKNOWN_S
    assert registry.client.schema(7).text == "new"


def test_many_unknown_numbers_wait_for_one_moment_in_all() -> None:
    registry = Registry({})

    for number in range(1000):
        with pytest.raises(UnknownSchema):
            registry.client.schema(number)
    assert registry.pauses == [GRACE_S]


def test_a_schema_that_comes_a_moment_late_is_found() -> None:
    registry = Registry({"/schemas/ids/7": [NOT_FOUND, (200, {"schema": "late"})]})

    assert registry.client.schema(7).text == "late"


@pytest.mark.parametrize(
    "failure",
    [
        OSError("refused"),
        TimeoutError("no answer"),
        (500, {"error_code": 50001}),
        (503, b"<html>"),
        (200, b"<html>"),
        (404, b"<html>"),
        (200, {}),
    ],
)
def test_a_registry_that_is_away_fails_the_batch_after_some_tries(failure: Any) -> None:
    registry = Registry({"/schemas/ids/7": failure})

    with pytest.raises(RegistryAway, match="no registry answers"):
        registry.client.schema(7)
    assert registry.pauses == list(PAUSES_S)
    registry.answers["/schemas/ids/7"] = (200, {"schema": "back"})
    assert registry.client.schema(7).text == "back"


def test_a_refused_login_fails_the_batch_at_once() -> None:
    registry = Registry({"/schemas/ids/7": (401, {"error_code": 40101, "message": "Unauthorized"})})

    with pytest.raises(RegistryAway, match="does not let us in"):
        registry.client.schema(7)
    assert registry.pauses == []


def test_a_schema_that_this_user_may_not_see_is_one_dead_letter() -> None:
    registry = Registry(
        {"/schemas/ids/7": (403, {"error_code": 40301, "message": "User is denied"})}
    )

    with pytest.raises(UnknownSchema, match="the registry does not let this user see schema 7"):
        registry.client.schema(7)


def test_a_refusal_that_is_not_the_registrys_fails_the_batch() -> None:
    registry = Registry({"/schemas/ids/7": (403, b"<html>")})

    with pytest.raises(RegistryAway, match="does not let us in"):
        registry.client.schema(7)


def test_the_second_registry_answers_for_the_first() -> None:
    registry = Registry(
        {"/schemas/ids/7": OSError("away"), "http://b/schemas/ids/7": (200, {"schema": "of b"})},
        (URL, "http://b"),
    )

    assert registry.client.schema(7).text == "of b"
    assert registry.pauses == []


def test_the_password_goes_to_the_workers_and_into_no_text() -> None:
    access = RegistryAccess((URL,), "reader", "secret")

    assert pickle.loads(pickle.dumps(access)).password == "secret"
    assert "secret" not in repr(access)


@pytest.mark.parametrize(
    "url",
    ["localhost:8081", "ftp://a", "http://", "http://user:secret@a", "http://a:x", "http://a?b=c"],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(OptionRefused) as refused:
        RegistryAccess((url,))
    assert "secret" not in str(refused.value)


# over HTTP


def serve(
    answer: Callable[[BaseHTTPRequestHandler], None], tls: ssl.SSLContext | None = None
) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *parts: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    Thread(target=server.serve_forever, daemon=True).start()
    return server


def test_the_request_has_the_path_below_the_url_and_the_login() -> None:
    seen: list[tuple[str, str | None]] = []

    def answer(request: BaseHTTPRequestHandler) -> None:
        seen.append((request.path, request.headers["Authorization"]))
        request.send_response(200)
        request.end_headers()
        request.wfile.write(b"{}")

    server = serve(answer)
    url = f"http://127.0.0.1:{server.server_port}/registry/"
    assert Http(RegistryAccess((url,), "a", "b"))(url, "/schemas/ids/7") == (200, b"{}")
    server.shutdown()
    server.server_close()

    assert seen == [("/registry/schemas/ids/7", "Basic YTpi")]


def test_tls_trusts_the_given_authority_alone_and_shows_a_certificate(tmp_path: Path) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.wfile.write(b"{}")

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("reader@example").private_key_and_cert_chain_pem.write_to_path(
        str(tmp_path / "me.pem")
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.configure_trust(tls)
    tls.verify_mode = ssl.CERT_REQUIRED
    server = serve(answer, tls)
    url = f"https://127.0.0.1:{server.server_port}"
    ca, me = str(tmp_path / "ca.pem"), str(tmp_path / "me.pem")

    assert Http(RegistryAccess((url,), ca=ca, certificate=me))(url, "/") == (200, b"{}")
    with pytest.raises(ssl.SSLCertVerificationError):
        Http(RegistryAccess((url,), certificate=me))(url, "/")
    with pytest.raises(OSError, match=r"(?i)certificate|reset|broken pipe|EOF"):
        Http(RegistryAccess((url,), ca=ca))(url, "/")
    server.shutdown()
    server.server_close()


def test_an_answer_that_is_too_long_or_takes_too_long_is_no_answer() -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        for _ in range(9 if request.path == "/long" else 1):
            request.wfile.write(b" " * (1 << 20))

    server = serve(answer)
    url = f"http://127.0.0.1:{server.server_port}"
    with pytest.raises(OSError, match="an answer of more than"):
        Http(RegistryAccess((url,)))(url, "/long")
    times = iter(range(0, 1000, 20))
    with pytest.raises(OSError, match="no whole answer in"):
        Http(RegistryAccess((url,)), lambda: next(times))(url, "/slow")
    server.shutdown()
    server.server_close()
    with pytest.raises(OSError, match="refused"):
        Http(RegistryAccess((url,)))(url, "/away")
