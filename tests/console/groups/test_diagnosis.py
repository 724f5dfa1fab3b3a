"""Reasons why a group does not move: each made in a real cluster and found, with a next step that
`raftka` takes as a command.
"""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import click
import pytest

from raftka.cli.commands import root
from raftka.client.blocking.client import Client
from raftka.client.blocking.member import Member
from raftka.console.groups.diagnosis import FINE, STUCK, Finding, Thresholds, diagnose
from raftka.console.groups.facts import Facts, read_facts
from raftka.console.groups.memory import Memory
from raftka.console.view.view import View
from raftka.testing import Cluster
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.delete_records import DELETE_RECORDS
from raftka.wire.messages.list_offsets import LATEST
from tests.clients.hanging import begin, hang
from tests.kit.groups import AWAY, ConsumerMember, commit, produce

LATER = Thresholds(still=1e9, trend=1e9)  # nothing counts as standing still


class Looks:
    """Looks at a group with a clock that the test moves."""

    def __init__(self, view: View, client: Client, memory: Memory, group_id: str) -> None:
        self._view, self._client, self._memory = view, client, memory
        self._group_id = group_id
        self.now_s = time.time()

    def facts(self, after_s: float = 0.0) -> Facts:
        self.now_s += after_s
        self._view.forget()
        return read_facts(
            self._view,
            self._client,
            self._group_id,
            self._memory.histories,
            self._memory.times,
            lambda: self.now_s,
        )

    def find(self, cause: str, thresholds: Thresholds = LATER, after_s: float = 0.0) -> Finding:
        found = diagnose(self.facts(after_s), thresholds)
        matching = [each for each in found if each.cause == cause]
        assert len(matching) == 1, found
        for each in found:
            check_command(each.command)
        return matching[0]


Look = Callable[[str], Looks]


@pytest.fixture
def look(view: View, client: Client, memory: Memory) -> Look:
    return lambda group_id: Looks(view, client, memory, group_id)


def check_command(line: str | None) -> None:
    """Check that the command line takes it: names, options and arguments."""
    if line is None:
        return
    words = shlex.split(line)
    assert words.pop(0) == "raftka"
    context = click.Context(root)
    group: click.Command = root
    while isinstance(group, click.Group):
        name, group, words = group.resolve_command(context, words)  # type: ignore[assignment]
    group.make_context(name, words)


def write(client: Client, topic: str, count: int, partition: int = 0) -> None:
    produce(client, (topic, partition), [round(time.time() * 1000)] * count)


def test_no_members(cluster: Cluster, client: Client, look: Look) -> None:
    topic = cluster.create_topic(partitions=1)
    write(client, topic, 3)
    commit(client, topic, {(topic, 0): 1})
    found = look(topic).find("no_members")
    assert (found.level, list(found.partitions)) == (STUCK, [(topic, 0)])
    assert "2 records wait" in found.text


def test_a_classic_rebalance_that_waits_for_a_member(
    cluster: Cluster, client: Client, look: Look
) -> None:
    topic = cluster.create_topic(partitions=2)
    looks = look(topic)
    with Member(client, topic, topic) as first:
        first.poll()
        looks.facts()
        cluster.force_rebalance(topic)  # the member does not poll, so it does not join again
        found = looks.find("rebalancing", after_s=7.0)
        assert "PreparingRebalance" in found.text
        assert "for 65 s" in looks.find("rebalancing", after_s=65.0).text
        assert found.level == STUCK
        first.poll()
    assert next(each.text for each in looks.facts().seen.events if each.what == "state") == (
        "Stable → PreparingRebalance"
    )


def test_a_member_that_holds_a_partition(cluster: Cluster, client: Client, look: Look) -> None:
    topic = cluster.create_topic(partitions=2)
    looks = look(topic)
    holder = ConsumerMember(client, topic, [topic], name="holder").join()
    assert len(holder.owned) == 2
    looks.facts()
    waiter = ConsumerMember(client, topic, [topic], name="waiter").join()
    assert waiter.owned == []
    deadline = time.monotonic() + 30
    while not (facts := looks.facts(1.0)).seen.awaited:  # the coordinator assigns after a while
        assert time.monotonic() < deadline
        holder.beat()  # is told to give one back, and says that it has both still
        waiter.beat()
    assert facts.seen.awaited.keys() < set(holder.owned)

    found = looks.find("member_holds", after_s=90.0)
    assert (found.level, set(found.partitions)) == (STUCK, set(facts.seen.awaited))
    assert "for 90 s" in found.text

    holder.owned = [each for each in holder.owned if each not in found.partitions]
    holder.beat()
    waiter.take(waiter.beat())
    waiter.beat()
    assert waiter.owned == list(found.partitions)
    assert [each.cause for each in diagnose(looks.facts(), LATER)] == ["all_read"]


def test_a_static_member_that_is_away(cluster: Cluster, client: Client, look: Look) -> None:
    topic = cluster.create_topic(partitions=1)
    member = ConsumerMember(client, topic, [topic], instance_id="till-7").join()
    member.leave(AWAY)
    found = look(topic).find("static_member_away")
    assert "till-7" in found.text
    assert list(found.partitions) == [(topic, 0)]


def test_a_partition_without_a_leader(
    look: Look, cluster: Cluster, client: Client, view: View
) -> None:
    topic = cluster.create_topic(partitions=1, replication_factor=1)
    write(client, topic, 3)
    commit(client, topic, {(topic, 0): 1})
    leader = cluster.leader(topic)
    other = next(each for each in cluster.nodes if each != leader)
    cluster.move_coordinator(topic, to=other)
    with cluster.killed(leader):
        deadline = time.monotonic() + 30
        while view.metadata(0.0).topics[topic].partitions[0].leader >= 0:
            assert time.monotonic() < deadline
            view.forget()
        found = look(topic).find("no_leader")
        assert (found.level, list(found.partitions)) == (STUCK, [(topic, 0)])


def test_an_open_transaction_holds_back(cluster: Cluster, client: Client, look: Look) -> None:
    topic = cluster.create_topic(partitions=1)
    write(client, topic, 2)
    producer = begin(client, f"id-{topic}")
    producer.add(topic, 0)
    producer.send(topic, 0)
    commit(client, topic, {(topic, 0): 2})
    found = look(topic).find("open_transaction")
    assert f"id-{topic}" in found.text
    assert found.command == f"raftka transactions fence id-{topic}"
    assert producer.end(commit=True) == 0


def test_only_markers_before_an_open_transaction(
    cluster: Cluster, client: Client, look: Look
) -> None:
    """A client commits behind its last record: a marker stands between it and the transaction."""
    topic = cluster.create_topic(partitions=1)
    done = begin(client, f"a-{topic}")
    done.add(topic, 0)
    done.send(topic, 0)
    assert done.end(commit=True) == 0
    producer = begin(client, f"b-{topic}")
    producer.add(topic, 0)
    deadline = time.monotonic() + 30
    while client.offsets({(topic, 0): LATEST})[topic, 0] < 2:  # the marker is written later
        assert time.monotonic() < deadline
    assert producer.send(topic, 0) == 2
    commit(client, topic, {(topic, 0): 1})
    facts = look(topic).facts()
    assert facts.partitions[0].stable == 2
    assert facts.partitions[0].is_held_back
    assert look(topic).find("open_transaction")
    assert producer.end(commit=False) == 0


def test_a_hanging_transaction(cluster: Cluster, client: Client, look: Look) -> None:
    topic = cluster.create_topic(partitions=1)
    begin(client, f"id-{topic}")  # the coordinators are there
    write(client, topic, 1)
    _, start = hang(client, topic, 0)
    commit(client, topic, {(topic, 0): 1})
    found = look(topic).find("hanging_transaction")
    assert found.command is not None
    assert found.command.endswith(f"--start-offset {start}")


def test_a_committed_offset_before_the_log(cluster: Cluster, client: Client, look: Look) -> None:
    topic = cluster.create_topic(partitions=1)
    write(client, topic, 5)
    commit(client, topic, {(topic, 0): 1})
    rows = DELETE_RECORDS.request.topics
    client.ask_leader(
        (topic, 0),
        DELETE_RECORDS,
        DELETE_RECORDS.request(
            topics=[rows(name=topic, partitions=[rows.partitions(partition_index=0, offset=4)])],
            timeout_ms=10_000,
        ),
    )
    found = look(topic).find("offset_before_start")
    assert "3 offsets of it were deleted" in found.text
    assert found.command == f"raftka groups reset-offsets {topic} {topic} --partition 0 --to start"


def test_a_committed_offset_past_the_end(cluster: Cluster, client: Client, look: Look) -> None:
    topic = cluster.create_topic(partitions=1)
    write(client, topic, 1)
    commit(client, topic, {(topic, 0): 100})
    found = look(topic).find("offset_past_end")
    assert found.level == STUCK
    assert found.command is not None
    assert found.command.endswith("--to end")


def test_a_member_that_does_not_commit(cluster: Cluster, client: Client, look: Look) -> None:
    topic = cluster.create_topic(partitions=1)
    member = ConsumerMember(client, topic, [topic], instance_id="till-7").join()
    write(client, topic, 5)
    member.commit({(topic, 0): 1})
    looks = look(topic)
    thresholds = Thresholds(still=30.0, trend=1e9)
    assert [each.cause for each in diagnose(looks.facts(), thresholds)] == ["moving"]
    found = looks.find("member_does_not_commit", thresholds, after_s=31.0)
    assert "31 s or longer" in found.text
    assert "It is static" in found.text

    member.commit({(topic, 0): 2})
    assert [each.cause for each in diagnose(looks.facts(1.0), thresholds)] == ["moving"]
    assert "for 40 s for" in looks.find("member_does_not_commit", thresholds, 40.0).text


def test_a_member_that_never_commits(cluster: Cluster, client: Client, look: Look) -> None:
    topic = cluster.create_topic(partitions=1)
    ConsumerMember(client, topic, [topic]).join()
    write(client, topic, 1)
    looks = look(topic)
    looks.facts()
    assert [each.cause for each in diagnose(looks.facts(), LATER)] == ["moving"]
    found = looks.find("member_does_not_commit", Thresholds(still=30.0, trend=1e9), after_s=31.0)
    assert "has committed nothing yet" in found.text


def test_an_offset_that_nobody_reads(cluster: Cluster, client: Client, look: Look) -> None:
    old, new = cluster.create_topic(partitions=1), cluster.create_topic(partitions=1)
    write(client, old, 2)
    commit(client, new, {(old, 0): 1})
    ConsumerMember(client, new, [new]).join()
    found = look(new).find("nobody_reads")
    assert found.command == f"raftka offsets delete {new} {old}"


def moved(
    looks: Looks, member: ConsumerMember, client: Client, topic: str, come: int, to: int
) -> Sequence[Finding]:
    """Look, let records come and a commit be made within 20 s, and look again."""
    looks.facts()
    write(client, topic, come)
    member.commit({(topic, 0): to})
    return diagnose(looks.facts(20.0), Thresholds(trend=15.0))


def test_lag_that_grows_and_shrinks(cluster: Cluster, client: Client, look: Look) -> None:
    topic = cluster.create_topic(partitions=2)
    member = ConsumerMember(client, topic, [topic]).join()
    write(client, topic, 10)
    member.commit({(topic, 0): 2})
    looks = look(topic)
    (found,) = moved(looks, member, client, topic, 10, 4)  # 8 behind, then 16
    assert (found.cause, found.level) == ("falls_behind", "slow")
    assert "grown by 8" in found.text
    assert "Add consumers" in found.next_step

    looks.now_s += 1000.0
    (found,) = moved(looks, member, client, topic, 2, 14)
    assert found.cause == "catches_up"
    looks.now_s += 1000.0
    (found,) = moved(looks, member, client, topic, 1, 23)
    assert found.cause == "all_read"
    found = diagnose(looks.facts(20.0), Thresholds(trend=15.0))[0]
    assert found.cause == "nothing_is_produced"
    assert found.level == FINE


def test_members_that_come_and_go(cluster: Cluster, client: Client, look: Look) -> None:
    topic = cluster.create_topic(partitions=2)
    ConsumerMember(client, topic, [topic], name="stays").join()
    looks = look(topic)
    looks.facts()
    for number in range(2):
        guest = ConsumerMember(client, topic, [topic], name=f"guest-{number}").join()
        looks.facts(1.0)
        guest.leave()
        looks.facts(1.0)
    events = [(each.what, each.text.partition(" ")[0]) for each in looks.facts().seen.events]
    assert events.count(("member joined", "test")) == 2
    assert events.count(("member left", "test")) == 2
    assert looks.find("rebalances_again", Thresholds(still=1e9, trend=1e9, churn=1))


def test_what_brokers_do_not_know_is_not_there(client: Client, view: View, look: Look) -> None:
    with pytest.raises(KafkaError) as raised:
        look("nobody").facts()
    assert raised.value.code is Code.GROUP_ID_NOT_FOUND


def test_a_type_that_is_not_described_is_named(
    cluster: Cluster, client: Client, look: Look
) -> None:
    commit(client, "queue", {(cluster.create_topic(partitions=1), 0): 0})
    facts = replace(look("queue").facts(), type="later", described=None)
    (found,) = diagnose(facts)
    assert (found.cause, found.level) == ("not_described", "note")
    assert "type later" in found.text
