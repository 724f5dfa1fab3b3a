"""An HTTP client of the simulated network."""

from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from tests.broker.stage import Stage, Wire

PORT = 9404
GET = b"GET /health HTTP/1.1\r\nHost: n1\r\n\r\n"


class Browser(Wire):
    """Keeps what comes as it comes."""

    def __init__(self, stage: Stage, node_id: int = 1, port: int = PORT) -> None:
        super().__init__(stage.world, stage.runtime, f"n{node_id}", port)
        self.came = bytearray()

    def receive(self, view: memoryview) -> None:
        if not view:
            self.close()
        self.came += view

    def answer_to(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers, body of the next answer."""
        self.came.clear()
        self.send(request)
        return self.page(head_only=request.startswith(b"HEAD"))

    def page(self, head_only: bool = False) -> tuple[int, dict[str, str], bytes]:
        assert self.world.run(
            lambda: b"\r\n\r\n" in self.came or self.close_reason is not None, at_most_s=60.0
        )
        head, _, _ = bytes(self.came).partition(b"\r\n\r\n")
        line, *fields = head.decode().split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (field.partition(": ") for field in fields)
        }
        size = 0 if head_only else int(headers["content-length"])
        end = len(head) + 4 + size
        assert self.world.run(lambda: len(self.came) >= end, at_most_s=60.0)
        body = bytes(self.came[len(head) + 4 : end])
        del self.came[:end]
        return int(line.split()[1]), headers, body


class Sample(NamedTuple):
    node: int
    name: str
    labels: dict[str, str]
    value: float


class Samples(list[Sample]):
    """Samples of all nodes, by name and labels."""

    def of(self, name: str, **labels: str) -> list[float]:
        return [
            each.value
            for each in self
            if each.name == name and all(each.labels.get(k, "") == v for k, v in labels.items())
        ]

    def sum(self, name: str, **labels: str) -> float:
        found = self.of(name, **labels)
        assert found, f"no {name}{labels}"
        return sum(found)


def scraped(stage: Stage) -> Samples:
    samples = Samples()
    for node_id in stage.nodes:
        _, headers, body = Browser(stage, node_id).answer_to(
            b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        for family in text_string_to_metric_families(body.decode()):
            samples += [
                Sample(node_id, each.name, dict(each.labels), each.value) for each in family.samples
            ]
    return samples
