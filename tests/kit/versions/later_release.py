"""A release after this one, played in this process: it knows the next level of `raftka.version`,
which has a new kind of metadata record and a new version of an old one.
"""

from typing import NamedTuple

import pytest

from raftka.metadata import records
from raftka.metadata.controller import administration
from raftka.metadata.controller.decision import Decision
from raftka.metadata.controller.draft import Draft
from raftka.metadata.records import Later, PartitionChanged
from raftka.metadata.security_commands import AlterClientQuotas
from raftka.versions import LEVELS, RAFTKA_VERSION, SUPPORTED

LEVEL = LEVELS[-1].number + 1
REMARK_KIND = 900


class RemarkSet(NamedTuple):
    """A kind of record that earlier releases do not know."""

    text: str


def play_later_release(patch: pytest.MonkeyPatch) -> None:
    """Make this process the later release, until the patch is undone. It writes a remark beside
    each change of quotas, as soon as its level allows that.
    """
    decide = administration.DECISIONS[AlterClientQuotas]

    def decide_with_remark(draft: Draft, command: AlterClientQuotas) -> Decision:
        made, reply = decide(draft, command)
        remark: list[records.Record] = [RemarkSet("new")]  # type: ignore[list-item]
        return made + (remark if draft.image.level >= LEVEL else []), reply

    patch.setitem(SUPPORTED, RAFTKA_VERSION, (1, LEVEL))
    patch.setitem(records.NUMBERS, RemarkSet, (REMARK_KIND, 0))  # type: ignore[misc]
    patch.setitem(records.KINDS, REMARK_KIND, (RemarkSet, 0))
    patch.setitem(records.LATER, RemarkSet, (Later(0, LEVEL, 0),))  # type: ignore[misc]
    number, version = records.NUMBERS[PartitionChanged]
    later = Later(version + 1, LEVEL, len(PartitionChanged._fields))
    patch.setitem(records.NUMBERS, PartitionChanged, (number, version + 1))
    patch.setitem(records.KINDS, number, (PartitionChanged, version + 1))
    patch.setitem(records.LATER, PartitionChanged, (*records.LATER[PartitionChanged], later))
    patch.setitem(administration.DECISIONS, AlterClientQuotas, decide_with_remark)
