"""An administrator of a share group whose only member is its own: it sets the group's offsets and
deletes them, and each time lets the member see where the group goes on.

The brokers refuse to change offsets while the group has a member. A leader may go by the state of
before until its first write: so only records count whose acknowledgement was taken.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

import trio

from raftka.chaos.simulated.clients.client import Address, Client, NoAnswer
from raftka.chaos.simulated.clients.groups import GroupClient, Refused, Story
from raftka.chaos.simulated.clients.sharing import CLOSES, JOBS, JOINS, LEAVES, MAX_WAIT_MS
from raftka.wire.errors import Code
from raftka.wire.messages.share_acknowledge import SHARE_ACKNOWLEDGE
from raftka.wire.messages.share_fetch import SHARE_FETCH
from raftka.wire.messages.share_groups import SHARE_GROUP_HEARTBEAT
from raftka.wire.messages.share_offsets import (
    ALTER_SHARE_GROUP_OFFSETS,
    DELETE_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
)

REWOUND = "rewound"  # the group
PARTITION = 0
SURELY_MEMBER_S = 0.9  # after a heartbeat was asked for that was answered
EMPTY_S = 8.0  # within so long a group is empty whose only member left, or is not heard of
PAUSE_S = (0.2, 0.6)
DELETES, ASKS_TOO_EARLY = 0.25, 0.5  # chances
FETCH_BYTES, MAX_RECORDS = 65536, 5
ACCEPT = 1
# of a leader or coordinator that is not there, or does not know the last change yet
PASSES = frozenset(
    {
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.LEADER_NOT_AVAILABLE,
        Code.KAFKA_STORAGE_ERROR,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.REQUEST_TIMED_OUT,
        Code.UNKNOWN_SERVER_ERROR,
        Code.OFFSET_NOT_AVAILABLE,
        Code.INVALID_RECORD_STATE,
    }
)


class _Range(NamedTuple):
    first: int
    last: int


class OffsetsAdministrator(GroupClient):
    def __init__(self, client: Client) -> None:
        super().__init__(client, Story(), REWOUND)
        self.wrong = self.story.wrong
        self._members = 0
        self.altered = self.deleted = self.refused = 0

    async def run(self) -> None:
        while not self.over:
            try:
                await self._round()
            except NoAnswer:
                await self.rest()
            await self.pause(PAUSE_S)
        self.done = True

    async def _round(self) -> None:
        """Raises NoAnswer, whatever has been done by then."""
        end = await self.client.end_offset(JOBS, PARTITION)
        if self.random.random() < DELETES:
            start, deleted = 0, await self._change(self._delete)
            self.deleted += deleted
            if not deleted:
                return
        else:
            start = self.random.randint(0, end)
            if not await self._change(lambda where: self._alter(where, start)):
                return
            self.altered += 1
            await self._look(start)
        if start < end:
            await self._be_member(start)

    async def _change(self, ask: Callable[[Address], Awaitable[Code]]) -> bool:
        """Change the offsets when the group is empty; return whether that came through. Raises
        NoAnswer.
        """
        until = self.now + EMPTY_S
        while not self.over:
            where = await self.coordinator()
            code = await ask(where)
            if code is Code.NONE:
                return True
            if code is not Code.NON_EMPTY_GROUP:
                self.wrong.append(f"offsets of {REWOUND} are refused with {code.name}")
                return False
            if self.now > until:
                self.wrong.append(f"{REWOUND} is not empty {EMPTY_S} s after its member has left")
                return False
            await trio.sleep(0.2)
        return False

    async def _alter(self, where: Address, start: int) -> Code:
        request = ALTER_SHARE_GROUP_OFFSETS.request
        asked = request.topics.partitions(partition_index=PARTITION, start_offset=start)
        row = request(
            group_id=REWOUND, topics=[request.topics(topic_name=JOBS, partitions=[asked])]
        )
        answer = await self.client.ask(where, ALTER_SHARE_GROUP_OFFSETS, row)
        codes = [answer.error_code] + [
            each.error_code for topic in answer.responses for each in topic.partitions
        ]
        return _worst(codes)

    async def _delete(self, where: Address) -> Code:
        request = DELETE_SHARE_GROUP_OFFSETS.request
        row = request(group_id=REWOUND, topics=[request.topics(topic_name=JOBS)])
        answer = await self.client.ask(where, DELETE_SHARE_GROUP_OFFSETS, row)
        codes = {answer.error_code, *(topic.error_code for topic in answer.responses)}
        # there is none: it was deleted before, or no offset was ever set
        return _worst(codes - {Code.UNKNOWN_TOPIC_OR_PARTITION, Code.GROUP_ID_NOT_FOUND})

    async def _look(self, start: int) -> None:
        """Compare the start offset that is described with the one that was set."""
        request = DESCRIBE_SHARE_GROUP_OFFSETS.request
        asked = request.groups.topics(topic_name=JOBS, partitions=[PARTITION])
        row = request(groups=[request.groups(group_id=REWOUND, topics=[asked])])
        answer = await self.client.ask(await self.coordinator(), DESCRIBE_SHARE_GROUP_OFFSETS, row)
        (group,) = answer.groups
        codes = [group.error_code] + [
            each.error_code for topic in group.topics for each in topic.partitions
        ]
        if _worst(codes) is Code.NONE:
            found = [each.start_offset for topic in group.topics for each in topic.partitions]
            if found != [start]:
                self.wrong.append(f"offsets of {REWOUND} were set to {start}, and are {found}")

    # the member

    async def _be_member(self, start: int) -> None:
        """Join, take records from the leader until an acknowledgement is taken, and leave; give up
        when a request has no answer.
        """
        self._members += 1
        member = f"{self.client.shape.name}-{self._members}"
        try:
            await self._take_as_member(member, start)
        except NoAnswer:
            pass
        except Refused as refused:
            if refused.code not in (Code.UNKNOWN_MEMBER_ID, Code.FENCED_MEMBER_EPOCH):
                self.wrong.append(f"{member} is refused with {refused.code.name}")
        try:
            await self._heartbeat(await self.coordinator(), member, LEAVES, is_assigned=False)
        except (NoAnswer, Refused):
            return  # its session ends

    async def _take_as_member(self, member: str, start: int) -> None:
        """Raises NoAnswer, Refused."""
        epoch, is_assigned = JOINS, False
        while not is_assigned and not self.over:
            asked_at, where = self.now, await self.coordinator()
            epoch, is_assigned = await self._heartbeat(where, member, epoch, is_assigned)
            if self.random.random() < ASKS_TOO_EARLY:
                await self._ask_too_early(where, asked_at)
            await self.rest()
        while not self.over:
            where = await self.coordinator()
            epoch, _ = await self._heartbeat(where, member, epoch, is_assigned)
            if await self._take_one(member, start):
                return
            await self.rest()

    async def _heartbeat(
        self, where: Address, member: str, epoch: int, is_assigned: bool
    ) -> tuple[int, bool]:
        row = SHARE_GROUP_HEARTBEAT.request(
            group_id=REWOUND,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=[JOBS] if epoch == JOINS else None,
        )
        answer = await self.client.ask(where, SHARE_GROUP_HEARTBEAT, row)
        self.check(answer.error_code)
        if answer.assignment is not None:
            is_assigned = any(
                PARTITION in topic.partitions for topic in answer.assignment.topic_partitions
            )
        return answer.member_epoch, is_assigned

    async def _ask_too_early(self, where: Address, heard_at: float) -> None:
        """Ask for other offsets while the group has a member."""
        code = await self._alter(where, 0)
        if code is Code.NON_EMPTY_GROUP:
            self.refused += 1
        elif code is Code.NONE and self.now < heard_at + SURELY_MEMBER_S:
            self.wrong.append(f"offsets of {REWOUND} are set although it has a member")

    async def _take_one(self, member: str, start: int) -> bool:
        """Open a session, take records and accept them; return whether the acknowledgement was
        taken. Raises NoAnswer.
        """
        address = (await self.client.leader(JOBS, PARTITION)).address
        found = await self._fetch(address, member)
        if not found:
            await self.client.lost_leader(JOBS, PARTITION)
            return False
        code = await self._accept(address, member, found)
        self.client.hang_up(address)
        if code is Code.NONE and found[0].first != start:
            self.wrong.append(
                f"{REWOUND} begins at {start}, {member} has accepted {found[0].first}"
            )
        return code is Code.NONE

    async def _fetch(self, address: Address, member: str) -> Sequence[_Range]:
        """Return the acquired ranges; none: the leader gives nothing now."""
        request, topic_id = SHARE_FETCH.request, await self.client.topic_id(JOBS)
        asked = request.topics(
            topic_id=topic_id, partitions=[request.topics.partitions(partition_index=PARTITION)]
        )
        row = request(
            group_id=REWOUND,
            member_id=member,
            share_session_epoch=0,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            max_records=MAX_RECORDS,
            batch_size=MAX_RECORDS,
            topics=[asked],
        )
        answer = await self.client.ask(address, SHARE_FETCH, row)
        rows = [each for topic in answer.responses for each in topic.partitions]
        code = _worst([answer.error_code, *(each.error_code for each in rows)])
        if code is not Code.NONE:
            self.wrong.append(f"a fetch of {member} is refused with {code.name}")
        return [
            _Range(each.first_offset, each.last_offset)
            for row_ in rows
            for each in row_.acquired_records
        ]

    async def _accept(self, address: Address, member: str, found: Sequence[_Range]) -> Code:
        """Close the session with this acknowledgement."""
        request, topic_id = SHARE_ACKNOWLEDGE.request, await self.client.topic_id(JOBS)
        batch = request.topics.partitions.acknowledgement_batches
        asked = request.topics.partitions(
            partition_index=PARTITION,
            acknowledgement_batches=[
                batch(first_offset=first, last_offset=last, acknowledge_types=[ACCEPT])
                for first, last in found
            ],
        )
        row = request(
            group_id=REWOUND,
            member_id=member,
            share_session_epoch=CLOSES,
            topics=[request.topics(topic_id=topic_id, partitions=[asked])],
        )
        answer = await self.client.ask(address, SHARE_ACKNOWLEDGE, row)
        codes = [each.error_code for topic in answer.responses for each in topic.partitions]
        return _worst([answer.error_code, *codes])


def _worst(codes: Iterable[int]) -> Code:
    """Return the only error, or NONE. Raises NoAnswer for one that passes."""
    found = {Code(code) for code in codes} - {Code.NONE}
    if found & PASSES:
        raise NoAnswer
    return next(iter(found), Code.NONE)
