"""Checks of the controllers: one that leads, voters that are there and keep up."""

from collections.abc import Iterator

from raftka.console.cluster.findings import is_current, voters_of
from raftka.doctor.checks.finding import BAD, Found, count, finds, has, names
from raftka.doctor.facts import Facts

LAGGING = 1_000  # entries of the metadata log
DESCRIBE = "raftka cluster describe"


@finds("no-controller", BAD)
def no_controller(facts: Facts) -> Iterator[Found]:
    if facts.brokers and facts.controller < 0:
        yield Found(
            "There is no controller: no leader moves and no topic is made until a majority of the "
            "voters is there; start the controllers that are down.",
            DESCRIBE,
        )


@finds("voters-silent", BAD)
def voters_silent(facts: Facts) -> Iterator[Found]:
    quorum = facts.quorum
    if quorum is None:
        return
    silent = sorted(each.node_id for each in voters_of(quorum) if not is_current(each, quorum))
    if silent:
        spare = len(voters_of(quorum)) - len(silent) - len(voters_of(quorum)) // 2 - 1
        yield Found(
            f"{names(silent, 'Voter')} {has(len(silent), 'does', 'do')} not answer the leader: "
            f"{count(max(0, spare), 'more')} may fail before there is no controller; start "
            f"{has(len(silent), 'it', 'them')} again.",
            DESCRIBE,
        )


@finds("voter-lagging")
def voter_lagging(facts: Facts) -> Iterator[Found]:
    quorum = facts.quorum
    if quorum is None:
        return
    behind = {
        each.node_id: each.behind or 0
        for each in quorum.nodes
        if is_current(each, quorum) and (each.behind or 0) > LAGGING
    }
    if behind:
        yield Found(
            f"{names(sorted(behind), 'Node')} {has(len(behind), 'is', 'are')} "
            f"{max(behind.values()):,} entries behind in the metadata log: see the disk, the "
            "processor and the network there.",
            DESCRIBE,
        )


@finds("voters-even")
def voters_even(facts: Facts) -> Iterator[Found]:
    number = len(voters_of(facts.quorum)) if facts.quorum is not None else 1
    if number % 2 == 0:
        yield Found(
            f"The quorum has {number} voters: as many may fail as with {number - 1}, and each "
            "decision needs one more; add a voter or remove one.",
            "raftka controllers list",
        )


@finds("voter-alone")
def voter_alone(facts: Facts) -> Iterator[Found]:
    if facts.quorum is not None and len(voters_of(facts.quorum)) == 1 and len(facts.brokers) > 2:
        yield Found(
            f"One voter decides for {len(facts.brokers)} brokers: when its disk is lost, so are "
            "all topics; add two voters.",
            "raftka controllers list",
        )
