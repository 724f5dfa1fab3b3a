"""Count how often each rare event happened in a life, from the nodes' logs and from observations. A
long run lists events that never happened.
"""

import re
from collections import Counter
from collections.abc import Iterable

from raftka.chaos.checks.metadata import LeaderSeen
from raftka.chaos.simulated.checks.observer import Observer

EVENT = re.compile(r"^\S+ \w+ +(\w+) ")

# Events of the log that are worth to be counted, and what a run without them has not tried.
EVENTS = {
    "truncated": "a follower truncated records that its leader did not have",
    "log_cut": "recovery found a torn tail",
    "log_damaged": "a broker found that its disk has forgotten",
    "older_disk": "a node stopped because its disk was put back from a copy",
    "broker_fenced": "the controller gave a broker up",
    "partitions_offline": "partitions without a leader",
    "controller_active": "controllers elected",
    "controller_resigned": "a controller that lost its majority",
    "segment_rolled": "a log began another segment",
    "flush_failed": "a flush failed",
    "log_failed": "a log could not be written",
    "metadata_log_failed": "the metadata log could not be written",
    "coordinator_loaded": "a coordinator read its groups",
    "coordinator_unloaded": "a coordinator gave its groups away",
    "broker_process_gone": "the controller learned that a process has ended",
    "log_directory_failed": "a directory failed",
    "log_directory_moved": "a replica went to another directory",
    "unclean_election": "a leader from outside the ISR",
}
NOTICED = {
    "isr_shrunk": "a replica left an ISR",
    "isr_expanded": "a replica joined an ISR",
    "isr_of_one": "an ISR of the leader alone",
    "leader_elected": "a partition's leader changed",
    "two_elections_at_once": "a partition's leader changed twice within half a second",
    "reassigned": "replicas went elsewhere",
    "snapshot_installed": "a node was so far behind that it was sent a snapshot",
    "terms_without_a_leader": "an election without a winner",
    "several_controllers": "the metadata's leader changed",
}
PROBES = EVENTS | NOTICED
# rest: always
ONLY_WHEN = {
    "log_directory_failed": "directories",
    "log_directory_moved": "directories",
    "unclean_election": "unclean elections",
}


def probe(lines: Iterable[str], observer: Observer) -> Counter[str]:
    found = Counter(
        name
        for line in lines
        if (match := EVENT.match(line)) is not None and (name := match[1]) in EVENTS
    )
    found += observer.noticed
    terms = {each.term for each in observer.seen if isinstance(each, LeaderSeen)}
    if terms:
        found["terms_without_a_leader"] += max(terms) - min(terms) + 1 - len(terms)
        found["several_controllers"] += len(terms) - 1
    return +found


def never_seen(probes: Counter[str]) -> list[str]:
    return [name for name in PROBES if not probes[name] and name not in ONLY_WHEN]
