"""One decision of the group coordinator while it is made: its context and settings, the records and
replies so far. Knows no rule.
"""

from collections.abc import Callable
from typing import Any

from raftka.coordinator.commands import GroupSettings
from raftka.coordinator.machine import Context, Outcome, Record, Ticket
from raftka.coordinator.timers import Timers
from raftka.wire.errors import Code, KafkaError

MANY_RECORDS = 1_000  # of one decision: they may not fit into one batch


class Decision:
    __slots__ = ("context", "now", "records", "replies", "settings", "timers", "undo")

    def __init__(self, context: Context, settings: GroupSettings, timers: Timers) -> None:
        self.context = context
        self.now = context.now
        self.settings = settings
        self.timers = timers
        self.records: list[Record] = []
        self.replies: list[tuple[Ticket, Any]] = []
        self.undo: Callable[[], None] | None = None  # see Outcome

    def reply(self, ticket: Ticket, answer: object) -> None:
        self.replies.append((ticket, answer))

    def refuse(self, ticket: Ticket, code: Code) -> None:
        self.replies.append((ticket, KafkaError(code)))

    def outcome(self, *, atomic: bool | None = None) -> Outcome:
        """Targets of very many members may not fit into one batch; their epoch comes last, and
        without it they are worked out anew.
        """
        return Outcome(
            self.records,
            self.replies,
            len(self.records) < MANY_RECORDS if atomic is None else atomic,
            self.undo,
        )
