"""A schema registry in the simulated world: answers Confluent's requests by what it was given, late
or not at all where a test says so.
"""

import base64
import json
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tests.broker.stage import Stage
from tests.kit.broker.http_answers import Answers

HOST, PORT = "registry", 8081
URL = f"http://{HOST}:{PORT}"


def framed(number: int, payload: bytes = b"payload") -> bytes:
    return b"\0" + number.to_bytes(4) + payload


class SimulatedRegistry:
    def __init__(self, stage: Stage, host: str = HOST) -> None:
        self.subjects: dict[int, list[str]] = {}
        self.schemas: dict[int, dict[str, Any]] = {}
        self.descriptors: dict[int, FileDescriptorProto] = {}
        self.versions: dict[str, dict[str, Any]] = {}  # "SUBJECT/VERSION"
        self.asked: list[str] = []  # paths
        self.heads: list[str] = []
        self.answer: bytes | None = None  # in place of all others; empty: none
        stage.world.node(host).network.listen(host, PORT, lambda: Answers(self._take))

    def register(
        self, number: int, *subjects: str, kind: str = "AVRO", text: str = '"string"', **fields: Any
    ) -> None:
        self.subjects.setdefault(number, []).extend(subjects)
        self.schemas[number] = {
            "schema": text,
            **({} if kind == "AVRO" else {"schemaType": kind}),
            **fields,
        }

    def _take(self, head: str, body: bytes) -> bytes:
        path = head.split(" ", 2)[1]
        self.asked.append(path)
        self.heads.append(head)
        return self.answer_to(path)

    def answer_to(self, path: str) -> bytes:
        if self.answer is not None:
            return self.answer
        match path.partition("?")[0].strip("/").split("/"):
            case ["schemas", "ids", number, "versions"]:
                subjects = self.subjects.get(int(number))
                found: Any = subjects and [{"subject": each, "version": 1} for each in subjects]
            case ["schemas", "ids", number] if path.endswith("format=serialized"):
                found = {
                    "schemaType": "PROTOBUF",
                    "schema": base64.b64encode(
                        self.descriptors[int(number)].SerializeToString()
                    ).decode(),
                }
            case ["schemas", "ids", number]:
                found = self.schemas.get(int(number))
            case ["subjects", subject, "versions", version]:
                found = self.versions.get(f"{subject}/{version}")
            case _:
                return http("404 Not Found", {"error_code": 404, "message": "HTTP 404 Not Found"})
        return (
            http("200 OK", found)
            if found
            else http("404 Not Found", {"error_code": 40403, "message": "Schema not found"})
        )


def http(status: str, body: Any) -> bytes:
    content = json.dumps(body).encode()
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: "
        f"{len(content)}\r\n\r\n"
    ).encode() + content
