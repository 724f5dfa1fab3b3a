"""The memory of the pages of groups beside a view: shared by all pages of its login, and gone with
the view.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from raftka.console.groups.history import Histories
from raftka.console.groups.next_records import RecordTimes
from raftka.console.groups.seconds import GroupSeconds
from raftka.console.view.beside import Beside

if TYPE_CHECKING:
    from raftka.console.view.view import View


class Memory(NamedTuple):
    histories: Histories
    times: RecordTimes
    seconds: GroupSeconds


def _memory(view: "Callable[[], View]") -> Memory:
    times = RecordTimes()
    return Memory(Histories(), times, GroupSeconds(view, times))


MEMORIES: "Beside[View, Memory]" = Beside(_memory)
