"""`raftka reassign ...`: which brokers partitions should live on, and moving them there. Plans are JSON, as Kafka's own tool has them.

A plan spreads leaders and replicas evenly over the brokers, and moves as little as that allows. Knows no raftka.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raftka.cli.admin.client import admin, finish, partitions_of, sentence
from raftka.cli.output import CommandFailed, command, progress, show
from raftka.json_values import JsonObject

Where = tuple[str, int]  # topic, partition
Plan = dict[Where, list[int]]
LOOK_SECONDS = 0.5


def spread(now: Mapping[Where, Sequence[int]], brokers: Sequence[int], factor: int | None = None) -> Plan:
    """Replicas for each partition, the leader first: who has one keeps it up to an even share, the others go where there are fewest."""
    replicas: Counter[int] = Counter(dict.fromkeys(brokers, 0))
    leaders: Counter[int] = Counter(dict.fromkeys(brokers, 0))
    total = sum(min(len(brokers), factor or len(each)) for each in now.values())
    share, leader_share = -(-total // len(brokers)), -(-len(now) // len(brokers))
    plan: Plan = {}
    for where, before in sorted(now.items()):
        wanted = min(len(brokers), factor or len(before))
        staying = [each for each in before if each in replicas and replicas[each] < share][:wanted]
        free = sorted((each for each in brokers if each not in staying), key=lambda each: (replicas[each], leaders[each], brokers.index(each)))
        chosen = [*staying, *free[: wanted - len(staying)]]
        stays = chosen[0] == before[0] and leaders[chosen[0]] < leader_share
        leader = chosen[0] if stays else min(chosen, key=lambda each: leaders[each])
        replicas.update(chosen)
        leaders[leader] += 1
        plan[where] = [leader, *(each for each in chosen if each != leader)]
    return plan


def to_json(plan: Mapping[Where, Sequence[int]]) -> str:
    partitions = [{"topic": topic, "partition": partition, "replicas": list(replicas)} for (topic, partition), replicas in sorted(plan.items())]
    return json.dumps({"version": 1, "partitions": partitions})


def from_json(text: str) -> Plan:
    """Raises CommandFailed with what is wrong."""
    try:
        found = json.loads(text)
        plan = {(str(each["topic"]), int(each["partition"])): [int(replica) for replica in each["replicas"]] for each in found["partitions"]}
    except (ValueError, TypeError, KeyError) as error:
        raise CommandFailed(f"that is no plan ({type(error).__name__}: {error}); `raftka reassign plan -o json` writes one") from None
    if len(plan) < len(found["partitions"]):
        raise CommandFailed("the plan has a partition twice")
    return plan


@command
def plan(
    topics: Sequence[str], brokers: Sequence[int], replication_factor: int | None, file: Path | None, bootstrap_server: str, output: str
) -> None:
    with admin(bootstrap_server) as connected:
        living = sorted(int(each["broker_id"]) for each in connected.describe_cluster()["brokers"])
        wanted = list(dict.fromkeys(brokers)) or living
        if missing := sorted(set(wanted) - set(living)):
            raise CommandFailed(f"broker {missing[0]} is not alive; these are: {', '.join(map(str, living))}")
        if replication_factor is not None and replication_factor > len(wanted):
            raise CommandFailed(f"{replication_factor} replicas need as many brokers, {len(wanted)} are given")
        now = {where: list(each["replica_nodes"]) for where, each in partitions_of(connected, topics).items()}
    found = {where: replicas for where, replicas in spread(now, wanted, replication_factor).items() if replicas != now[where]}
    if file is not None:
        file.write_text(to_json(found) + "\n", encoding="utf-8")
    if output == "json":
        print(to_json(found))
        return
    rows = [{"topic": where[0], "partition": where[1], "replicas": now[where], "wanted": found[where]} for where in sorted(found)]
    show(rows, ["topic", "partition", "replicas", "wanted"], output)
    if not rows:
        print("nothing to move", file=sys.stderr)


@command
def execute(file: Any, wait: bool, bootstrap_server: str, output: str) -> None:
    wanted = from_json(file.read())
    with admin(bootstrap_server) as connected:
        _ask(connected, dict(wanted), output)
        if wait:
            _watch(connected, list(wanted))


def _ask(connected: Any, wanted: Mapping[Where, list[int] | None], output: str) -> None:
    from kafka import TopicPartition

    answers = connected.alter_partition_reassignments({TopicPartition(*where): replicas for where, replicas in wanted.items()})
    refused = [sentence(f"{each.topic}-{each.partition}", error.errno) for each, error in sorted(answers.items()) if error is not None]
    rows = [
        {"topic": each.topic, "partition": each.partition, "wanted": wanted[tuple(each)]} for each, error in sorted(answers.items()) if error is None
    ]
    finish(rows, ["topic", "partition", "wanted"], output, refused)


def _watch(connected: Any, wanted: Sequence[Where]) -> None:
    """Until none of them is under way."""
    with progress("moving partitions", len(wanted)) as moved:
        while True:
            under_way = {tuple(each) for each in connected.list_partition_reassignments()}
            left = sum(where in under_way for where in wanted)
            moved(len(wanted) - left)
            if not left:
                return
            time.sleep(LOOK_SECONDS)


@command
def status(bootstrap_server: str, output: str) -> None:
    with admin(bootstrap_server) as connected:
        show(_ongoing(connected), ["topic", "partition", "replicas", "adding", "removing"], output)


def _ongoing(connected: Any) -> list[JsonObject]:
    return [
        {
            "topic": where.topic,
            "partition": where.partition,
            "replicas": each["replicas"],
            "adding": each["adding_replicas"],
            "removing": each["removing_replicas"],
        }
        for where, each in sorted(connected.list_partition_reassignments().items())
    ]


@command
def cancel(topics: Sequence[str], bootstrap_server: str, output: str) -> None:
    with admin(bootstrap_server) as connected:
        doomed = [(each["topic"], each["partition"]) for each in _ongoing(connected) if not topics or each["topic"] in topics]
        if missing := set(topics) - {topic for topic, _ in doomed}:
            raise CommandFailed(f"nothing of {min(missing)} is being moved (`raftka reassign status` shows what is)")
        if doomed:
            _ask(connected, dict.fromkeys(doomed), output)
