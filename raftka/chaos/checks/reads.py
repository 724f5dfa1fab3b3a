"""Did consumers see every record, in order, and only what may be seen?

int-poll-skip, int-nonmonotonic-poll   within one operation: a record is left out, or comes again
poll-skip, nonmonotonic-poll           between two of a process; where it subscribes, a rebalance
                                       may cause that, so it is a note
offset-gap                             nothing at an offset of a partition without transactions; or
                                       more nothing than its transactions can have left
beyond-high-watermark, beyond-last-stable-offset   records that the same answer says nobody may see
                                                   yet
"""

from collections.abc import Mapping

from raftka.chaos.checks.versions import OFFSET, Versions
from raftka.chaos.history import ASSIGN, INFO, OK, SUBSCRIBE, History, Operation, Records
from raftka.chaos.verdict import Findings, Rules

ByKey = Mapping[str, Versions]


class _Reader:
    """One process."""

    def __init__(self) -> None:
        self.subscribed = False
        # index of the last record, and who read it
        self.places: dict[str, tuple[int, Operation]] = {}

    def moves(self, operation: Operation) -> None:
        self.subscribed = operation.verb == SUBSCRIBE
        self.places = {key: place for key, place in self.places.items() if key in operation.keys}


def check(history: History, versions: ByKey, rules: Rules, findings: Findings) -> None:
    readers: dict[int, _Reader] = {}
    for operation in history.operations:
        if operation.polled:
            _inside(operation, versions, findings)
            _visible(operation, rules, findings)
        if operation.polled or operation.verb in (ASSIGN, SUBSCRIBE):
            reader = readers.get(operation.process)
            if reader is None:
                reader = readers[operation.process] = _Reader()
            _between(operation, reader, versions, findings)
    for each in versions.values():
        if each.transactions and rules.repeated_markers is not None:
            _holes(each, rules.repeated_markers, findings)


def _between(operation: Operation, reader: _Reader, versions: ByKey, findings: Findings) -> None:
    if operation.verb in (ASSIGN, SUBSCRIBE):
        reader.moves(operation)
    elif operation.outcome == INFO:
        reader.places.clear()  # nobody knows where it is now
    elif operation.outcome == OK:  # a transaction that is aborted goes back to where it was
        for key, records in operation.polled.items():
            if records:
                _step(operation, reader, versions[key], records, findings)
    for key in operation.rebalanced:
        reader.places.pop(key, None)


def _step(
    operation: Operation, reader: _Reader, versions: Versions, records: Records, findings: Findings
) -> None:
    key, index = versions.key, versions.index
    before = reader.places.get(key)
    first = index[records[0][0]]
    if before is not None and first != before[0] + 1 and key not in operation.rebalanced:
        kind = _kind(versions, before[0], first)
        if kind and reader.subscribed:
            findings.note(kind)
        elif kind:
            said = (
                f"process {operation.process} read offset {records[0][0]} after "
                f"{versions.offsets[before[0]]}"
            )
            findings.wrong(kind, key, said, (before[1], operation))
    reader.places[key] = (index[records[-1][0]], operation)


def _kind(versions: Versions, before: int, now: int) -> str:
    """The anomaly in a step between two indexes; empty: the skipped records had been deleted."""
    if now <= before:
        return "nonmonotonic-poll"
    return "poll-skip" if versions.offsets[now - 1] >= versions.log_start else ""


def _inside(operation: Operation, versions: ByKey, findings: Findings) -> None:
    for key, records in operation.polled.items():
        offsets = list(map(OFFSET, records))
        if (
            not offsets
            or offsets == list(range(offsets[0], offsets[0] + len(offsets)))
            or key in operation.rebalanced
        ):
            continue
        each = versions[key]
        for before, (offset, value) in zip(offsets, records[1:], strict=False):
            if offset != before + 1:  # neighbours are right in any case
                _inner_step(
                    operation, each, each.index[before], each.index[offset], value, findings
                )


def _inner_step(
    operation: Operation, versions: Versions, last: int, now: int, value: object, findings: Findings
) -> None:
    before, offset = versions.offsets[last], versions.offsets[now]
    if now != last + 1:
        if kind := _kind(versions, last, now):
            findings.wrong(
                f"int-{kind}",
                versions.key,
                f"{value} at {offset} came right after offset {before}",
                (operation,),
            )
    elif not versions.transactions and offset > versions.log_start:
        findings.wrong(
            "offset-gap",
            versions.key,
            f"there is nothing between {before} and {offset}, and no transaction ever was",
            (operation,),
        )


def _visible(operation: Operation, rules: Rules, findings: Findings) -> None:
    for key, told in operation.told.items():
        records = operation.polled.get(key)
        if not records:
            continue
        offset = records[-1][0]
        if offset >= told.high_watermark:
            findings.wrong(
                "beyond-high-watermark",
                key,
                f"offset {offset} was read at high watermark {told.high_watermark}",
                (operation,),
            )
        elif rules.read_committed and offset >= told.last_stable:
            findings.wrong(
                "beyond-last-stable-offset",
                key,
                f"offset {offset} was read at last stable offset {told.last_stable}",
                (operation,),
            )


def _holes(versions: Versions, repeated: int, findings: Findings) -> None:
    """Each transaction leaves its end, and its records unless it was committed."""
    if not versions.offsets:
        return
    holes = versions.offsets[-1] + 1 - versions.offsets[0] - len(versions.offsets)
    allowed = repeated + sum(
        1 + sum(send[0] == versions.key and send[1] not in versions.where for send in each.sends)
        for each in versions.transactions
    )
    if holes > allowed:
        said = (
            f"{holes} offsets hold nothing, {len(versions.transactions)} transactions can have "
            f"left {allowed}"
        )
        findings.wrong("offset-gap", versions.key, said, versions.transactions[:1])
