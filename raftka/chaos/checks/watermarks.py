"""High watermark, last stable offset and log start of a partition never go back within one leader
epoch, for all clients.

A new leader learns all three later than the old one has reported them, as in Kafka, so values of
two epochs are not compared. One value is: the *end* that ListOffsets tells a client that knows
KIP-320 never goes back (KIP-207), because a new leader answers only when it knows its own end.
"""

from collections.abc import Sequence

from raftka.chaos.checks.rising import Rising
from raftka.chaos.history import LIST_OFFSETS, Operation, Told
from raftka.chaos.verdict import Findings

FIELDS = {"log-start-back": 1, "last-stable-offset-back": 2, "high-watermark-back": 3}


def check(ended: Sequence[Operation], findings: Findings) -> None:
    rising = Rising(_higher)
    ends: dict[tuple[int, str], tuple[Told, Operation]] = {}
    for operation in ended:
        for key, told in operation.told.items():
            if told.leader_epoch < 0:
                continue
            if operation.verb == LIST_OFFSETS:
                _end(operation, key, told, ends, findings)
                continue
            name = (key, told.leader_epoch)
            top = rising.top(name)
            if top == told:
                continue
            # wrong only if the higher value was known when this operation began
            if top is not None and (told[1] < top[1] or told[2] < top[2] or told[3] < top[3]):
                before = rising.known(name, operation.began)
                if before is not None:
                    _compare(name, before[0], told, operation, rising, findings)
            rising.learn(name, told, operation)


def _higher(one: Told, other: Told) -> Told:
    return Told(*map(max, one, other))


def _compare(
    name: tuple[str, int],
    before: Told,
    told: Told,
    operation: Operation,
    rising: Rising[Told],
    findings: Findings,
) -> None:
    for kind, place in FIELDS.items():
        if told[place] < (highest := before[place]):
            earlier = rising.first(
                name,
                lambda known, place=place, highest=highest: known[place] >= highest,  # type: ignore[misc]
            )
            sentence = (
                f"{kind[:-5]} {told[place]} was told after {highest}, by the leader of epoch "
                f"{name[1]}"
            )
            findings.wrong(kind, name[0], sentence, (earlier, operation))


def _end(
    operation: Operation,
    key: str,
    told: Told,
    ends: dict[tuple[int, str], tuple[Told, Operation]],
    findings: Findings,
) -> None:
    before = ends.get((operation.process, key))
    if (
        before is not None
        and told.leader_epoch >= before[0].leader_epoch
        and told.high_watermark < before[0].high_watermark
    ):
        sentence = (
            f"process {operation.process} was told that it ends at {told.high_watermark}, "
            f"before that at {before[0].high_watermark}"
        )
        findings.wrong("end-back", key, sentence, (before[1], operation))
    ends[operation.process, key] = (told, operation)
