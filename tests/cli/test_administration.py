"""The commands that administer, against three live nodes: what they change, what they print, and
what they say when it will not do.
"""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from raftka.cli.admin.client import connect
from raftka.cli.admin.configs import changed, described
from raftka.client.blocking.connection import Unsupported
from raftka.client.blocking.settings import Changes
from raftka.cluster.ask import ask
from raftka.cluster.processes import Processes
from raftka.wire.messages.configs import INCREMENTAL_ALTER_CONFIGS
from raftka.wire.schema import Api, Req, Resp


def test_a_topic_gets_partitions_and_settings(raftka: Any, topic: str) -> None:
    assert (
        raftka(f"topics alter {topic} -p 5 -c retention.ms=5000 -c segment.bytes=2000000").code == 0
    )
    assert len(raftka(f"topics describe {topic} -o json").rows) == 5
    found = {
        row["setting"]: (row["value"], row["source"])
        for row in raftka(f"configs describe topic {topic} -o json").rows
    }
    assert found == {
        "min.insync.replicas": ("2", "all brokers"),
        "retention.ms": ("5000", "topic"),
        "segment.bytes": ("2000000", "topic"),
    }

    assert raftka(f"topics alter {topic} -d retention.ms").code == 0
    assert "retention.ms" not in raftka(f"configs describe topic {topic}").out


def test_settings_of_topics_brokers_and_all_brokers(raftka: Any, topic: str) -> None:
    assert (
        raftka(
            f"configs alter topic {topic} --append cleanup.policy=compact -c retention.ms=77"
        ).code
        == 0
    )
    assert raftka("configs alter broker -c log.retention.ms=88").code == 0
    assert raftka("configs alter broker 1 -c log.retention.ms=99").code == 0
    rows = {
        row["setting"]: row for row in raftka(f"configs describe topic {topic} --all -o json").rows
    }
    assert rows["cleanup.policy"]["value"] == "delete,compact"
    assert rows["retention.ms"]["synonyms"][0] == {
        "name": "retention.ms",
        "value": "77",
        "source": "topic",
    }
    assert rows["flush.ms"]["source"] == "default"
    assert raftka("configs describe broker").table[1:] == [
        ["all", "brokers", "log.retention.ms", "88", "all", "brokers"],
        ["all", "brokers", "min.insync.replicas", "2", "all", "brokers"],
    ]
    assert ["1", "log.retention.ms", "99", "broker"] in raftka("configs describe broker 1").table
    assert ["2", "log.retention.ms", "88", "all", "brokers"] in raftka(
        "configs describe broker 2"
    ).table
    assert {"kind": "topic", "name": topic} in raftka("configs list topic -o json").rows

    assert raftka(f"configs alter topic {topic} --subtract cleanup.policy=compact").code == 0
    assert raftka("configs alter broker -d log.retention.ms").code == 0
    assert raftka("configs alter broker 1 -d log.retention.ms").code == 0
    assert "log.retention.ms" not in raftka("configs describe broker").out


def test_a_dry_run_changes_nothing(raftka: Any, topic: str) -> None:
    assert raftka(f"configs alter topic {topic} -c retention.ms=5 --dry-run").code == 0
    assert "retention.ms" not in raftka(f"configs describe topic {topic}").out
    assert raftka(f"configs alter topic {topic} -c retention.ms=x --dry-run").code == 1


def test_a_kafka_without_incremental_changes_gets_all_settings(
    cluster: Processes, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Kafka 2.3 what is not named goes back to its default."""
    with connect(cluster.bootstrap_servers) as client:
        ask = client.ask

        def old(api: Api[Req, Resp], row: Req, version: int | None = None) -> Resp:
            if api is INCREMENTAL_ALTER_CONFIGS:
                raise Unsupported("an old broker")
            return ask(api, row, version)

        monkeypatch.setattr(client, "ask", old)
        set_both: Changes = {
            "retention.ms": ("SET", "7"),
            "flush.ms": ("SET", "8"),
            "cleanup.policy": ("APPEND", "compact"),
        }
        take_two: Changes = {"flush.ms": ("DELETE", None), "cleanup.policy": ("SUBTRACT", "delete")}
        expected = {"retention.ms": "7", "flush.ms": "8", "cleanup.policy": "delete,compact"}
        for changes, after in (
            (set_both, expected),
            (take_two, {"retention.ms": "7", "cleanup.policy": "compact"}),
        ):
            assert changed(client, "topic", [topic], changes) == []
            deadline = time.monotonic() + 20.0  # for the broker that is asked to hear of it
            while {
                row["setting"]: row["value"]
                for row in described(client, "topic", [topic], False)[0]
                if row["source"] == "topic"
            } != after:
                assert time.monotonic() < deadline


def test_partitions_move_where_a_plan_says(raftka: Any, topic: str, tmp_path: Path) -> None:
    planned = raftka(f"reassign plan {topic} --broker 1 --broker 2 -r 2 -f plan.json")
    assert planned.table[0] == ["topic", "partition", "replicas", "wanted"]
    assert json.loads((tmp_path / "plan.json").read_text())["version"] == 1
    assert (
        raftka(f"reassign plan {topic} --broker 1 --broker 2 -r 2 -o json").out
        == (tmp_path / "plan.json").read_text()
    )

    assert raftka("reassign execute plan.json --wait").code == 0
    assert raftka("reassign status").out == ""
    assert {
        tuple(sorted(row["replicas"])) for row in raftka(f"topics describe {topic} -o json").rows
    } == {(1, 2)}
    again = raftka(f"reassign plan {topic} --broker 1 --broker 2")
    assert (again.out, again.err) == ("", "nothing to move\n")


def test_what_can_not_be_moved_yet_is_shown_and_called_off(raftka: Any, cluster: Processes) -> None:
    assert raftka("topics create stuck -p 1 -r 1").code == 0
    (row,) = raftka("topics describe stuck -o json").rows
    target = next(each for each in (1, 2, 3) if each != row["leader"])
    cluster.kill(target)
    while target in ask(cluster.addresses[row["leader"] - 1]).brokers:
        pass
    plan = json.dumps({"partitions": [{"topic": "stuck", "partition": 0, "replicas": [target]}]})

    # a broker that is registered may get replicas also while it is away
    assert raftka("reassign execute -", plan).code == 0
    assert raftka("reassign status -o json").rows[0]["adding"] == [target]
    assert raftka("reassign cancel stuck").code == 0
    assert raftka("reassign status").out == ""
    assert raftka("topics describe stuck -o json").rows[0]["replicas"] == row["replicas"]
    cluster.start(target)
    cluster.wait_ready()
    assert raftka("topics delete stuck").code == 0


def test_eligible_leader_replicas_are_shown(raftka: Any, topic: str, cluster: Processes) -> None:
    plain = raftka(f"topics describe {topic}").table
    assert plain[0][-1] == "offline"
    assert raftka(f"topics alter {topic} -c min.insync.replicas=3").code == 0
    cluster.kill(3)
    try:
        live = cluster.addresses[0]
        while any(3 in each.isr for each in ask(live).of(topic)):
            pass
        rows = raftka(f"topics describe {topic} -o json").rows
        assert [(row["elr"], row["last_known_elr"]) for row in rows] == [([3], [])] * 3
        header, *table = raftka(f"topics describe {topic}").table
        assert header[-2:] == ["elr", "last_known_elr"]
        assert [row[-2:] for row in table] == [["3", "-"]] * 3
    finally:
        cluster.start(3)
        cluster.wait_ready()


def test_leadership_goes_back_to_the_first_replica(raftka: Any, topic: str) -> None:
    rows = raftka(f"topics describe {topic} -o json").rows
    turned = [
        {"topic": topic, "partition": row["partition"], "replicas": row["replicas"][::-1]}
        for row in rows
    ]
    assert raftka("reassign execute - --wait", json.dumps({"partitions": turned})).code == 0

    assert raftka(f"partitions elect {topic} -p 0").table == [
        ["topic", "partition", "leader"],
        [topic, "0", str(turned[0]["replicas"][0])],
    ]
    elected = raftka(f"partitions elect {topic} -o json").rows
    assert {row["partition"] for row in elected} <= {1, 2}
    assert [row["leader"] for row in raftka(f"topics describe {topic} -o json").rows] == [
        each["replicas"][0] for each in turned
    ]


def test_a_cluster_on_one_page(raftka: Any, topic: str, cluster: Processes) -> None:
    found = json.loads(raftka("cluster describe -o json").out)
    assert [broker["broker"] for broker in found["brokers"]] == [1, 2, 3]
    assert sum(broker["leads"] for broker in found["brokers"]) == found["partitions"]["all"]
    assert sorted(each["role"] for each in found["quorum"]) == ["leader", "voter", "voter"]
    assert found["features"]["metadata.version"]["level"] > 0
    assert found["partitions"]["under_replicated"] == found["partitions"]["offline"] == []

    text = raftka("cluster describe").out
    assert found["cluster_id"] in text
    assert "0 under-replicated" in text
    assert cluster.nodes[1].plan.address in text


def test_the_settings_of_a_node_before_it_starts_and_while_it_runs(
    raftka: Any, cluster: Processes
) -> None:
    file = cluster.nodes[2].plan.properties_file
    of_file = {
        row["setting"]: (row["value"], row["source"])
        for row in raftka(f"config show {file} -o json").rows
    }
    running = {
        row["setting"]: (row["value"], row["source"])
        for row in raftka("config show --broker 2 -o json").rows
    }

    assert of_file["node.id"] == running["node.id"] == ("2", "file")
    assert of_file["broker.session.timeout.ms"] == ("2000", "default")
    # the cluster's, since it was formed with eligible leader replicas
    assert of_file.pop("min.insync.replicas") == ("2", "file")
    assert running.pop("min.insync.replicas") == ("2", "all brokers")
    assert of_file == running
    given = raftka("config show --given --broker 2 -o json").rows
    assert given
    assert all(row["source"] != "default" for row in given)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("topics alter nope -p 3", "`raftka topics list`"),
        ("topics alter nope", "nothing to alter"),
        ("configs describe topic nope", "there is no topic nope"),
        ("configs describe broker 77", "`raftka cluster describe`"),
        ("configs describe broker x", "there is no broker x"),
        ("configs alter broker 77 -c log.retention.ms=1", "there is no broker 77"),
        ("groups list --state Nonsense", "groups are PreparingRebalance"),
        ("produce filled -p 99", "filled has no partition 99"),
        ("consume nobody -e", "nobody: UNKNOWN_TOPIC_OR_PARTITION (`raftka topics list`"),
        ("topics list --bootstrap-server bad", "'bad' is not host:port"),
        ("configs describe topic", "which topic?"),
        ("configs alter topic nope -c retention.ms=1", "The topic 'nope' does not exist."),
        ("configs alter broker 1 -c node.id=9", "node.id"),
        ("reassign plan nope", "`raftka topics list`"),
        ("reassign plan --broker 77", "broker 77 is not alive"),
        ("reassign execute -", "that is no plan"),
        ("reassign cancel nope", "nothing of nope is being moved"),
        ("partitions elect nope", "`raftka topics list`"),
        ("partitions elect --unclean", "name the topics"),
        ("partitions elect -p 1", "exactly one topic"),
        ("topics list --bootstrap-server 127.0.0.1:1", "is it running?"),
    ],
)
def test_what_goes_wrong_is_one_line_that_says_what_to_do(
    raftka: Any, command: str, said: str
) -> None:
    done = raftka(command, "a line")

    assert (done.code, done.out) == (1, "")
    assert said in done.err
    assert len(done.err.splitlines()) == 1


def test_lines_before_a_wrong_one_are_written(raftka: Any, topic: str) -> None:
    done = raftka(f"produce {topic} -K : -p 0", "a:1\nb:2\nnone\n")
    assert (done.code, "line 3 has no ':'" in done.err) == (1, True)
    assert raftka(f"consume {topic} --from start -e --keys").table == [["a", "1"], ["b", "2"]]


def test_a_file_goes_in_and_comes_out(raftka: Any, topic: str, tmp_path: Path) -> None:
    lines = "".join(f"line {i}\n" for i in range(12_000))
    assert raftka(f"produce {topic} -p 1", lines).code == 0
    assert raftka(f"consume {topic} --from start -e").out == lines
