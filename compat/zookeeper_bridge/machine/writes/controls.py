"""Commands to the controller that the writes of one entry cause, each decided after those before
it. Knows no path.

A command is refused as a whole and leaves nothing, however many parts it has: the client that
writes a znode gets one error.
"""

from collections.abc import Callable
from typing import Any

from raftka.limits import LimitExceeded
from raftka.metadata.commands import Administration
from raftka.metadata.controller.administration import decide_in_draft
from raftka.metadata.controller.draft import Draft
from raftka.wire.errors import Code, KafkaError
from zookeeper_bridge.protocol.errors import Err, ZooKeeperError
from zookeeper_bridge.tree.projection import Controller, Projection, moving_in
from zookeeper_bridge.tree.tree import Layer

ANSWERS = {
    Code.TOPIC_ALREADY_EXISTS: Err.NODE_EXISTS,
    Code.TOPIC_DELETION_DISABLED: Err.NO_AUTH,
    Code.POLICY_VIOLATION: Err.QUOTA_EXCEEDED,
}  # all else: BAD_ARGUMENTS


class Controls:
    def __init__(
        self,
        draft: Draft,
        controller: Callable[[], Controller],
        above: "Controls | None" = None,
        *,
        guarded: bool = False,
    ) -> None:
        self.draft = draft
        self._controller = controller
        self.hand_over = False  # another node shall lead
        self.commands = 0  # those of branches that came to nothing as well: they have cost as much
        self._above = above
        self._guarded = guarded

    def branch(self) -> "Controls":
        """For what may come to nothing."""
        return Controls(self.draft.branch(), self._controller, self, guarded=self._guarded)

    def keep(self) -> None:
        """Make the commands of this branch a part of the branch below."""
        assert self._above is not None
        self._above.draft.take(self.draft)
        self._above.hand_over |= self.hand_over

    def count(self) -> None:
        each: Controls | None = self
        while each is not None:
            each.commands += 1
            each = each._above

    def decide(
        self,
        command: Administration,
        codes: Callable[[Any], list[int]],
        harmless: tuple[Code, ...] = (),
    ) -> None:
        """`codes`: of a reply's parts. Raises ZooKeeperError when one of them is an error,
        `harmless` ones apart.
        """
        self.count()
        branch = self.draft.branch()
        try:
            reply = decide_in_draft(branch, command)
        except KafkaError as error:
            raise refused(error.code, error.message) from error
        except LimitExceeded as error:
            raise ZooKeeperError(Err.QUOTA_EXCEEDED, str(error)) from error
        for code in codes(reply):
            if code and code not in harmless:
                raise refused(Code(code))
        self.draft.take(branch)

    def projection(self, layer: Layer) -> Projection:
        image = self.draft.image
        return Projection(
            layer, image, self._controller(), {}, lambda: moving_in(image), guarded=self._guarded
        )


def refused(code: Code, message: str | None = None) -> ZooKeeperError:
    return ZooKeeperError(ANSWERS.get(code, Err.BAD_ARGUMENTS), message or code.name)
