"""A member of a share group on the small client: it accepts, releases, rejects and renews records,
or never acknowledges them; it sleeps, crashes and comes back.

All that members ask for and are told stands in a story, which the judge reads
(chaos/checks/shares.py). A member forgets its records with its share session: the broker releases
them, or their locks end.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from uuid import UUID

import trio

from raftka.chaos.checks.shares import (
    LEADER_IS_GONE,
    NO_EFFECT,
    STATE_IS_AWAY,
    Acknowledgement,
    Acquired,
    Fetch,
    Kind,
    Outcome,
    Session,
    Story,
)
from raftka.chaos.simulated.clients.client import Address, Client, NoAnswer
from raftka.chaos.simulated.clients.groups import GroupClient, Refused
from raftka.chaos.simulated.clients.groups import Story as GroupStory
from raftka.wire.errors import Code
from raftka.wire.messages.share_acknowledge import SHARE_ACKNOWLEDGE
from raftka.wire.messages.share_fetch import SHARE_FETCH, PartitionData, ShareFetchRequest
from raftka.wire.messages.share_groups import SHARE_GROUP_HEARTBEAT
from raftka.wire.records import CONTROL, iterate, records_of

JOBS, GROUP = "jobs", "sharers"
JOINS, LEAVES = 0, -1  # as a member epoch
OPENS, CLOSES = 0, -1  # as a session epoch
PATIENCE_S = (1.0, 6.0)  # of a member that asks a leader: longer than some are paused
PAUSE_S = (0.02, 0.1)
MAX_WAIT_MS, FETCH_BYTES = 100, 65536
MAX_RECORDS, BATCH_SIZES = (3, 20, 500), (1, 5, 500)
BATCHES, EXACT = 0, 1  # acquire modes
# chances, of a turn
CRASHES, SLEEPS, LEAVES_AND_JOINS, STRANGE_EPOCH, STRANGE_OFFSET = 0.01, 0.01, 0.01, 0.02, 0.04
ASLEEP_S = (0.5, 2.5)
ALONE, CUT = 0.4, 0.3  # chances: of an acknowledgement without a fetch; of a range that is cut
KEEP, FORGET = "keep", "forget"
CHOICES: dict[Kind | str, float] = {
    Kind.ACCEPT: 10,
    Kind.RELEASE: 4,
    Kind.REJECT: 2,
    Kind.RENEW: 2,
    KEEP: 4,
    FORGET: 1,
}
FULL = Code.GROUP_MAX_SIZE_REACHED  # gone members count until their sessions end
BEGIN_ANEW = frozenset({Code.UNKNOWN_MEMBER_ID, Code.FENCED_MEMBER_EPOCH, Code.GROUP_ID_NOT_FOUND})


class Held(NamedTuple):
    """Records that a member has and has not acknowledged."""

    partition: int
    first: int
    last: int  # included


@dataclass
class Link:
    """A share session with one broker."""

    session: Session
    epoch: int = OPENS  # of the next request
    partitions: set[int] = field(default_factory=set)
    held: list[Held] = field(default_factory=list)


class Writer(Protocol):
    """Keeps the story elsewhere, request by request."""

    def on_asked(self, fetches: Sequence[Fetch], told: Sequence[Acknowledgement]) -> None: ...

    def on_answered(
        self, fetches: Sequence[Fetch], told: Sequence[Acknowledgement], notes: "Notes"
    ) -> None:
        """These objects of one request say what its answer says."""


class Notes:
    """The story of all members together."""

    def __init__(self, lock_ms: int, writer: Writer | None = None) -> None:
        """`writer`: has the story instead."""
        self.lock_ms = lock_ms
        # the leader of a partition at an address, while it keeps its state; None: not known
        self.term_of: Callable[[Address, int], object] = lambda *_: None
        self.story = Story()
        self.of_group = GroupStory()
        self.values: dict[tuple[int, int], bytes] = {}  # by partition and offset, as delivered
        self.markers: set[tuple[int, int]] = set()  # of transactions, by partition and offset
        self.accepted: Counter[int] = Counter()  # by partition
        self.is_finished = False  # all records are done, members may go
        self._writer = writer

    @property
    def wrong(self) -> list[str]:
        return self.of_group.wrong

    def on_asked(self, fetches: Iterable[Fetch], told: Sequence[Acknowledgement]) -> None:
        if self._writer is not None:
            self._writer.on_asked(list(fetches), told)
        else:
            self.story.fetches += fetches
            self.story.acknowledgements += told

    def on_answered(self, fetches: Iterable[Fetch], told: Sequence[Acknowledgement]) -> None:
        if self._writer is not None:
            self._writer.on_answered(list(fetches), told, self)


class ShareMember(GroupClient):
    def __init__(self, client: Client, notes: Notes, topic: str = JOBS, group: str = GROUP) -> None:
        super().__init__(client, notes.of_group, group)
        self.notes = notes
        self.topic = topic
        self.member_id = self._new_id()
        self.epoch = JOINS
        self.assigned: frozenset[int] = frozenset()
        self.leaving: list[str] = []  # earlier member ids that have left
        self.links: dict[Address, Link] = {}
        self.max_records = self.random.choice(MAX_RECORDS)
        self.batch_size = self.random.choice(BATCH_SIZES)
        self.patience_s = self.random.choice(PATIENCE_S)

    def _new_id(self) -> str:
        return str(UUID(bytes=self.random.randbytes(16)))

    def _wrong(self, said: str) -> None:
        self.notes.wrong.append(f"{self.member_id}: {said}")

    async def run(self) -> None:
        """Consume until all records are done: when it is over, it only finishes them."""
        while not self.notes.is_finished:
            await self._consume()
            if not self.over:
                await self._be_careless()
            await self.pause(PAUSE_S)
        self.done = True

    async def keep_in_group(self) -> None:
        """Send heartbeats, as a library does beside."""
        while not self.notes.is_finished:
            try:
                await self.serve(await self.coordinator())
            except NoAnswer:
                await self.rest()

    async def serve(self, where: Address) -> None:
        while not self.notes.is_finished:
            try:
                while self.leaving:
                    await self._heartbeat(where, self.leaving.pop(), LEAVES)
                await self._heartbeat(where, self.member_id, self.epoch)
            except Refused as refused:
                if refused.code not in BEGIN_ANEW and refused.code is not FULL:
                    self._wrong(f"a heartbeat is refused with {refused.code.name}")
                    return
                self.epoch = JOINS
            await self.pause(PAUSE_S)

    async def _heartbeat(self, where: Address, member_id: str, epoch: int) -> None:
        row = SHARE_GROUP_HEARTBEAT.request(
            group_id=self.group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=[self.topic] if epoch == JOINS else None,
        )
        answer = await self.client.ask(where, SHARE_GROUP_HEARTBEAT, row)
        self.check(answer.error_code)
        if member_id != self.member_id:  # it is another one by now
            return
        if answer.member_epoch < self.epoch:
            self._wrong(f"had epoch {self.epoch}, now it has {answer.member_epoch}")
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = frozenset(
                index for topic in answer.assignment.topic_partitions for index in topic.partitions
            )

    # carelessness

    async def _be_careless(self) -> None:
        chance = self.random.random
        if chance() < SLEEPS:
            await trio.sleep(self.random.uniform(*ASLEEP_S))
        if chance() < CRASHES:
            self._crash()
        if chance() < LEAVES_AND_JOINS:
            await self._leave()
        if self.links and chance() < STRANGE_EPOCH:
            await self._ask_with_strange_epoch(self.random.choice(sorted(self.links)))
        if self.links and self.notes.values and chance() < STRANGE_OFFSET:
            await self._acknowledge_strange_offset(self.random.choice(sorted(self.links)))

    def _crash(self) -> None:
        """The process is gone without a word, and begins anew."""
        for address in list(self.links):
            self._lose(address)
            self.client.hang_up(address)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.member_id, self.epoch, self.assigned = self._new_id(), JOINS, frozenset()

    async def _leave(self) -> None:
        for address, link in list(self.links.items()):
            given_up = [(each, self._kind_at_leave()) for each in link.held]
            self._lose(address)
            await self._fetch(address, link, set(), given_up, CLOSES)
        if self.epoch != JOINS:
            self.leaving.append(self.member_id)
        self._begin_anew()

    def _kind_at_leave(self) -> Kind:
        return self.random.choice((Kind.ACCEPT, Kind.RELEASE))

    async def _ask_with_strange_epoch(self, address: Address) -> None:
        link = self.links[address]
        row = self._fetch_row(link.epoch + self.random.randint(1, 5), {}, ())
        try:
            answer = await self.client.ask(address, SHARE_FETCH, row, self.patience_s)
        except NoAnswer:
            self._lose(address)
            return
        expected = (Code.INVALID_SHARE_SESSION_EPOCH, Code.SHARE_SESSION_NOT_FOUND)
        if answer.error_code not in expected:
            self._wrong(
                f"session epoch {link.epoch} is next, a later one is answered with "
                f"{Code(answer.error_code).name}"
            )

    async def _acknowledge_strange_offset(self, address: Address) -> None:
        """Acknowledge a record that any member was given."""
        link = self.links[address]
        places = [place for place in self.notes.values if place[0] in link.partitions]
        if link.epoch == OPENS or not places:
            return
        partition, offset = self.random.choice(places[-20:])
        if any(
            each.partition == partition and each.first <= offset <= each.last for each in link.held
        ):
            return
        held = Held(partition, offset, offset)
        await self._acknowledge(address, link, [(held, Kind.ACCEPT)], is_strange=True)

    # consuming

    async def _consume(self) -> None:
        """Ask each broker that leads an assigned partition, or with which there is a session."""
        wanted: dict[Address, set[int]] = defaultdict(set)
        for partition in sorted(self.assigned):
            wanted[(await self.client.leader(self.topic, partition)).address].add(partition)
        await self.client.topic_id(self.topic)
        for address in sorted(wanted.keys() | self.links.keys()):
            link = self.links.get(address)
            if link is None:
                link = self.links[address] = Link(Session(self.member_id, address))
            if not wanted[address] and not link.held:
                self._lose(address)
                continue
            given_up = self._choose(link)
            renews = any(kind is Kind.RENEW for _, kind in given_up)
            if given_up and (renews or self.random.random() < ALONE):
                await self._acknowledge(address, link, given_up)
            else:
                await self._fetch(address, link, wanted[address], given_up, link.epoch)

    def _choose(self, link: Link) -> list[tuple[Held, Kind]]:
        """Take some of the held records, and decide what becomes of each."""
        chosen: list[tuple[Held, Kind]] = []
        kept: list[Held] = []
        for held in link.held:
            choice: Kind | str = Kind.ACCEPT
            if (held.partition, held.first) in self.notes.markers:
                choice = Kind.GAP
            elif not self.over:
                (choice,) = self.random.choices(list(CHOICES), list(CHOICES.values()))
                if held.first < held.last and self.random.random() < CUT:
                    cut = self.random.randint(held.first, held.last - 1)
                    kept.append(held._replace(first=cut + 1))
                    held = held._replace(last=cut)
            if isinstance(choice, Kind):
                chosen.append((held, choice))
            elif choice == KEEP:
                kept.append(held)
        link.held = sorted(kept)
        return sorted(chosen)

    def _lose(self, address: Address) -> None:
        link = self.links.pop(address, None)
        if link is not None:
            link.session.is_over = True

    async def _fetch(
        self,
        address: Address,
        link: Link,
        wanted: set[int],
        given_up: Sequence[tuple[Held, Kind]],
        epoch: int,
    ) -> None:
        """Acknowledge these records, and fetch from the wanted partitions."""
        topic_id = await self.client.topic_id(self.topic)
        forgotten = link.partitions - wanted if epoch != CLOSES else set()
        batches = self._batches(given_up)
        asked = {partition: batches.get(partition, []) for partition in wanted - link.partitions}
        row = self._fetch_row(epoch, asked | batches, forgotten - batches.keys(), topic_id)
        link.partitions = wanted | batches.keys()
        now, notes = self.now, self.notes
        fetches = {
            partition: Fetch(link.session, (self.topic, partition), now)
            for partition in sorted(link.partitions)
            if epoch != CLOSES
        }
        told = self._told(link, given_up)
        notes.on_asked(fetches.values(), told)
        terms = {partition: notes.term_of(address, partition) for partition in fetches}
        try:
            answer = await self.client.ask(address, SHARE_FETCH, row, self.patience_s)
        except NoAnswer:
            await self._lose_leader(address)
            return
        if answer.error_code:
            self._refused(address, answer.error_code)
            if answer.error_code == Code.SHARE_SESSION_NOT_FOUND:
                for fetch in fetches.values():
                    fetch.answered_at = self.now
                notes.on_answered(fetches.values(), told)
            return
        if epoch != CLOSES:
            link.epoch, link.session.alive_at = link.epoch + 1, self.now
        if fetches and answer.acquisition_lock_timeout_ms != notes.lock_ms:
            self._wrong(f"locks are to last {answer.acquisition_lock_timeout_ms} ms")
        data = {
            each.partition_index: each for topic in answer.responses for each in topic.partitions
        }
        self._settle(link, told, {p: each.acknowledge_error_code for p, each in data.items()})
        for partition, fetch in fetches.items():
            found = data.get(partition)
            code = Code(found.error_code) if found is not None else Code.NONE
            if code is Code.NONE or code in LEADER_IS_GONE or code in STATE_IS_AWAY:
                fetch.answered_at = self.now
            else:
                self._wrong(f"a fetch from {self.topic}-{partition} is refused with {code.name}")
            if found is not None and code is Code.NONE:
                same = notes.term_of(address, partition) == terms[partition]
                fetch.term = terms[partition] if same else None
                self._take(link, fetch, found)
        notes.on_answered(fetches.values(), told)
        gone = {p: each.error_code or each.acknowledge_error_code for p, each in data.items()}
        await self._forget_leaders(link, gone)

    def _take(self, link: Link, fetch: Fetch, found: PartitionData) -> None:
        """Note the records that the answer gives."""
        partition = fetch.place[1]
        acquired = [
            Acquired(each.first_offset, each.last_offset, each.delivery_count)
            for each in found.acquired_records
        ]
        fetch.acquired = acquired
        values: dict[int, bytes] = {}
        for header, batch in iterate(memoryview(found.records or b"")):
            if header.attributes & CONTROL:
                self.notes.markers.add((partition, header.base_offset))
            else:
                values |= {each.offset: each.value or b"" for each in records_of(batch)}
        for first, last, _ in acquired:
            for offset in range(first, last + 1):
                if (partition, offset) in self.notes.markers:
                    link.held.append(Held(partition, offset, offset))
                    continue
                before = link.held[-1] if link.held else None
                if before is not None and offset > first and before.last == offset - 1:
                    link.held[-1] = before._replace(last=offset)
                else:
                    link.held.append(Held(partition, offset, offset))
                value = values.get(offset)
                if (
                    value is None
                    or self.notes.values.setdefault((partition, offset), value) != value
                ):
                    self._wrong(f"{self.topic}-{partition} at {offset} is delivered as {value!r}")
        link.held.sort()

    async def _acknowledge(
        self,
        address: Address,
        link: Link,
        given_up: Sequence[tuple[Held, Kind]],
        *,
        is_strange: bool = False,
    ) -> None:
        request, topic_id = SHARE_ACKNOWLEDGE.request, await self.client.topic_id(self.topic)
        batches = self._batches(given_up)
        partitions = [
            request.topics.partitions(
                partition_index=partition,
                acknowledgement_batches=[
                    request.topics.partitions.acknowledgement_batches(
                        first_offset=first, last_offset=last, acknowledge_types=types
                    )
                    for first, last, types in rows
                ],
            )
            for partition, rows in batches.items()
        ]
        row = request(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=link.epoch,
            is_renew_ack=any(kind is Kind.RENEW for _, kind in given_up),
            topics=[request.topics(topic_id=topic_id, partitions=partitions)],
        )
        told = self._told(link, given_up)
        self.notes.on_asked((), told)
        try:
            answer = await self.client.ask(address, SHARE_ACKNOWLEDGE, row, self.patience_s)
        except NoAnswer:
            await self._lose_leader(address)
            return
        if answer.error_code:
            self._refused(address, answer.error_code)
            return
        link.epoch, link.session.alive_at = link.epoch + 1, self.now
        codes = {
            each.partition_index: each.error_code
            for topic in answer.responses
            for each in topic.partitions
        }
        self._settle(link, told, codes, is_strange=is_strange)
        self.notes.on_answered((), told)
        await self._forget_leaders(link, codes)

    # questions and answers

    def _batches(
        self, given_up: Sequence[tuple[Held, Kind]]
    ) -> dict[int, list[tuple[int, int, list[int]]]]:
        """Return first, last and types of the acknowledged records, by partition. Types are one for
        all, or one for each offset.
        """
        found: dict[int, list[tuple[int, int, list[int]]]] = {}
        for (partition, first, last), kind in given_up:
            count = self.random.choice((1, last - first + 1))
            found.setdefault(partition, []).append((first, last, [int(kind)] * count))
        return found

    def _fetch_row(
        self,
        epoch: int,
        batches: Mapping[int, Sequence[tuple[int, int, list[int]]]],
        forgotten: Iterable[int],
        topic_id: bytes = bytes(16),
    ) -> ShareFetchRequest:
        request = SHARE_FETCH.request
        partitions = [
            request.topics.partitions(
                partition_index=partition,
                acknowledgement_batches=[
                    request.topics.partitions.acknowledgement_batches(
                        first_offset=first, last_offset=last, acknowledge_types=types
                    )
                    for first, last, types in rows
                ],
            )
            for partition, rows in sorted(batches.items())
        ]
        left = [request.forgotten_topics_data(topic_id=topic_id, partitions=sorted(forgotten))]
        return request(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=epoch,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            max_records=self.max_records,
            batch_size=self.batch_size,
            share_acquire_mode=self.random.choice((BATCHES, EXACT)),
            topics=[request.topics(topic_id=topic_id, partitions=partitions)] if partitions else [],
            forgotten_topics_data=left if left[0].partitions else [],
        )

    def _told(self, link: Link, given_up: Sequence[tuple[Held, Kind]]) -> list[Acknowledgement]:
        return [
            Acknowledgement(link.session, (self.topic, partition), kind, first, last, self.now)
            for (partition, first, last), kind in given_up
        ]

    def _settle(
        self,
        link: Link,
        told: Sequence[Acknowledgement],
        codes: Mapping[int, int],
        *,
        is_strange: bool = False,
    ) -> None:
        """Note the answers to acknowledgements. `codes`: by partition."""
        for each in told:
            partition = each.place[1]
            if partition not in codes:
                self._wrong(
                    f"an acknowledgement of {self.topic}-{partition} has no answer of its own"
                )
                continue
            code = Code(codes[partition])
            each.answered_at = self.now
            if code is Code.NONE:
                each.outcome = Outcome.TAKEN
                if each.kind is Kind.ACCEPT and not is_strange:
                    self.notes.accepted[partition] += each.last + 1 - each.first
                if each.kind is Kind.RENEW:
                    link.held.append(Held(partition, each.first, each.last))
            elif code in NO_EFFECT:
                each.outcome = Outcome.REFUSED
            elif code not in LEADER_IS_GONE | STATE_IS_AWAY:
                self._wrong(
                    f"an acknowledgement of {self.topic}-{partition} is refused with {code.name}"
                )
        link.held.sort()

    def _refused(self, address: Address, code: int) -> None:
        """Lose the session, which the broker does not know as it is."""
        if code not in (Code.SHARE_SESSION_NOT_FOUND, Code.INVALID_SHARE_SESSION_EPOCH):
            self._wrong(f"{address[0]} refuses with {Code(code).name}")
        self._lose(address)

    async def _lose_leader(self, address: Address) -> None:
        link = self.links.get(address)
        self._lose(address)
        await self.client.lost_leaders(
            (self.topic, each) for each in (link.partitions if link else ())
        )

    async def _forget_leaders(self, link: Link, codes: Mapping[int, int]) -> None:
        """The partition has another leader, which knows nothing of what was held."""
        gone = {partition for partition, code in codes.items() if Code(code) in LEADER_IS_GONE}
        if gone:
            link.held = [each for each in link.held if each.partition not in gone]
            await self.client.lost_leaders((self.topic, each) for each in sorted(gone))
