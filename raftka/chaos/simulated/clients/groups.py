"""A client of a group: finds its coordinator, commits and fetches, as a client library does. What
it did and saw stands in the story of all clients.

Says also when it is wrong that a member is turned away: the coordinator has heard of it, and its
session is not over.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import trio

from raftka.chaos.history import COMMIT, FAIL, FETCH_OFFSET, INFO, OK, History
from raftka.chaos.simulated.clients.client import Address, Client, NoAnswer
from raftka.wire.errors import Code
from raftka.wire.messages.find_coordinator import FIND_COORDINATOR
from raftka.wire.messages.offsets import OFFSET_COMMIT, OFFSET_FETCH, OffsetCommitRequestPartition

TOPIC = "orders"
SESSION_MS = 1000
# a session lasts so long whatever the clocks of the machines do
SURELY_S = SESSION_MS / 1000 - 0.05
REBALANCE_S = 0.95  # so long a rebalance that has begun waits for each member
PASSES = frozenset(
    {
        Code.NOT_COORDINATOR,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.REQUEST_TIMED_OUT,
        Code.UNKNOWN_TOPIC_ID,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
Place = tuple[str, int]  # a partition


class Refused(Exception):
    def __init__(self, code: Code) -> None:
        super().__init__(code.name)
        self.code = code


class Claims:
    """The last owner of each thing. The order of requests that overlap is unknown: answers overtake
    each other.
    """

    def __init__(self) -> None:
        self._last: dict[object, tuple[float, str]] = {}  # when it was asked for, by whom

    def given(self, what: object, who: str, asked_at: float) -> None:
        self._last[what] = max(self._last.get(what, (0.0, "")), (asked_at, who))

    def since(self, what: object, answered_at: float) -> str:
        """The client that asked for it since then and got it; "": none."""
        asked_at, who = self._last.get(what, (0.0, ""))
        return who if asked_at > answered_at else ""


class Story:
    """The operations of all clients together."""

    def __init__(self, coordinator: Callable[[str], object] = lambda _: None) -> None:
        """`coordinator`: who looks after a group, in which epoch; None: not known."""
        self.history = History()
        self.wrong: list[str] = []
        self.coordinator = coordinator
        # how often a group without members and offsets was removed: generations begin anew
        self.removals: Callable[[str], int] = lambda _: 0
        self._removed: dict[str, int] = {}  # as often as the owners know of
        self.owners: dict[tuple[str, int, int], str] = {}  # (group, generation, partition) -> who
        self.claims = Claims()
        self._processes = 0

    def process(self) -> int:
        self._processes += 1
        return self._processes

    def given(self, group: str, generation: int, partition: int, who: str) -> None:
        owner = self.owners.setdefault((group, generation, partition), who)
        if owner != who and (removals := self.removals(group)) > self._removed.get(group, 0):
            self._removed[group] = removals
            self.owners = {key: each for key, each in self.owners.items() if key[0] != group} | {
                (group, generation, partition): who
            }
        elif owner != who:
            self.wrong.append(
                f"two owners: {owner} and {who} of {group} both have {TOPIC}-{partition} in "
                f"generation {generation}"
            )


class GroupClient:
    """Finds its coordinator, and asks it; commits and fetches are written down."""

    pace = 1.0  # of its pauses: a life costs what it shows

    def __init__(self, client: Client, story: Story, group: str) -> None:
        self.client, self.story, self.group = client, story, group
        self.over = self.done = False
        self.count = 0
        self.random = client.runtime.random("group client")
        self._process = story.process()
        # when the last question was asked that kept its member's session, and of whom
        self._heard: tuple[float, object] = -inf, None
        # the same of a commit, and who was the coordinator when it was answered
        self._committed: tuple[float, object] = -inf, None

    @property
    def now(self) -> float:
        return self.client.runtime.clock.now()

    async def run(self) -> None:
        while not self.over:
            try:
                await self.serve(await self.coordinator())
            except NoAnswer:
                await self.rest()
        self.done = True

    async def serve(self, where: Address) -> None:
        raise NotImplementedError

    async def coordinator(self) -> Address:
        while True:
            shape = self.client.shape
            (found,) = shape.coordinators(
                await self.client.anybody(FIND_COORDINATOR, shape.find_coordinator([self.group]))
            )
            if found.error_code == Code.NONE:
                return found.host, found.port
            await self.rest()

    async def pause(self, between_s: tuple[float, float]) -> None:
        """As a client that has other things to do."""
        await trio.sleep(self.random.uniform(*between_s) * self.pace)

    @staticmethod
    async def rest() -> None:
        """Before it is tried again."""
        await trio.sleep(0.05)

    def check(self, code: int) -> None:
        """Raises NoAnswer where another coordinator may have one, and Refused."""
        if code in PASSES:
            raise NoAnswer
        if code:
            raise Refused(Code(code))

    # sessions

    def is_new(self) -> None:
        """From now on it is another member, or none that anybody has promised anything."""
        self._heard = self._committed = -inf, None

    def was_heard(self, asked_at: float, coordinator: object) -> None:
        """`coordinator`: when it was asked. Another one may not have known it."""
        self._heard = asked_at, coordinator

    def was_heard_for_good(self, asked_at: float) -> None:
        """By a commit: it is in the log, so that the next coordinator knows the member, and lets it
        begin a whole session.
        """
        self._committed = asked_at, self.story.coordinator(self.group)

    def turned_away(self, who: str, code: Code) -> None:
        """A member was removed although no other took its place and it did all it had to in time:
        then its session must be over.
        """
        (heard_at, coordinator), (committed_at, before), now = (
            self._heard,
            self._committed,
            self.story.coordinator(self.group),
        )
        since = -inf
        if now is not None:
            # a commit is taken, too, of who is late to join again
            still_in = before not in (None, now) and self.now < heard_at + REBALANCE_S
            since = max(
                heard_at if coordinator == now else -inf, committed_at if still_in else -inf
            )
        if self.now < since + SURELY_S:
            self.story.wrong.append(
                f"{who} of {self.group} is refused with {code.name}, {self.now - since:.3f} s "
                "after it was heard of"
            )

    # offsets

    async def commit(
        self,
        where: Address,
        offsets: Mapping[Any, int],
        generation: int = -1,
        member_id: str = "",
        instance: str | None = None,
        generation_told: int | None = None,
    ) -> None:
        """`offsets`: by Place, or by partition of TOPIC. `generation`: of the group, or else
        `generation_told` is what the history is told.
        """
        history, asked_at = self.story.history, self.now
        places = {_place(each): offset for each, offset in offsets.items()}
        known = generation if generation_told is None else generation_told
        history.invoke(
            self._process,
            COMMIT,
            asked_at,
            group=self.group,
            generation=known,
            offsets=_told(places),
        )
        outcome = INFO
        try:
            codes = set(
                (await self.ask_to_commit(where, places, generation, member_id, instance)).values()
            )
            outcome = OK if codes == {0} else INFO if codes & PASSES else FAIL
            for code in codes:
                self.check(code)
        finally:
            history.end(self._process, outcome, self.now)
            if outcome == INFO:
                self._process = self.story.process()
        self.count += 1

    async def ask_to_commit(
        self,
        where: Address,
        places: Mapping[Place, int],
        generation: int = -1,
        member_id: str = "",
        instance: str | None = None,
    ) -> dict[Place, int]:
        """The error of each. The history is not told."""
        request, shape = OFFSET_COMMIT.request, self.client.shape
        rows: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (name, index), offset in places.items():
            row = request.topics.partitions(
                partition_index=index,
                committed_offset=offset,
                committed_metadata=shape.commit_metadata,
            )
            rows.setdefault(name, []).append(row)
        ids = {name: await self.client.topic_id(name) for name in rows}
        asked = request(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=shape.instance(OFFSET_COMMIT, instance),
            topics=[
                request.topics(name=name, topic_id=ids[name], partitions=partitions)
                for name, partitions in rows.items()
            ],
        )
        answer = await self.client.ask(where, OFFSET_COMMIT, asked)
        # in the order of the question
        names = [name for name, partitions in rows.items() for _ in partitions]
        found = [each for topic in answer.topics for each in topic.partitions]
        return {
            (name, each.partition_index): each.error_code
            for name, each in zip(names, found, strict=True)
        }

    async def fetch(
        self,
        where: Address,
        partitions: Sequence[object],
        member_id: str | None = None,
        epoch: int = -1,
    ) -> dict[Any, int]:
        """By what was asked for: each a Place, or a partition of TOPIC."""
        history = self.story.history
        history.invoke(self._process, FETCH_OFFSET, self.now, group=self.group)
        found: dict[Place, int] = {}
        try:
            found = await self.ask_for_offsets(
                where, [_place(each) for each in partitions], member_id, epoch
            )
        finally:
            history.end(
                self._process,
                OK if found else FAIL,
                self.now,
                **({"offsets": _told(found)} if found else {}),
            )
        return {each: found[_place(each)] for each in partitions}

    async def ask_for_offsets(
        self,
        where: Address,
        places: Sequence[Place] | None,
        member_id: str | None = None,
        epoch: int = -1,
    ) -> dict[Place, int]:
        """`places`: None are all. The history is not told. Raises NoAnswer, Refused."""
        asked: dict[str, list[int]] = {}
        for name, index in places or ():
            asked.setdefault(name, []).append(index)
        shape = self.client.shape
        names = {await self.client.topic_id(name): name for name in asked or (TOPIC,)}
        row = shape.fetch_offsets(
            self.group,
            asked if places is not None else None,
            {name: each for each, name in names.items()},
            member_id,
            epoch,
        )
        answer = shape.offsets(await self.client.ask(where, OFFSET_FETCH, row))
        self.check(answer.error_code)
        for topic in answer.topics:
            for each in topic.partitions:
                self.check(each.error_code)
        return {
            (
                topic.name or names[bytes(topic.topic_id)],
                each.partition_index,
            ): each.committed_offset
            for topic in answer.topics
            for each in topic.partitions
        }


def _place(each: Any) -> Place:
    return (TOPIC, each) if isinstance(each, int) else each


def _told(places: Mapping[Place, int]) -> dict[str, int]:
    return {f"{name}-{index}": offset for (name, index), offset in places.items()}
