"""Several instances of a registry on one topic: one writes at a time, all read the same; one that
dies in the middle leaves nothing.
"""

import threading

import pytest

from raftka.client.blocking.producer import Producer
from raftka.client.blocking.transaction import begin
from raftka.registry.errors import RegistryError
from raftka.registry.log import TRANSACTION_MS, Decided, SchemasLog
from raftka.registry.parsed_schemas import ParsedSchemas
from raftka.registry.records import Body, Registered, schema_record
from raftka.registry.registry import Asked, Registry
from raftka.registry.server import Port, RegistryServer
from raftka.registry.state import State
from raftka.testing import Cluster
from tests.registry.conftest import TOPIC, Make
from tests.registry.rest import Rest


def registry_of(log: SchemasLog) -> Registry:
    return Registry(log, ParsedSchemas())


def schemas(state_of: SchemasLog) -> list[tuple[str, int, int]]:
    with state_of.lock:
        return [(each.subject, each.version, each.schema_id) for each in state_of.state]


def test_instances_that_write_at_once_give_out_each_id_once(logs: list[SchemasLog]) -> None:
    ids: list[int] = []

    def work(registry: Registry, name: str) -> None:
        for number in range(10):
            schema = f'{{"type":"enum","name":"{name}{number}","symbols":["x"]}}'
            ids.append(registry.register(f"{name}-{number % 3}", Asked(Body("AVRO", schema))))

    for log in logs:  # so that enums of one subject follow each other
        registry_of(log).settings.update(None, {"compatibilityLevel": "NONE"})
    threads = [
        threading.Thread(target=work, args=(registry_of(log), f"w{at}"))
        for at, log in enumerate(logs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(ids) == list(range(1, 21))
    for log in logs:
        log.write(lambda: (None, ()))  # it reads to the end
    assert schemas(logs[0]) == schemas(logs[1])
    assert len(schemas(logs[0])) == 20


def test_a_write_knows_what_another_instance_has_written(logs: list[SchemasLog]) -> None:
    first, second = map(registry_of, logs)
    body = Body("AVRO", '"string"')

    assert first.register("a", Asked(body)) == 1
    assert second.register("b", Asked(Body("AVRO", '"int"'))) == 2
    assert first.register("b", Asked(Body("AVRO", '"int"'))) == 2


def test_a_schema_that_another_instance_has_registered_meanwhile_is_no_new_version(
    logs: list[SchemasLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even one whose metadata say the number of its version."""
    first, second = map(registry_of, logs)
    asked = Asked(Body("AVRO", '"string"'), version=-1)
    number = first.register("a", asked)
    logs[1].write(lambda: (None, ()))
    look, looked = Registry._registered, list[object]()

    def look_late(self: Registry, subject: str, asked: Asked) -> Registered | None:
        """As if the state were still without it, at the first look."""
        looked.append(asked)
        return look(self, subject, asked) if len(looked) > 1 else None

    monkeypatch.setattr(Registry, "_registered", look_late)

    assert second.register("a", asked) == number
    assert schemas(logs[1]) == [("a", 1, number)]


def test_an_instance_that_was_overtaken_decides_again(logs: list[SchemasLog]) -> None:
    slow, fast = logs
    tries: list[int] = []

    def decide() -> Decided[int]:
        """The first time the other instance comes between the decision and its write."""
        with slow.lock:
            number = slow.state.highest() + 1
        tries.append(number)
        if len(tries) == 1:
            registry_of(fast).register("fast", Asked(Body("AVRO", '"int"')))
        return number, (schema_record(Registered("slow", 1, number, Body("AVRO", '"string"'))),)

    assert slow.write(decide) == 2
    assert tries == [1, 2]
    fast.write(lambda: (None, ()))
    assert schemas(fast) == schemas(slow) == [("fast", 1, 1), ("slow", 1, 2)]


def test_what_an_instance_wrote_that_died_before_its_commit_is_never_read(
    logs: list[SchemasLog], make_client: Make
) -> None:
    with make_client() as client:
        identity = begin(client, f"raftka-registry-{TOPIC}", TRANSACTION_MS)
        producer = Producer(client, identity=identity)
        producer.add(
            (TOPIC, 0), (*schema_record(Registered("dead", 1, 1, Body("AVRO", '"string"'))), (), 0)
        )
        producer.flush()

    assert registry_of(logs[0]).register("alive", Asked(Body("AVRO", '"int"'))) == 1
    logs[1].write(lambda: (None, ()))
    assert schemas(logs[0]) == schemas(logs[1]) == [("alive", 1, 1)]


def test_an_id_stays_used_when_compaction_has_taken_its_schema(raftka_cluster: Cluster) -> None:
    with raftka_cluster.registry(TOPIC) as registry, Rest(registry) as rest:
        number = rest.register("t", '"string"')
        rest.delete("/subjects/t")
        rest.delete("/subjects/t?permanent=true")
    compacted = {record.key: record.value for record in raftka_cluster.records(TOPIC)}
    raftka_cluster.delete_topic(TOPIC)

    state = State()
    for key, value in compacted.items():
        if value is not None:
            state.apply(key, value)

    assert state.highest() == number


def test_a_registry_finds_its_schemas_after_a_restart_of_everything(
    raftka_cluster: Cluster,
) -> None:
    with raftka_cluster.registry(TOPIC) as registry, Rest(registry) as rest:
        number = rest.register("t", '"string"')
        rest.put("/config/t", {"compatibility": "NONE"})
    for node_id in raftka_cluster.nodes:
        raftka_cluster.restart(node_id)

    with raftka_cluster.registry(TOPIC) as registry, Rest(registry) as rest:
        assert rest.get(f"/schemas/ids/{number}") == {"schema": '"string"'}
        assert rest.get("/config/t") == {"compatibilityLevel": "NONE"}
    raftka_cluster.delete_topic(TOPIC)


def test_a_registry_goes_on_when_brokers_were_away(raftka_cluster: Cluster) -> None:
    with raftka_cluster.registry(TOPIC) as registry, Rest(registry) as rest:
        first = rest.register("t", '"string"')
        raftka_cluster.kill(1)
        assert rest.get(f"/schemas/ids/{first}") == {"schema": '"string"'}
        raftka_cluster.restart(1)

        assert rest.register("u", '"int"') == first + 1
    raftka_cluster.delete_topic(TOPIC)


def test_the_topic_is_read_again_after_a_failure(
    raftka_cluster: Cluster, make_client: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[BaseException] = []
    monkeypatch.setattr("raftka.registry.log.AGAIN_S", 0.01)
    log = SchemasLog(make_client, TOPIC, failed=failures.append)
    log.start()
    apply, failing = log.state.apply, [MemoryError("once")]

    def fail_once(key: bytes | None, value: bytes | None) -> None:
        if failing:
            raise failing.pop()
        apply(key, value)

    monkeypatch.setattr(log.state, "apply", fail_once)
    try:
        with make_client() as client:
            producer = Producer(client)
            producer.add(
                (TOPIC, 0), (*schema_record(Registered("t", 1, 1, Body("AVRO", '"string"'))), (), 0)
            )
            producer.flush()
        with log._moved:
            assert log._moved.wait_for(lambda: len(log.state) == 1, 60)

        assert registry_of(log).register("u", Asked(Body("AVRO", '"int"'))) == 2
        assert list(map(str, failures)) == ["once"]
    finally:
        log.stop()
        raftka_cluster.delete_topic(TOPIC)


def test_a_version_that_no_parser_here_knows_keeps_no_other_away(
    logs: list[SchemasLog], make_client: Make
) -> None:
    """Another registry may have written it, with another parser."""
    with make_client() as client:
        producer = Producer(client)
        producer.add(
            (TOPIC, 0),
            (
                *schema_record(Registered("t", 1, 1, Body("AVRO", '{"type": "from the future"}'))),
                (),
                0,
            ),
        )
        producer.flush()
    registry, string = registry_of(logs[0]), Asked(Body("AVRO", '"string"'))

    with pytest.raises(RegistryError, match="version 1 cannot be parsed here"):
        registry.register("t", string)
    with pytest.raises(RegistryError, match="Schema not found"):
        registry.find("t", string)
    registry.settings.update("t", {"compatibilityLevel": "NONE"})
    assert registry.register("t", string) == 2


@pytest.mark.parametrize("soon", [False, True])
def test_a_registry_that_stops_leaves_no_thread(
    make_client: Make, raftka_cluster: Cluster, soon: bool
) -> None:
    registry = RegistryServer(make_client, Port(number=0), TOPIC)
    registry.start()
    assert registry._thread is not None
    threads = {registry._thread.thread, registry._log._reading}

    registry.stop_soon() if soon else registry.stop()
    if soon:
        registry._thread.thread.join()

    assert not threads & set(threading.enumerate())
    raftka_cluster.delete_topic(TOPIC)


@pytest.mark.parametrize(("partitions", "policy"), [(1, "delete"), (2, "compact")])
def test_a_topic_of_no_use_is_refused(
    raftka_cluster: Cluster, make_client: Make, partitions: int, policy: str
) -> None:
    raftka_cluster.create_topic(TOPIC, partitions, cleanup_policy=policy)

    with pytest.raises(
        RegistryError,
        match="cleanup.policy=delete" if policy == "delete" else "more than one partition",
    ):
        RegistryServer(make_client, Port(number=0), TOPIC).start()
    raftka_cluster.delete_topic(TOPIC)


def test_a_port_that_is_taken_is_refused(
    make_client: Make, raftka_registry: RegistryServer
) -> None:
    with pytest.raises(OSError, match="in use"):
        RegistryServer(make_client, Port(number=raftka_registry.port), TOPIC).start()


def test_a_node_has_a_registry() -> None:
    with Cluster(registry_port=0) as cluster:

        def url() -> str:
            return f"http://127.0.0.1:{cluster._embedded.nodes[1].edges['registry.port'].port}"

        with Rest(url()) as rest:
            assert rest.register("t", '"string"') == 1
        cluster.restart(1)
        with Rest(url()) as rest:
            assert rest.get("/subjects") == ["t"]
