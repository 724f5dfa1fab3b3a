"""The list of topics, filtered, ordered and cut into pages here: a browser gets the rows that it
shows, of however many topics.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from raftka.console.view.metadata import Health, Metadata, Topic
from raftka.console.view.view import Overview
from raftka.json_values import JsonObject

# what rows may be ordered by; "-name" is the reverse
KEYS = ("name", "partitions", "replication", "bytes", "rate", "messages", "lag", "groups")
ORDERS = (*KEYS, *(f"-{key}" for key in KEYS))
STATES = ("any", "sick", "offline")


class Wanted(NamedTuple):
    """`search`: words that a name has, in any case. `state`: sick topics lack an in-sync replica
    or a leader, offline ones a leader.
    """

    search: str
    sort: str
    page: int
    size: int
    internal: bool
    state: str


def list_topics(metadata: Metadata, overview: Overview, wanted: Wanted) -> JsonObject:
    """Return a page of rows, and how many there are on all pages. What is not read yet is null in
    the rows, and named in `pending`.
    """
    found = _matching(metadata, wanted)
    ordered = _ordered(found, overview, wanted.sort)
    last_page = max(1, -(-len(ordered) // wanted.size))
    page = min(wanted.page, last_page)
    first = (page - 1) * wanted.size
    rows = ordered[first : first + wanted.size]
    return {
        "topics": [_row(metadata.health, overview, each) for each in rows],
        "page": page,
        "size": wanted.size,
        "total": len(ordered),
        "of_all": len(metadata.topics),
        "sick": sum(1 for each in metadata.health.values() if each != SOUND),
        "pending": overview.pending,
        "old_s": old_s(overview.age_s),
    }


SOUND = Health(0, 0)
NOTED_S, STEP_S = 30, 10


def old_s(age_s: float) -> int:
    """Seconds that a page mentions, in steps, so that a page kept live is not sent each time; 0
    for figures that are as new as usual.
    """
    return 0 if age_s < NOTED_S else int(age_s // STEP_S) * STEP_S


def _matching(metadata: Metadata, wanted: Wanted) -> list[Topic]:
    words = wanted.search.lower().split()
    health = metadata.health
    topics = list(metadata.topics.values())
    if wanted.state == "sick":
        topics = [each for each in topics if each.name in health]
    elif wanted.state == "offline":
        topics = [each for each in topics if health.get(each.name, SOUND).offline]
    if not wanted.internal:
        topics = [each for each in topics if not each.internal]
    if words:
        topics = [each for each in topics if all(word in each.name.lower() for word in words)]
    return topics


def _ordered(topics: Sequence[Topic], overview: Overview, sort: str) -> list[Topic]:
    """Topics of equal values are in order of their names, unknown values are last."""
    descending, key = sort.startswith("-"), sort.removeprefix("-")
    if key == "name":
        return list(reversed(topics)) if descending else list(topics)
    unknown = -1 if descending else inf
    return sorted(topics, key=_key_of(key, overview, unknown), reverse=descending)


def _key_of(key: str, overview: Overview, unknown: float) -> Callable[[Topic], float]:
    if key == "partitions":
        return lambda topic: len(topic.partitions)
    if key == "replication":
        return lambda topic: topic.replication
    if key == "groups":
        groups = overview.lags.of_topic if overview.lags is not None else {}
        return lambda topic: len(groups[topic.name]) if topic.name in groups else 0
    values = _numbers(key, overview)
    return lambda topic: values.get(topic.name, unknown)


def _numbers(key: str, overview: Overview) -> Mapping[str, float]:
    sizes, ends, messages, lags, _ = overview
    match key:
        case "bytes":
            return sizes.by_topic if sizes is not None else {}
        case "rate":
            return ends.rates_by_topic if ends is not None else {}
        case "messages":
            return messages or {}
        case _:
            return lags.by_topic if lags is not None else {}


def _row(health: Mapping[str, Health], overview: Overview, topic: Topic) -> JsonObject:
    name = topic.name
    state = health.get(name, SOUND)
    groups = overview.lags.of_topic.get(name, {}) if overview.lags is not None else None
    return {
        "name": name,
        "internal": topic.internal,
        "error": topic.error,
        "partitions": len(topic.partitions),
        "replication": topic.replication,
        "under_replicated": state.under_replicated,
        "offline": state.offline,
        "bytes": _numbers("bytes", overview).get(name),
        "rate": _numbers("rate", overview).get(name),
        "messages": _numbers("messages", overview).get(name),
        "lag": _numbers("lag", overview).get(name),
        "groups": len(groups) if groups is not None else None,
    }
