"""Requests and stored data of a client are bounded: each limit is told, counted, and harms no other
client.
"""

import json
import threading
from dataclasses import replace

import pytest

from raftka.limits import Limit
from raftka.registry import limits
from raftka.registry.access import User
from raftka.registry.broker_access import BrokerAccess, Rights
from raftka.registry.parsed_schemas import ParsedSchemas
from raftka.registry.rest.api import Api
from raftka.registry.rest.requests import Request
from raftka.registry.server import RegistryServer
from tests.registry.rest import Rest, connected, record, talk
from tests.registry.small_limits import hits, small

# requests


def test_a_head_that_comes_at_once_has_its_limit_too(raftka_registry: RegistryServer) -> None:
    headers = b"".join(b"X-%d: %s\r\n" % (at, b"x" * 100) for at in range(200))

    assert talk(
        raftka_registry, b"GET /config HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n"
    ).startswith(b"HTTP/1.1 431 ")
    assert hits(raftka_registry, limits.HEAD_BYTES) == 1


def test_requests_before_a_wrong_one_are_answered(raftka_registry: RegistryServer) -> None:
    answer = talk(raftka_registry, b"GET /config HTTP/1.1\r\nHost: x\r\n\r\nNONSENSE\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 400 " in answer


def test_bodies_of_all_clients_are_bounded_and_small_ones_still_come(
    raftka_registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = b"POST /subjects/t/versions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"
    with (
        connected(raftka_registry) as first,
        connected(raftka_registry) as second,
        Rest(raftka_registry) as rest,
    ):
        rest.get("/config")
        http = raftka_registry.http
        assert http is not None
        most = Limit(limits.BODIES_BYTES.name, 200_000, "")
        monkeypatch.setattr(http, "bounds", replace(http.bounds, bodies=most))
        first.sendall(head + b"x" * 150_000)
        while http.held_bytes < 150_000:
            rest.get("/config")
        second.sendall(head + b"x" * 150_000)

        assert second.recv(100).startswith(b"HTTP/1.1 503 ")
        assert rest.register("t", '"string"') == 1
    assert hits(raftka_registry, limits.BODIES_BYTES) == 1


def test_a_schema_with_all_that_it_refers_to_is_bounded(
    raftka_registry: RegistryServer, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.register("big", {**record("Big", a="int"), "doc": "x" * 3000})
    reference = {"name": "Big", "subject": "big", "version": 1}
    small(monkeypatch, "registry", limits.SCHEMA_CHARACTERS, 3000)

    assert rest.try_register("t", record("Uses", big="Big"), references=[reference]).code == 42201
    assert rest.register("t", '"string"') == 2
    assert hits(raftka_registry, limits.SCHEMA_CHARACTERS) == 1


@pytest.mark.parametrize("method", ["POST", "PUT /config", "PUT /mode"])
def test_names_of_subjects_are_bounded(
    raftka_registry: RegistryServer, rest: Rest, method: str
) -> None:
    name = "x" * (limits.NAME_CHARACTERS.value + 1)
    verb, _, path = method.partition(" ")
    target = f"{path}/{name}" if path else f"/subjects/{name}/versions"

    answer = rest.ask(
        verb, target, {"schema": '"string"', "compatibility": "FULL", "mode": "READONLY"}
    )

    assert (answer.status, answer.code) == (422, 422)
    assert hits(raftka_registry, limits.NAME_CHARACTERS) == 1


# what is kept


def test_versions_are_bounded(
    raftka_registry: RegistryServer, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.register("a", '"string"')
    rest.register("b", '"string"')
    small(monkeypatch, "registry", limits.VERSIONS, 2)

    assert rest.try_register("c", '"string"').code == 42205
    assert rest.register("a", '"string"') == 1
    rest.delete("/subjects/b")
    assert rest.try_register("c", '"string"').code == 42205
    rest.delete("/subjects/b?permanent=true")
    assert rest.register("c", '"string"') == 1
    assert hits(raftka_registry, limits.VERSIONS) == 2


def test_characters_of_all_schemas_are_bounded(
    raftka_registry: RegistryServer, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, "registry", limits.STORED_CHARACTERS, 100)
    rest.register("a", {"type": "enum", "name": "A", "symbols": ["x"]})

    assert (
        rest.try_register("b", record("Long", **{f"field{at}": "int" for at in range(10)})).code
        == 42205
    )
    assert rest.register("b", '"string"') == 2
    assert hits(raftka_registry, limits.STORED_CHARACTERS) == 1


@pytest.mark.parametrize(
    ("path", "body"), [("/config", {"compatibility": "FULL"}), ("/mode", {"mode": "READONLY"})]
)
def test_settings_of_subjects_are_bounded(
    rest: Rest, monkeypatch: pytest.MonkeyPatch, path: str, body: object
) -> None:
    rest.put(f"{path}/a", body)
    small(monkeypatch, "settings.changes", limits.VERSIONS, 1)

    assert rest.ask("PUT", f"{path}/b", body).code == 42205
    assert rest.put(f"{path}/a", body)
    rest.delete(f"{path}/a")
    assert rest.put(f"{path}/b", body)


def test_schemas_that_are_kept_parsed_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    hit: list[Limit] = []
    small(monkeypatch, "parsed_schemas", limits.PARSED_CHARACTERS, 100)
    schemas = ParsedSchemas(hit.append)
    texts = [json.dumps({"type": "enum", "name": f"E{at}", "symbols": ["x"]}) for at in range(4)]

    first = schemas.parsed("AVRO", texts[0], ())
    assert schemas.parsed("AVRO", texts[0], ()) is first
    for text in texts[1:]:
        schemas.parsed("AVRO", text, ())

    assert schemas.parsed("AVRO", texts[0], ()) is not first
    assert [each.name for each in hit] == [limits.PARSED_CHARACTERS.name] * 3


async def test_rights_of_all_users_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    hit: list[Limit] = []
    small(monkeypatch, "broker_access", limits.RIGHTS, 10)
    access = BrokerAccess(lambda user: pytest.fail("no broker is asked"), hit=hit.append)

    for name, count in (("a", 6), ("b", 6), ("c", 20), ("d", 1)):
        access._keep(name, Rights(b"", 0.0, 0, {f"t{at}": 1 << 3 for at in range(count)}))

    assert [access.may(User(name, ""), "see", "t0") for name in "abcd"] == [
        False,
        False,
        False,
        True,
    ]
    assert [each.name for each in hit] == [limits.RIGHTS.name] * 3


# what others must not wait for


def test_questions_with_long_answers_and_parsing_are_for_threads(
    raftka_registry: RegistryServer,
) -> None:
    api: Api = raftka_registry.api

    def is_slow(method: str, target: str) -> bool:
        return api.route(Request.of(method, target))[0].slow

    assert not is_slow("GET", "/schemas/ids/1")
    assert not is_slow("GET", "/subjects/t/versions/latest")
    assert is_slow("GET", "/schemas/ids/1?format=serialized")
    assert is_slow("GET", "/subjects/t/versions/1?format=serialized")
    assert is_slow("GET", "/schemas/ids/1/subjects")
    assert is_slow("GET", "/subjects")
    assert is_slow("POST", "/subjects/t")


def test_other_connections_go_on_while_one_waits_for_the_state(
    raftka_registry: RegistryServer, rest: Rest
) -> None:
    rest.register("t", '"string"')
    taken, let = threading.Event(), threading.Event()

    def hold() -> None:
        with raftka_registry._log.lock:
            taken.set()
            let.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait()
    with connected(raftka_registry) as waiting:
        waiting.sendall(b"GET /schemas/ids/1 HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            assert hits(raftka_registry, limits.AT_WORK) == 0  # the page is answered
        finally:
            let.set()
            holder.join()
        assert waiting.recv(1000).startswith(b"HTTP/1.1 200 ")
