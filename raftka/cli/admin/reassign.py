"""`raftka reassign ...`: which brokers partitions should live on, and moving them there. Plans are
JSON, as Kafka's own tool has them.

A plan spreads leaders and replicas evenly over the brokers, keeps the replicas of a partition on
different racks, and moves as little as that allows. Knows no raftka.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from raftka.cli.admin.client import connect, finish, partitions_of, sentence
from raftka.cli.output import CommandFailed, check_fields, command, show
from raftka.cli.progress import progress
from raftka.client.blocking.client import Client, Where
from raftka.client.blocking.reassignments import alter_reassignments, list_reassignments

Plan = dict[Where, list[int]]
LOOK_SECONDS = 0.5


def spread(
    now: Mapping[Where, Sequence[int]],
    brokers: Sequence[int],
    factor: int | None = None,
    racks: Mapping[int, str | None] | None = None,
) -> Plan:
    """Return replicas for each partition, the leader first. A broker keeps those it has up to an
    even share; the others go where there are fewest.

    `racks` of the brokers: a partition has two replicas on one only when there are more replicas
    than racks. A broker without one is a rack.
    """
    replicas: Counter[int] = Counter(dict.fromkeys(brokers, 0))
    leaders: Counter[int] = Counter(dict.fromkeys(brokers, 0))
    rack_of = {each: (racks or {}).get(each) or each for each in brokers}
    total = sum(min(len(brokers), factor or len(each)) for each in now.values())
    share, leader_share = -(-total // len(brokers)), -(-len(now) // len(brokers))
    plan: Plan = {}
    for where, before in sorted(now.items()):
        wanted = min(len(brokers), factor or len(before))
        chosen = _chosen(
            [each for each in before if each in replicas and replicas[each] < share],
            wanted,
            rack_of,
            replicas,
            leaders,
        )
        stays = chosen[0] == before[0] and leaders[chosen[0]] < leader_share
        leader = chosen[0] if stays else min(chosen, key=lambda each: leaders[each])
        replicas.update(chosen)
        leaders[leader] += 1
        plan[where] = [leader, *(each for each in chosen if each != leader)]
    return plan


def _chosen(
    may_stay: Sequence[int],
    wanted: int,
    rack_of: Mapping[int, int | str],
    replicas: Mapping[int, int],
    leaders: Mapping[int, int],
) -> list[int]:
    """The replicas of one partition: those that may stay where their rack has room, then brokers of
    the racks with fewest.
    """
    of_rack: Counter[int | str] = Counter()
    chosen: list[int] = []
    room = -(-wanted // len(set(rack_of.values())))
    for each in may_stay:
        if len(chosen) < wanted and of_rack[rack_of[each]] < room:
            chosen.append(each)
            of_rack[rack_of[each]] += 1
    free = sorted(
        (each for each in rack_of if each not in chosen),
        key=lambda each: (replicas[each], leaders[each]),
    )
    while len(chosen) < wanted:
        best = min(free, key=lambda each: of_rack[rack_of[each]])  # the first of them
        free.remove(best)
        chosen.append(best)
        of_rack[rack_of[best]] += 1
    return chosen


def to_json(plan: Mapping[Where, Sequence[int]]) -> str:
    partitions = [
        {"topic": topic, "partition": partition, "replicas": list(replicas)}
        for (topic, partition), replicas in sorted(plan.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions})


def from_json(text: str) -> Plan:
    """Raises CommandFailed with what is wrong."""
    try:
        found = json.loads(text)
        check_fields(found, ("version", "partitions"), "the plan")
        for each in found["partitions"]:
            check_fields(
                each, ("topic", "partition", "replicas", "log_dirs"), "a partition of the plan"
            )
            if any(directory != "any" for directory in each.get("log_dirs", ())):
                raise CommandFailed("log_dirs: no log directory can be chosen here, only any")
        plan = {
            (str(each["topic"]), int(each["partition"])): [
                int(replica) for replica in each["replicas"]
            ]
            for each in found["partitions"]
        }
    except (ValueError, TypeError, KeyError) as error:
        raise CommandFailed(
            f"that is no plan ({type(error).__name__}: {error}); `raftka reassign plan -o json` "
            "writes one"
        ) from None
    if len(plan) < len(found["partitions"]):
        raise CommandFailed("the plan has a partition twice")
    return plan


@command
def plan(
    topics: Sequence[str],
    brokers: Sequence[int],
    replication_factor: int | None,
    file: Path | None,
    bootstrap_server: str,
    output: str,
) -> None:
    with connect(bootstrap_server) as client:
        living = sorted(client.brokers)
        wanted = list(dict.fromkeys(brokers)) or living
        if missing := sorted(set(wanted) - set(living)):
            raise CommandFailed(
                f"broker {missing[0]} is not alive; these are: {', '.join(map(str, living))}"
            )
        if replication_factor is not None and replication_factor > len(wanted):
            raise CommandFailed(
                f"{replication_factor} replicas need as many brokers, {len(wanted)} are given"
            )
        racks = {each.node_id: each.rack for each in client.metadata(()).brokers}
        now = {
            where: list(each.replica_nodes) for where, each in partitions_of(client, topics).items()
        }
    found = {
        where: replicas
        for where, replicas in spread(now, wanted, replication_factor, racks).items()
        if replicas != now[where]
    }
    if file is not None:
        file.write_text(to_json(found) + "\n", encoding="utf-8")
    if output == "json":
        print(to_json(found))
        return
    rows = [
        {"topic": where[0], "partition": where[1], "replicas": now[where], "wanted": found[where]}
        for where in sorted(found)
    ]
    show(rows, ["topic", "partition", "replicas", "wanted"], output)
    if not rows:
        print("nothing to move", file=sys.stderr)


@command
def execute(file: IO[str], wait: bool, quiet: bool, bootstrap_server: str, output: str) -> None:
    wanted = from_json(file.read())
    with connect(bootstrap_server) as client:
        _ask(client, dict(wanted), output)
        if wait:
            _watch(client, list(wanted), quiet=quiet)


def _ask(client: Client, wanted: Mapping[Where, list[int] | None], output: str) -> None:
    answers = alter_reassignments(client, wanted)
    refused = [sentence(f"{topic}-{index}", code) for (topic, index), code in answers if code]
    done = [
        {"topic": where[0], "partition": where[1], "wanted": wanted[where]}
        for where, code in answers
        if not code
    ]
    finish(done, ["topic", "partition", "wanted"], output, refused)


def _watch(client: Client, wanted: Sequence[Where], *, quiet: bool) -> None:
    """Until none of them is under way."""
    with progress("moving", len(wanted), "partitions", quiet=quiet) as shown:
        while True:
            under_way = {(each["topic"], each["partition"]) for each in _ongoing(client)}
            left = sum(where in under_way for where in wanted)
            shown.update(len(wanted) - left)
            if not left:
                return
            time.sleep(LOOK_SECONDS)


@command
def status(bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        show(_ongoing(client), ["topic", "partition", "replicas", "adding", "removing"], output)


def _ongoing(client: Client) -> list[dict[str, Any]]:
    return [
        {
            "topic": each.where[0],
            "partition": each.where[1],
            "replicas": each.replicas,
            "adding": each.adding,
            "removing": each.removing,
        }
        for each in list_reassignments(client)
    ]


@command
def cancel(topics: Sequence[str], bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        doomed = [
            (each["topic"], each["partition"])
            for each in _ongoing(client)
            if not topics or each["topic"] in topics
        ]
        if missing := set(topics) - {topic for topic, _ in doomed}:
            raise CommandFailed(
                f"nothing of {min(missing)} is being moved (`raftka reassign status` shows what is)"
            )
        if doomed:
            _ask(client, dict.fromkeys(doomed), output)
