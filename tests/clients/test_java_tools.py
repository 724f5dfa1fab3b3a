"""Apache Kafka's console tools: what they did is what they say, and what other tools say after
them. One JVM and one cluster for all of them.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftka.client.blocking.client import Client
from raftka.client.blocking.connection import addresses_of
from raftka.cluster.processes import Processes, running
from raftka.versions import METADATA_VERSION, SUPPORTED
from raftka.wire.errors import Code
from raftka.wire.messages.share_groups import SHARE_GROUP_HEARTBEAT
from tests.clients.hanging import UNVERIFIED, Producer, begin, hang
from tests.clients.java import JavaTools, ToolFailed
from tests.clients.workload import by_key, wait
from tests.kit.toolchains import Program


@pytest.fixture(scope="module")
def cluster(java_tools: Program) -> Iterator[Processes]:
    with running(nodes=3) as processes:
        yield processes


@pytest.fixture(scope="module")
def kafka(java_tools: Program, cluster: Processes) -> Iterator[JavaTools]:
    with JavaTools(java_tools, cluster.bootstrap_servers) as tools:
        yield tools


@pytest.fixture
def client(cluster: Processes) -> Iterator[Client]:
    with Client(addresses_of(cluster.bootstrap_servers)) as client:
        yield client


def partitions(kafka: JavaTools, topic: str) -> list[tuple[int, str, set[str]]]:
    """Leader, replicas and in-sync replicas of each, as kafka-topics describes them."""
    rows = re.findall(
        r"Partition: \d+\tLeader: (\w+)\tReplicas: ([\d,]+)\tIsr: ([\d,]*)",
        kafka.run(f"kafka-topics --describe --topic {topic}"),
    )
    return [(int(leader), replicas, set(isr.split(","))) for leader, replicas, isr in rows]


def offsets(kafka: JavaTools, topic: str, time: str) -> list[int]:
    rows = [
        line.split(":")
        for line in kafka.run(f"kafka-get-offsets --topic {topic} --time {time}").split()
    ]
    assert [(name, int(index)) for name, index, _ in rows] == [
        (topic, index) for index in range(len(rows))
    ]
    return [int(offset) for *_, offset in rows]


def written(folder: Path, content: Any) -> str:
    file = folder / "given.json"
    file.write_text(json.dumps({"version": 1, **content}))
    return str(file)


def test_topics(kafka: JavaTools) -> None:
    assert (
        kafka.run(
            "kafka-topics --create --topic made --replica-assignment 1:2,2:3 --config "
            "retention.ms=1000000"
        )
        == "Created topic made.\n"
    )
    assert "made" in kafka.run("kafka-topics --list").split()
    described = kafka.run("kafka-topics --describe --topic made")
    assert re.match(
        r"Topic: made\tTopicId: \S{22}\tPartitionCount: 2\tReplicationFactor: 2\tConfigs: "
        r".*retention\.ms=1000000\n",
        described,
    )

    kafka.run("kafka-topics --alter --topic made --partitions 3 --replica-assignment 1:2,2:3,3:1")
    wait(
        lambda: (
            partitions(kafka, "made")
            == [(1, "1,2", {"1", "2"}), (2, "2,3", {"2", "3"}), (3, "3,1", {"1", "3"})]
        )
    )
    with pytest.raises(ToolFailed, match="The topic made currently has 3 partition"):
        kafka.run("kafka-topics --alter --topic made --partitions 2")
    with pytest.raises(ToolFailed, match="Topic 'made' already exists"):
        kafka.run("kafka-topics --create --topic made")

    kafka.run("kafka-topics --delete --topic made")
    wait(lambda: "made" not in kafka.run("kafka-topics --list").split())


def features(kafka: JavaTools) -> dict[str, tuple[str, str, str]]:
    """By name: the lowest and the highest supported level, and the finalized one."""
    rows = [line.split() for line in kafka.run("kafka-features describe").splitlines()]
    return {row[1]: (row[3], row[5], row[7]) for row in rows if row}


def test_features_of_a_whole_release_are_upgraded(kafka: JavaTools) -> None:
    mapping = kafka.run("kafka-features version-mapping --release-version 4.4")
    assert mapping.splitlines()[0] == "metadata.version=33 (4.4)"
    for dry in ("--dry-run", ""):
        done = kafka.run(f"kafka-features upgrade --release-version 4.4 {dry}").splitlines()
        verb = "can be" if dry else "was"
        assert f"metadata.version {verb} upgraded to 33." in done
    ranges = {name: (str(low), str(high)) for name, (low, high) in SUPPORTED.items()}
    shown = features(kafka)
    assert shown.pop(METADATA_VERSION) == ("3.3-IV3", "4.4-IV2", "4.4-IV2")
    assert {name: row[:2] for name, row in shown.items()} == {
        name: ranges[name] for name in ranges.keys() - {METADATA_VERSION}
    }


def test_features_are_raised_and_lowered(kafka: JavaTools) -> None:
    kafka.run("kafka-features upgrade --release-version 4.4")  # another test may not have run yet
    lowered = kafka.run("kafka-features downgrade --feature transaction.version=1")
    assert lowered.splitlines() == ["transaction.version was downgraded to 1."]
    assert features(kafka)["transaction.version"] == ("0", "2", "1")
    kafka.run("kafka-features downgrade --feature group.version=0 --dry-run")
    kafka.run("kafka-features upgrade --feature transaction.version=2")
    assert features(kafka)["transaction.version"] == ("0", "2", "2")

    refused = "Refusing to perform the requested downgrade"
    with pytest.raises(ToolFailed, match=refused):
        kafka.run("kafka-features downgrade --release-version 4.3")
    with pytest.raises(ToolFailed, match=r"Unsafe metadata downgrade is not supported"):
        kafka.run("kafka-features downgrade --feature metadata.version=30 --unsafe")
    with pytest.raises(ToolFailed, match="only supports versions 1-3"):
        kafka.run("kafka-features upgrade --dry-run --feature raftka.version=4")


def test_records_in_and_out(kafka: JavaTools, tmp_path: Path) -> None:
    kafka.run("kafka-topics --create --topic kept --partitions 3 --replication-factor 3")
    sent = "".join(f"key-{i % 10}:{i // 10}\n" for i in range(100))
    keyed = (
        "--reader-property parse.key=true --reader-property key.separator=: --compression-codec "
        "zstd"
    )
    assert "ERROR" not in kafka.run(f"kafka-console-producer --topic kept {keyed}", given=sent)

    def read(partition: int, start: int, count: int) -> list[tuple[int, bytes, bytes]]:
        shown = "--formatter-property print.offset=true --formatter-property print.key=true"
        printed = kafka.run(
            f"kafka-console-consumer --topic kept --partition {partition} --offset {start} "
            f"--max-messages {count} {shown}"
        )
        return [
            (int(offset), key.encode(), value.encode())
            for offset, key, value in re.findall(r"Offset:(\d+)\t(.*)\t(.*)", printed)
        ]

    ends = offsets(kafka, "kept", "latest")
    assert sum(ends) == 100
    records = [read(partition, 0, end) for partition, end in enumerate(ends)]
    assert [[offset for offset, *_ in each] for each in records] == [
        list(range(end)) for end in ends
    ]
    assert by_key((key, value) for each in records for _, key, value in each) == {
        b"key-%d" % key: list(range(10)) for key in range(10)
    }

    partition = max(range(3), key=ends.__getitem__)
    upto = {"partitions": [{"topic": "kept", "partition": partition, "offset": 7}]}
    printed = kafka.run("kafka-delete-records --offset-json-file", written(tmp_path, upto))
    assert f"partition: kept-{partition}\tlow_watermark: 7\n" in printed
    assert offsets(kafka, "kept", "earliest") == [
        7 if index == partition else 0 for index in range(3)
    ]
    assert read(partition, 7, 3) == records[partition][7:10]


def test_groups(kafka: JavaTools) -> None:
    kafka.run("kafka-topics --create --topic grouped --partitions 3 --replication-factor 3")
    # every partition has some: of an empty one nothing may be committed
    keyed = "--reader-property parse.key=true --reader-property key.separator=:"
    kafka.run(
        f"kafka-console-producer --topic grouped {keyed}",
        given="".join(f"{i}:{i}\n" for i in range(90)),
    )
    reading = (
        "kafka-console-consumer --topic grouped --group readers --timeout-ms 20000 "
        "--command-property auto.offset.reset=earliest"
    )
    first, rest = (
        re.findall(r"^\d+$", kafka.run(f"{reading} --max-messages {count}"), re.MULTILINE)
        for count in (60, 30)
    )
    # the second went on where the first had stopped
    assert sorted(map(int, first + rest)) == list(range(90))

    assert kafka.run("kafka-consumer-groups --list").split() == ["readers"]
    assert re.search(
        r"\nreaders .* Empty +0\s*$",
        kafka.run("kafka-consumer-groups --describe --group readers --state"),
    )
    ends = offsets(kafka, "grouped", "latest")
    assert group_offsets(kafka) == [(index, end, end, 0) for index, end in enumerate(ends)]

    kafka.run(
        "kafka-consumer-groups --group readers --topic grouped --reset-offsets --shift-by -5 "
        "--execute"
    )
    assert group_offsets(kafka) == [
        (index, max(0, end - 5), end, min(5, end)) for index, end in enumerate(ends)
    ]
    kafka.run("kafka-consumer-groups --group readers --topic grouped:0 --delete-offsets")
    assert [index for index, *_ in group_offsets(kafka)] == [1, 2]
    kafka.run("kafka-consumer-groups --group readers --delete")
    assert kafka.run("kafka-consumer-groups --list").split() == []


def test_groups_of_the_new_protocol(kafka: JavaTools) -> None:
    kafka.run("kafka-topics --create --topic grouped-2 --partitions 3 --replication-factor 3")
    kafka.run(
        "kafka-console-producer --topic grouped-2", given="".join(f"{i}\n" for i in range(30))
    )
    properties = (
        "--command-property auto.offset.reset=earliest --command-property group.protocol=consumer"
    )
    read = kafka.run(
        "kafka-console-consumer --topic grouped-2 --group new-readers --timeout-ms 20000 "
        f"{properties} --max-messages 30"
    )

    assert sorted(map(int, re.findall(r"^\d+$", read, re.MULTILINE))) == list(range(30))
    assert re.search(
        r"\nnew-readers .* Empty +0\s*$",
        kafka.run("kafka-consumer-groups --describe --group new-readers --state"),
    )
    assert re.search(
        r"new-readers +Consumer",
        kafka.run("kafka-consumer-groups --list --type consumer"),
        re.IGNORECASE,
    )
    kafka.run("kafka-consumer-groups --group new-readers --delete")


@pytest.mark.skipif("share.version" not in SUPPORTED, reason="it has no share groups")
def test_share_groups(kafka: JavaTools, client: Client) -> None:
    kafka.run("kafka-topics --create --topic shared --partitions 2 --replication-factor 3")
    kafka.run("kafka-console-producer --topic shared", given="".join(f"{i}\n" for i in range(9)))
    request = SHARE_GROUP_HEARTBEAT.request(
        group_id="sharers", member_id="m" * 22, subscribed_topic_names=["shared"]
    )
    member = client.ask_coordinator("sharers", SHARE_GROUP_HEARTBEAT, request)
    assert member.error_code == 0
    share = "kafka-share-groups --group sharers"
    assert "sharers" in kafka.run("kafka-share-groups --list")
    assert "1" in kafka.run(f"{share} --describe --members --verbose")
    with pytest.raises(ToolFailed):
        kafka.run(f"{share} --topic shared --reset-offsets --to-earliest --execute")
    leaving = SHARE_GROUP_HEARTBEAT.request(group_id="sharers", member_id="m" * 22, member_epoch=-1)
    assert client.ask_coordinator("sharers", SHARE_GROUP_HEARTBEAT, leaving).error_code == 0

    kafka.run(f"{share} --topic shared --reset-offsets --to-earliest --execute")
    described = kafka.run(f"{share} --describe --offsets")
    rows = re.findall(r"sharers +shared +(\d) +(\d+) +(\d+)", described)
    assert sorted(index for index, _, _ in rows) == ["0", "1"]
    assert {start for _, start, _ in rows} == {"0"}
    assert sum(int(lag) for *_, lag in rows) == 9
    assert re.search(r"Empty +0\s*$", kafka.run(f"{share} --describe --state"))
    kafka.run(f"{share} --topic shared --delete-offsets")
    kafka.run(f"{share} --delete")
    assert "sharers" not in kafka.run("kafka-share-groups --list")


def group_offsets(kafka: JavaTools) -> list[tuple[int, int, int, int]]:
    """Partition, committed offset, end and lag."""
    printed = kafka.run("kafka-consumer-groups --describe --group readers --offsets")
    rows = re.findall(r"^readers +grouped +(\d+) +(\d+) +(\d+) +(\d+) ", printed, re.MULTILINE)
    return sorted((int(index), int(at), int(end), int(lag)) for index, at, end, lag in rows)


def own_configs(kafka: JavaTools, entity: str) -> dict[str, str]:
    return dict(
        re.findall(
            r"^  (\S+?)=(\S*) sensitive=false",
            kafka.run(f"kafka-configs --describe {entity}"),
            re.MULTILINE,
        )
    )


def test_configs(kafka: JavaTools) -> None:
    kafka.run("kafka-topics --create --topic set")

    for entity, changes, seen in (
        (
            "--entity-type topics --entity-name set",
            "retention.ms=7777,cleanup.policy=[compact,delete]",
            {"retention.ms": "7777", "cleanup.policy": "compact,delete"},
        ),
        (
            "--entity-type brokers --entity-name 2",
            "log.cleaner.threads=2",
            {"log.cleaner.threads": "2"},
        ),
        (
            "--entity-type brokers --entity-default",
            "log.segment.delete.delay.ms=59999",
            {"log.segment.delete.delay.ms": "59999"},
        ),
    ):
        kafka.run(f"kafka-configs --alter {entity} --add-config {changes}")
        wait(lambda entity=entity, seen=seen: seen.items() <= own_configs(kafka, entity).items())  # type: ignore[misc]
        kafka.run(f"kafka-configs --alter {entity} --delete-config {','.join(seen)}")
        wait(lambda entity=entity, seen=seen: not seen.keys() & own_configs(kafka, entity).keys())  # type: ignore[misc]
    with pytest.raises(ToolFailed, match=r"Unknown topic config name: no\.such"):
        kafka.run(
            "kafka-configs --alter --entity-type topics --entity-name set --add-config no.such=1"
        )
    with pytest.raises(ToolFailed, match=r"Cannot update these configs dynamically: \[log\.dirs\]"):
        kafka.run(
            "kafka-configs --alter --entity-type brokers --entity-name 2 --add-config log.dirs=/x"
        )


def test_client_quotas(kafka: JavaTools) -> None:
    for entity, quotas in (
        ("users", "producer_byte_rate=1000000,request_percentage=50.5"),
        ("clients", "consumer_byte_rate=2000000"),
    ):
        kafka.run(
            f"kafka-configs --alter --entity-type {entity} --entity-name eve --add-config {quotas}"
        )
    kafka.run(
        "kafka-configs --alter --entity-type ips --entity-default --add-config "
        "connection_creation_rate=500000"
    )
    users = kafka.run("kafka-configs --describe --entity-type users")
    assert "Quota configs for user-principal 'eve' are" in users
    assert "producer_byte_rate=1000000.0" in users
    assert "request_percentage=50.5" in users
    assert "consumer_byte_rate=2000000.0" in kafka.run(
        "kafka-configs --describe --entity-type clients --entity-name eve"
    )
    kafka.run(
        "kafka-configs --alter --entity-type users --entity-name eve --delete-config "
        "producer_byte_rate,request_percentage"
    )
    kafka.run(
        "kafka-configs --alter --entity-type clients --entity-name eve --delete-config "
        "consumer_byte_rate"
    )
    kafka.run(
        "kafka-configs --alter --entity-type ips --entity-default --delete-config "
        "connection_creation_rate"
    )
    assert "eve" not in kafka.run("kafka-configs --describe --entity-type users")


def test_leader_election(kafka: JavaTools, cluster: Processes) -> None:
    kafka.run("kafka-topics --create --topic led --replica-assignment 1:2:3,2:3:1")
    elect = "kafka-leader-election --election-type preferred --topic led --partition"
    cluster.kill(1)
    wait(lambda: partitions(kafka, "led") == [(2, "1,2,3", {"2", "3"}), (2, "2,3,1", {"2", "3"})])
    with pytest.raises(ToolFailed, match="The preferred leader was not available"):
        kafka.run(f"{elect} 0")
    cluster.start(1)
    cluster.wait_ready()
    wait(lambda: [isr for *_, isr in partitions(kafka, "led")] == [{"1", "2", "3"}] * 2)

    assert kafka.run(f"{elect} 1") == "Valid replica already elected for partitions led-1\n"
    assert (
        kafka.run(f"{elect} 0")
        == "Successfully completed leader election (PREFERRED) for partitions led-0\n"
    )
    wait(lambda: [leader for leader, *_ in partitions(kafka, "led")] == [1, 2])


def test_quorum(kafka: JavaTools) -> None:
    status = dict(
        re.findall(
            r"^(\w+): +(.*)$", kafka.run("kafka-metadata-quorum describe --status"), re.MULTILINE
        )
    )
    assert {voter["id"] for voter in json.loads(status["CurrentVoters"])} == {1, 2, 3}
    assert json.loads(status["CurrentObservers"]) == []
    rows = [
        line.split()
        for line in kafka.run("kafka-metadata-quorum describe --replication").splitlines()[1:]
    ]
    assert {row[0] for row in rows} == {"1", "2", "3"}
    assert [row[0] for row in rows if row[-1] == "Leader"] == [status["LeaderId"]]
    assert all(int(row[2]) >= int(status["HighWatermark"]) for row in rows if row[-1] == "Leader")


def test_reassignment(kafka: JavaTools, tmp_path: Path) -> None:
    kafka.run("kafka-topics --create --topic moved --replica-assignment 1:2,2:3")
    of_topic = written(tmp_path, {"topics": [{"topic": "moved"}]})
    current, proposed = re.findall(
        r"^\{.*$",
        kafka.run(
            "kafka-reassign-partitions --generate --broker-list 2,3 --topics-to-move-json-file",
            of_topic,
        ),
        re.MULTILINE,
    )
    assert [each["replicas"] for each in json.loads(current)["partitions"]] == [[1, 2], [2, 3]]
    assert [set(each["replicas"]) for each in json.loads(proposed)["partitions"]] == [
        {2, 3},
        {2, 3},
    ]

    target = {0: [3, 2], 1: [1, 2, 3]}
    plan = written(
        tmp_path,
        {
            "partitions": [
                {"topic": "moved", "partition": index, "replicas": replicas}
                for index, replicas in target.items()
            ]
        },
    )
    started = kafka.run(
        "kafka-reassign-partitions --execute --throttle 10000000 --reassignment-json-file", plan
    )
    assert "Successfully started partition reassignments for moved-0,moved-1\n" in started
    topic = "--entity-type topics --entity-name moved"
    broker = "--entity-type brokers --entity-name 1"
    throttled = {
        "follower.replication.throttled.replicas": "0:3,1:1",
        "leader.replication.throttled.replicas": "0:1,0:2,1:2,1:3",
    }
    wait(lambda: throttled.items() <= own_configs(kafka, topic).items())
    wait(lambda: own_configs(kafka, broker).get("leader.replication.throttled.rate") == "10000000")
    completed = "".join(
        f"Reassignment of partition moved-{index} is completed.\n" for index in target
    )
    wait(
        lambda: (
            completed
            in kafka.run("kafka-reassign-partitions --verify --reassignment-json-file", plan)
        )
    )
    assert [(replicas, isr) for _, replicas, isr in partitions(kafka, "moved")] == [
        ("3,2", {"2", "3"}),
        ("1,2,3", {"1", "2", "3"}),
    ]
    wait(
        lambda: (
            not any(
                "throttled" in name
                for entity in (topic, broker)
                for name in own_configs(kafka, entity)
            )
        )
    )

    assert kafka.run("kafka-reassign-partitions --list") == "No partition reassignments found.\n"
    nowhere = written(
        tmp_path, {"partitions": [{"topic": "moved", "partition": 0, "replicas": [3, 9]}]}
    )
    with pytest.raises(ToolFailed, match="9"):
        kafka.run("kafka-reassign-partitions --execute --reassignment-json-file", nowhere)


def test_log_dirs(kafka: JavaTools, cluster: Processes) -> None:
    kafka.run("kafka-topics --create --topic stored --replica-assignment 1:2,2:3")
    kafka.run(
        "kafka-console-producer --topic stored --producer-property acks=all", given="x\n" * 1000
    )

    found = json.loads(kafka.run("kafka-log-dirs --describe --topic-list stored").splitlines()[-1])
    for broker in found["brokers"]:
        (directory,) = broker["logDirs"]
        assert directory["error"] is None
        assert Path(directory["logDir"]).is_relative_to(
            cluster.nodes[broker["broker"]].plan.directory
        )
        for each in directory["partitions"]:
            segments = (Path(directory["logDir"]) / each["partition"]).glob("*.log")
            assert each["size"] == sum(segment.stat().st_size for segment in segments)
    stored = {
        broker["broker"]: {each["partition"] for each in broker["logDirs"][0]["partitions"]}
        for broker in found["brokers"]
    }
    assert stored == {1: {"stored-0"}, 2: {"stored-0", "stored-1"}, 3: {"stored-1"}}


def test_cordoned_log_dirs(kafka: JavaTools) -> None:
    entity = "--entity-type brokers --entity-name 1"
    create = "kafka-topics --create --partitions 1 --replication-factor"
    with pytest.raises(ToolFailed, match=r"Missing entries : /nowhere"):
        kafka.run(f"kafka-configs --alter {entity} --add-config cordoned.log.dirs=/nowhere")
    kafka.run(f"kafka-configs --alter {entity} --add-config cordoned.log.dirs=*")
    with pytest.raises(ToolFailed, match="or some brokers have all their log directories cordoned"):
        kafka.run(f"{create} 3 --topic three")
    kafka.run(f"{create} 2 --topic two")
    assert sorted(partitions(kafka, "two")[0][1].split(",")) == ["2", "3"]
    with pytest.raises(ToolFailed, match="includes broker 1, but all its log directories are"):
        kafka.run("kafka-topics --create --topic given --replica-assignment 1:2")

    kafka.run(f"kafka-configs --alter {entity} --delete-config cordoned.log.dirs")

    def is_created() -> bool:
        try:
            kafka.run(f"{create} 3 --topic three")
        except ToolFailed:  # the controller hears of it with a heartbeat
            return False
        return True

    wait(is_created)


def table(printed: str) -> list[dict[str, str]]:
    """As kafka-transactions prints them."""
    lines = [line.split() for line in printed.splitlines()]
    return [dict(zip(lines[0], line, strict=False)) for line in lines[1:]]


def test_transactions(kafka: JavaTools, client: Client) -> None:
    kafka.run("kafka-topics --create --topic written --partitions 2 --replication-factor 3")
    producer = begin(client, "known")
    producer.add("written", 0)
    start = producer.send("written", 0)
    hanging: list[tuple[Producer, int]] = []

    def hangs() -> bool:
        try:
            hanging.append(hang(client, "written", 1))
        except AssertionError:  # the partition's leader has asked the coordinator
            return False
        return True

    assert not hangs()
    (setting,) = (f"{name}={value}" for name, value in UNVERIFIED.items())
    kafka.run(
        f"kafka-configs --alter --entity-type brokers --entity-default --add-config {setting}"
    )
    wait(hangs)
    kafka.run(
        "kafka-configs --alter --entity-type brokers --entity-default --delete-config "
        f"{setting.partition('=')[0]}"
    )
    ((lost, at),) = hanging

    (listed,) = table(kafka.run("kafka-transactions list"))
    assert (listed["TransactionalId"], listed["ProducerId"], listed["TransactionState"]) == (
        "known",
        str(producer.producer_id),
        "Ongoing",
    )
    assert table(kafka.run("kafka-transactions list --duration-filter 3600000")) == []
    (described,) = table(kafka.run("kafka-transactions describe --transactional-id known"))
    assert (
        described["ProducerEpoch"],
        described["TopicPartitions"],
        described["TransactionTimeoutMs"],
    ) == ("0", "written-0", "60000")
    writes = "kafka-transactions describe-producers --topic written --partition 0"
    (writing,) = table(kafka.run(writes))
    assert (writing["ProducerId"], writing["CurrentTransactionStartOffset"]) == (
        str(producer.producer_id),
        str(start),
    )

    find = "kafka-transactions find-hanging --topic written --max-transaction-timeout 0"
    (found,) = table(kafka.run(find))
    assert (found["Partition"], found["ProducerId"], found["StartOffset"]) == (
        "1",
        str(lost.producer_id),
        str(at),
    )
    assert table(
        kafka.run("kafka-transactions find-hanging --broker-id 1 --max-transaction-timeout 0")
    ) == [found]
    kafka.run(f"kafka-transactions abort --topic written --partition 1 --start-offset {at}")
    assert table(kafka.run(find)) == []

    kafka.run("kafka-transactions forceTerminateTransaction --transactionalId known")
    wait(lambda: table(kafka.run(writes))[0]["CurrentTransactionStartOffset"] == "None")
    assert producer.end(commit=True) == Code.PRODUCER_FENCED
