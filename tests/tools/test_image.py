"""The image's files: the compose file starts as three processes, the Containerfile keeps its
promises. `./run image` builds and tries the image itself.
"""

import json
import re
from pathlib import Path

import yaml
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from raftka.cluster.properties import parse
from raftka.metadata.configs.environment import read_environment
from raftka.metadata.configs.settings import NodeSettings
from tests.kit.composes import services_of, started
from tests.kit.documents import ROOT

IMAGE = ROOT / "tools/image"
COMPOSE = IMAGE / "compose.yaml"
CONTAINERFILE = (IMAGE / "Containerfile").read_text()


def test_the_compose_file_is_a_cluster_of_three(tmp_path: Path) -> None:
    with started(services_of(COMPOSE), tmp_path) as running:
        assert [each.process.poll() for each in running] == [None] * 3, running[0].text
        hosts = [f"127.0.0.1:{each.ports[9092]}" for each in running]
        client = {"bootstrap.servers": ",".join(hosts)}
        admin = AdminClient(client)
        admin.create_topics([NewTopic("t", 3)])["t"].result(30)
        producer = Producer({**client, "acks": "all"})
        for partition in range(3):
            producer.produce("t", f"{partition}", partition=partition)
        assert producer.flush(30) == 0
        consumer = Consumer({**client, "group.id": "g", "auto.offset.reset": "earliest"})
        try:
            consumer.subscribe(["t"])
            messages = [consumer.poll(30) for _ in range(3)]
        finally:
            consumer.close()
        assert {each.value() for each in messages if each is not None} == {b"0", b"1", b"2"}
        topic = admin.list_topics(timeout=30).topics["t"]
        assert [len(each.replicas) for each in topic.partitions.values()] == [3, 3, 3]
        found = admin.list_topics(timeout=30)
        assert {f"{each.host}:{each.port}" for each in found.brokers.values()} == set(hosts)


def test_the_compose_file_has_a_place_for_each_node_s_data() -> None:
    found = yaml.safe_load(COMPOSE.read_text())

    volumes = [each["volumes"] for each in found["services"].values()]
    assert volumes == [[f"data-{number}:/data"] for number in (1, 2, 3)]
    assert sorted(found["volumes"]) == ["data-1", "data-2", "data-3"]
    assert all(
        each["read_only"] and each["tmpfs"] == ["/tmp"] for each in found["services"].values()
    )


def instruction(name: str) -> str:
    """The last instruction of that name in the Containerfile."""
    joined = CONTAINERFILE.replace("\\\n", " ")
    found: list[str] = re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)
    return found[-1].strip()


def test_the_image_starts_from_its_file_and_asks_the_same_one_for_health() -> None:
    assert instruction("USER") == "1000:1000"
    assert instruction("STOPSIGNAL") == "SIGTERM"
    command = json.loads(instruction("ENTRYPOINT"))
    assert command[:-1] == ["raftka", "broker", "start", "--from-env"]
    check = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    assert check == ["raftka", "broker", "health", *command[-2:]]
    assert f"COPY tools/image/server.properties {command[-1]}" in CONTAINERFILE


def test_without_an_environment_the_image_is_one_node_with_data_and_health() -> None:
    below = parse((IMAGE / "server.properties").read_text())
    found = NodeSettings.from_properties(read_environment({}, below, str).properties)

    assert found.log_dirs == ("/data",)
    assert found["metrics.port"] == 9292
    assert {str(each.port) for each in found.listeners} == set(instruction("EXPOSE").split())
