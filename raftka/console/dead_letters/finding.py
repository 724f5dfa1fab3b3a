"""Finding topics of dead letters: by their names, by settings that name them, by headers of their
last records.
"""

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from raftka.client.blocking.client import Client, Where, is_retriable, list_offsets_request
from raftka.client.blocking.connection import ClientError
from raftka.client.blocking.reader import Reader
from raftka.console.dead_letters.letters import read_letter
from raftka.wire.errors import KafkaError
from raftka.wire.messages.configs import DESCRIBE_CONFIGS
from raftka.wire.messages.fetch import READ_COMMITTED
from raftka.wire.messages.list_offsets import LATEST, LIST_OFFSETS

PATTERNS = (
    "*.dlq",
    "*-dlq",
    "*_dlq",
    "dlq.*",
    "dlq-*",
    "*.dlt",
    "*-dlt",
    "*_dlt",
    "*dead-letter*",
    "*dead_letter*",
    "*deadletter*",
    "*-refused",
    "*_refused",
)
TOPIC, GROUP = 2, 32  # types of resources
OF_VALIDATION = "raftka.schema.validation.dead.letter.topic"  # a topic's setting names another
OF_SHARE_GROUP = "errors.deadletterqueue.topic.name"  # a group's setting names a topic
FOR_SHARE_GROUPS = "errors.deadletterqueue.group.enable"  # a topic's own setting
RESOURCES_OF_REQUEST, PARTITIONS_AT_ONCE = 200, 200
POLL_S, POLLS = 0.1, 20  # for the last records of some partitions


class Found(NamedTuple):
    topic: str
    why: str


def matching(name: str, patterns: Sequence[str]) -> str | None:
    """Return the first pattern that the name of a topic matches, in any case of letters."""
    lowered = name.lower()
    return next((each for each in patterns if fnmatchcase(lowered, each.lower())), None)


def find_more(
    client: Client,
    topics: Sequence[str],
    share_groups: Sequence[str],
    is_gone: Callable[[], bool],
) -> Iterator[tuple[int, int, list[Found]]]:
    """Yield how many of the steps are done, all steps, and what the last one found. `topics`: to be
    looked into. Raises KafkaError and Unreachable.
    """
    resources = [(GROUP, each) for each in share_groups] + [(TOPIC, each) for each in topics]
    settings = _pieces(resources, RESOURCES_OF_REQUEST)
    heads = _pieces(topics, PARTITIONS_AT_ONCE)
    total, done = len(settings) + len(heads), 0
    yield done, total, []
    for piece in settings:
        if is_gone():
            return
        found = _by_settings(client, piece)
        done += 1
        yield done, total, found
    for names in heads:
        if is_gone():
            return
        found = _by_headers(client, names)
        done += 1
        yield done, total, found


def _pieces(rows: Sequence, size: int) -> list[Sequence]:  # type: ignore[type-arg]
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def _by_settings(client: Client, resources: Sequence[tuple[int, str]]) -> list[Found]:
    """A resource whose settings the user may not see, or that this Kafka has not, tells nothing."""
    row = DESCRIBE_CONFIGS.request.resources
    names = [OF_VALIDATION, OF_SHARE_GROUP, FOR_SHARE_GROUPS]
    answer = client.ask(
        DESCRIBE_CONFIGS,
        DESCRIBE_CONFIGS.request(
            resources=[
                row(resource_type=kind, resource_name=name, configuration_keys=names)
                for kind, name in resources
            ]
        ),
        passing=is_retriable,
    )
    found = []
    for result in answer.results:
        for each in result.configs:
            if each.name == FOR_SHARE_GROUPS and each.value == "true":
                found.append(Found(result.resource_name, f"{FOR_SHARE_GROUPS} is set"))
            elif each.name in (OF_VALIDATION, OF_SHARE_GROUP) and each.value:
                owner = "topic" if result.resource_type == TOPIC else "group"
                found.append(Found(each.value, f"{owner} {result.resource_name} names it"))
    return found


def _by_headers(client: Client, topics: Sequence[str]) -> list[Found]:
    """Look at the last record of one partition of each topic, where there is one."""
    lasts = _last_offsets(client, topics)
    if not lasts:
        return []
    reader, found = Reader(client, lasts, committed=True), dict[str, Found]()
    try:
        for _ in range(POLLS):
            if not reader.positions:
                break
            for record in reader.poll(POLL_S, 10 * PARTITIONS_AT_ONCE):
                letter = read_letter(record)
                if letter.convention is not None:
                    found[record.topic] = Found(record.topic, f"headers of {letter.convention}")
            for where, position in list(reader.positions.items()):
                if position > lasts[where]:
                    reader.leave(where)
    except (KafkaError, ClientError):
        pass  # a topic that the user may not read tells nothing, and its neighbours little
    finally:
        reader.close()
    return list(found.values())


def _last_offsets(client: Client, topics: Sequence[str]) -> dict[Where, int]:
    """Return the place of the last record by partition: of each topic the partition that has most.
    Partitions without a leader, or whose leader refuses, are left out.
    """
    wheres = [
        (topic.name or "", each.partition_index)
        for topic in client.metadata(topics).topics
        for each in topic.partitions
        if each.leader_id >= 0
    ]
    try:
        by_leader, _ = client.by_leader(wheres)
    except OSError:
        return {}
    best: dict[str, tuple[int, Where]] = {}
    for address, own in by_leader.items():
        request = list_offsets_request(dict.fromkeys(own, LATEST), READ_COMMITTED)
        try:
            answer = client.ask_at(address, LIST_OFFSETS, request)
        except OSError:
            continue
        for topic in answer.topics:
            for each in topic.partitions:
                if not each.error_code and each.offset > 0:
                    place = (each.offset - 1, (topic.name, each.partition_index))
                    best[topic.name] = max(best.get(topic.name, place), place)
    return {where: offset for offset, where in best.values()}
