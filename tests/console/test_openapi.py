"""The description of the API is valid, and the API is as described: random and hostile requests to
every route get a documented status, and none fails.
"""

import random
import re
import subprocess
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.client.blocking.member import commit_request
from raftka.client.blocking.producer import Producer
from raftka.console.openapi import REFUSALS, describe
from raftka.console.routes import Route, all_routes
from raftka.console.server import ConsoleServer
from raftka.console.sessions import cookie_name
from raftka.json_values import Json, JsonObject
from raftka.testing import Cluster
from raftka.wire.messages.offsets import OFFSET_COMMIT
from tests.kit.console import OWN, Api, console_of
from tests.kit.toolchains import Missing, Toolchains

ROUTES = {f"{each.method} {each.path}": each for each in all_routes().all}
TRIES = 12  # of requests to each route
TEXTS = (
    *("orders", "0", "-1", "", " ", "ä", "*", ".", "..", "a/b", "%00", "\0", "\r\nX: y", "null"),
    *("<script>alert(1)</script>", "$.a.b", "$[", "(", "(?P<", "a" * 300, "a" * 5000, "\U0001f980"),
    *("2h", "start", "end", "2026-11-21T08:00", "9" * 30, "1e9", "true", "[]", '{"a": 1}'),
)
NUMBERS = (0, 1, -1, 2, 7, 100, 2**31 - 1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
# of names in paths, and of parameters and fields: what is there, so that handlers go all their way
KNOWN: dict[str, Json] = {
    "topic": "orders",
    "to": "orders",
    "name": "orders",
    "topics": ["orders"],
    "group": "readers",
    "partition": 0,
    "partitions": [0],
    "offset": 1,
    "node": 1,
    "broker": 1,
    "validate_only": True,
}
ANY: tuple[Json, ...] = (None, True, 1.5, "x", [], {}, [1, [2]], {"a": {"b": None}})


@pytest.fixture(scope="module")
def console() -> Iterator[ConsoleServer]:
    """In front of a cluster of its own: requests may change anything. Whoever waits for a broker
    waits shortly.
    """
    with pytest.MonkeyPatch.context() as patch, Cluster() as cluster:
        patch.setattr("raftka.console.sessions.PATIENCE_S", 0.5)
        cluster.create_topic("orders", partitions=2)
        with Client(addresses_of(cluster.bootstrap_servers)) as client:
            fill(client)
        with console_of(cluster) as console:
            yield console


def fill(client: Client) -> None:
    """Give a topic records of several kinds, and a group that reads it."""
    producer = Producer(client)
    for key, value in ((b"key", b'{"a": {"b": 1}}'), (None, b"\xff\0"), (b"", None)):
        producer.add(("orders", 0), (key, value, (("a", b"b"),), 0))
    producer.flush()
    committed = commit_request("readers", {("orders", 0): 1})
    answer = client.ask_coordinator("readers", OFFSET_COMMIT, committed, 9)
    assert answer.topics[0].partitions[0].error_code == 0


def document() -> JsonObject:
    return describe(all_routes(), "1.0", cookie_name(8080))


def test_description_is_valid() -> None:
    validator = pytest.importorskip(
        "openapi_spec_validator", reason="openapi-spec-validator is not there: ./run setup"
    )
    validator.OpenAPIV31SpecValidator(document()).validate()


def test_description_has_every_route_with_its_words() -> None:
    found = document()
    operations = [
        (path, method, each)
        for path, methods in found["paths"].items()
        for method, each in methods.items()
    ]
    assert len(operations) == len(ROUTES)
    ids = [each["operationId"] for _, _, each in operations]
    assert len(set(ids)) == len(ids)
    for path, method, each in operations:
        assert each["summary"], (method, path)
        assert each["responses"]["200"]["description"], (method, path)
        names = [one["name"] for one in each["parameters"] if one["in"] == "path"]
        assert names == re.findall(r"{(\w+)}", path)
        has_header = any(one["name"] == "X-Raftka-Console" for one in each["parameters"])
        assert has_header is (method != "get"), (method, path)


def test_description_is_served(console: ConsoleServer) -> None:
    assert Api(console.url).get("/api/openapi.json")["paths"] == document()["paths"]


# an attack

# of schemathesis: a path that is no UTF-8 or too long is refused before its route is known, and a
# topic may have the name of a path's own word
REFUSED_WITH = """
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "409", "413", "415", "421", "431"]
"""
EXCLUDED = ("unsupported_method", "positive_data_acceptance", "allow_header_conformance")
FINDINGS = ("___", "- ST", "[", "    curl", "Error", "Usage")


class Hostile(NamedTuple):
    """Makes values that fit a schema, or nearly fit it."""

    random: random.Random

    def known(self, name: str) -> Json | None:
        return KNOWN.get(name) if self.random.random() < 0.6 else None

    def value(self, schema: JsonObject, depth: int = 0) -> Json:
        choose = self.random.choice
        if self.random.random() < 0.1 or depth > 4:
            return choose(ANY)
        if "anyOf" in schema:
            return self.value(choose(schema["anyOf"]), depth + 1)
        if "enum" in schema:
            return choose([*schema["enum"], choose(TEXTS)])
        match schema.get("type"):
            case "string":
                return choose(TEXTS)
            case "integer" | "number":
                ends = [schema[each] for each in ("minimum", "maximum") if each in schema]
                return choose([*ends, *ends, *NUMBERS])
            case "boolean":
                return choose([True, False])
            case "array":
                count = self.random.randrange(4)
                return [self.value(schema["items"], depth + 1) for _ in range(count)]
            case "object":
                return self._object(schema, depth)
        return choose(ANY)

    def _object(self, schema: JsonObject, depth: int) -> JsonObject:
        found = {
            name: self.known(name) or self.value(each, depth + 1)
            for name, each in schema.get("properties", {}).items()
            if name in schema.get("required", ()) or self.random.random() < 0.5
        }
        if isinstance(other := schema.get("additionalProperties"), dict):
            for _ in range(self.random.randrange(3)):
                found[self.random.choice(TEXTS)[:50]] = self.value(other, depth + 1)
        if self.random.random() < 0.05:
            found[self.random.choice(TEXTS)[:50]] = 1
        return found

    def path(self, route: Route) -> str:
        parts = (
            quote(str(self.known(part[1:-1]) or self.random.choice(TEXTS)), safe="")
            if part.startswith("{")
            else part
            for part in route.parts
        )
        return "/" + "/".join(parts)

    def query(self, parameters: list[JsonObject]) -> list[tuple[str, object]]:
        found: list[tuple[str, object]] = []
        for each in parameters:
            if each["in"] == "query" and (each["required"] or self.random.random() < 0.5):
                value = self.known(each["name"]) or self.value(each["schema"])
                values = value if isinstance(value, list) else [value]
                found += [
                    (each["name"], str(one).lower() if one in (True, False) else one)
                    for one in values
                ]
        if self.random.random() < 0.05:
            found.append((self.random.choice(TEXTS), 1))
        return found


@pytest.mark.parametrize("name", ROUTES)
def test_hostile_requests_get_a_documented_status(console: ConsoleServer, name: str) -> None:
    """A status of 500 is none; `console_of` fails for a handler that fails."""
    route = ROUTES[name]
    operation = document()["paths"][route.path][route.method.lower()]
    documented = {int(status) for status in operation["responses"]} - {500}
    hostile = Hostile(random.Random(name))
    for _ in range(TRIES):
        path, query = hostile.path(route), hostile.query(operation["parameters"])
        body: Json = None
        if "requestBody" in operation:
            body = hostile.value(operation["requestBody"]["content"]["application/json"]["schema"])
            body = {} if body is None else body
        status, text = answered(Api(console.url), route.method, path, query, body)
        # without its names the path may be another one
        assert status in documented | {404, 405}, (status, text, path, query, body)


def answered(
    api: Api, method: str, path: str, query: list[tuple[str, object]], body: Json
) -> tuple[int, bytes]:
    """Return the status and the beginning of the answer: a stream may go on for ever."""
    connection, response = api.open(method, path, query, body)
    try:
        return response.status, response.read1(2000)
    except HTTPException as error:
        return response.status, str(error).encode()
    finally:
        connection.close()


def test_schemathesis_finds_nothing(
    console: ConsoleServer, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    try:
        program = Toolchains(request.config.getoption("--all-clients")).schemathesis()
    except Missing as missing:
        pytest.skip(str(missing))
    config = tmp_path / "schemathesis.toml"
    config.write_text(REFUSED_WITH)
    header = [f"--header={name}: {value}" for name, value in OWN.items()]
    done = subprocess.run(
        [
            *program.command,
            f"--config-file={config}",
            "--no-color",
            "run",
            f"{console.url}/api/openapi.json",
            *header,
            "--max-examples=10",
            "--phases=coverage,fuzzing",
            f"--exclude-checks={','.join(EXCLUDED)}",
        ],
        env=program.env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    report = tmp_path / "report.txt"
    report.write_text(done.stdout + done.stderr)
    found = [line[:300] for line in done.stdout.splitlines() if line.startswith(FINDINGS)]
    assert done.returncode == 0, [*found, str(report)]


def test_refusals_are_those_that_are_described() -> None:
    assert {400, 401, 403, 404, 409, 413, 415, 421, 500, 501, 502, 503} <= REFUSALS.keys()
