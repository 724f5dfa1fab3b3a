"""What leaders tell of their partitions never goes back: high watermark, last stable offset and log start within one leader epoch, for everybody.

A new leader learns of all three later than the old one had told them, as in Kafka, so nothing is said across epochs: but the *end* that ListOffsets
tells one client who knows KIP-320 goes on rising (KIP-207), for a new leader answers only when it knows its own.
"""

from raftka.chaos.checks.rising import Rising, as_they_ended
from raftka.chaos.history import LIST_OFFSETS, OK, History, Operation, Told
from raftka.chaos.verdict import Findings

FIELDS = {"log-start-back": 1, "last-stable-offset-back": 2, "high-watermark-back": 3}


def check(history: History, findings: Findings) -> None:
    rising = {kind: Rising() for kind in FIELDS}
    ends: dict[tuple[int, str], tuple[Told, Operation]] = {}
    for operation in as_they_ended(history):
        if operation.outcome != OK:
            continue
        for key, told in operation.told.items():
            if told.leader_epoch < 0:
                continue
            if operation.verb == LIST_OFFSETS:
                _end(operation, key, told, ends, findings)
                continue
            for kind, place in FIELDS.items():
                _check(kind, (key, told.leader_epoch), told[place], operation, rising[kind], findings)


def _check(kind: str, name: tuple[str, int], value: int, operation: Operation, rising: Rising, findings: Findings) -> None:
    before = rising.known(name, operation.began)
    if before is not None and before[0] > value:
        findings.wrong(kind, name[0], f"{kind[:-5]} {value} was told after {before[0]}, by the leader of epoch {name[1]}", (before[1], operation))
    rising.learn(name, value, operation)


def _end(operation: Operation, key: str, told: Told, ends: dict[tuple[int, str], tuple[Told, Operation]], findings: Findings) -> None:
    before = ends.get((operation.process, key))
    if before is not None and told.leader_epoch >= before[0].leader_epoch and told.high_watermark < before[0].high_watermark:
        said = f"process {operation.process} was told that it ends at {told.high_watermark}, before that at {before[0].high_watermark}"
        findings.wrong("end-back", key, said, (before[1], operation))
    ends[operation.process, key] = (told, operation)
