"""A group without members whose offsets are committed, deleted one by one, and forgotten with the
group: what is told is what is left.

One client alone does all of it. An answer that says nothing certain leaves several offsets
possible, until the coordinator tells one of them.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from raftka.chaos.simulated.clients.client import Address, Client
from raftka.chaos.simulated.clients.groups import PASSES, TOPIC, GroupClient, Place, Story
from raftka.wire.errors import Code
from raftka.wire.messages.groups import DELETE_GROUPS
from raftka.wire.messages.offsets import OFFSET_DELETE

PARTITIONS = 4
NO_SUCH = (TOPIC, 99)  # partition
NONE = -1
PAUSE_S = (0.02, 0.2)
DOUBTS = 8  # with more of them it takes another group
NOT_THERE = (Code.GROUP_ID_NOT_FOUND, Code.NONE)


class Forgetful(GroupClient):
    def __init__(self, client: Client, story: Story, name: str) -> None:
        super().__init__(client, story, name)
        self._name, self._groups, self._last = name, 0, 0
        self._known: dict[Place, set[int]] = defaultdict(lambda: {NONE})  # what may be told of each
        # asked for without an answer: may still come at any time
        self._late: dict[Place, Counter[int]] = defaultdict(Counter)

    async def serve(self, where: Address) -> None:
        while not self.over:
            if sum(each.total() for each in self._late.values()) > DOUBTS:
                self._another_group()
                return
            do = self.random.choice(
                (
                    self._commit,
                    self._commit,
                    self._fetch_offsets,
                    self._fetch_offsets,
                    self._delete,
                    self._delete_offsets,
                )
            )
            await do(
                where,
                [
                    (TOPIC, each)
                    for each in self.random.sample(
                        range(PARTITIONS), self.random.randint(1, PARTITIONS)
                    )
                ],
            )
            await self.pause(PAUSE_S)

    def _another_group(self) -> None:
        self._groups += 1
        self.group = f"{self._name}.{self._groups}"
        self._known.clear()
        self._late.clear()

    def _asks(self, places: Sequence[Place], offset: int) -> None:
        for place in places:
            self._known[place].add(offset)
            self._late[place][offset] += 1

    def _told(self, place: Place, code: int, offset: int) -> None:
        """The commit was answered: it has no later effect."""
        self._late[place] -= Counter([offset])
        if code == Code.NONE:
            self._known[place] = {offset}

    async def _commit(self, where: Address, places: Sequence[Place]) -> None:
        self._last += 1
        self._asks(places, self._last)
        wanted = [*places, NO_SUCH] if self.random.random() < 0.2 else places
        codes = await self.ask_to_commit(where, dict.fromkeys(wanted, self._last))
        for place, code in codes.items():
            if place != NO_SUCH:
                self._told(place, code, self._last)
                self.count += code == Code.NONE
            elif code == Code.NONE:
                self.story.wrong.append(
                    f"{self.group} is told that its offset of {place} is committed, which is no "
                    "partition"
                )
        for code in codes.values():
            self._passes(code)

    def _passes(self, code: int) -> None:
        """Raises NoAnswer, Refused."""
        if code in PASSES and code != Code.UNKNOWN_TOPIC_OR_PARTITION:
            self.check(code)
        elif code not in (Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION):
            self.story.wrong.append(f"{self.group} is refused with {Code(code).name}")

    async def _fetch_offsets(self, where: Address, places: Sequence[Place]) -> None:
        everything = self.random.random() < 0.3
        found = await self.ask_for_offsets(where, None if everything else places)
        for place in [(TOPIC, each) for each in range(PARTITIONS)] if everything else places:
            offset = found.get(place, NONE)
            if offset not in self._known[place] | self._late[place].keys():
                known = sorted(self._known[place])
                self.story.wrong.append(
                    f"{self.group} has offset {offset} of {place[0]}-{place[1]}, it must be among "
                    f"{known}"
                )
            self._known[place] = {offset}
        self.count += 1

    async def _delete(self, where: Address, places: Sequence[Place]) -> None:
        request = OFFSET_DELETE.request
        self._asks(places, NONE)
        rows = [request.topics.partitions(partition_index=index) for _, index in places]
        answer = await self.client.ask(
            where,
            OFFSET_DELETE,
            request(group_id=self.group, topics=[request.topics(name=TOPIC, partitions=rows)]),
        )
        codes = {
            (TOPIC, each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }
        for place in places:
            self._told(place, codes.get(place, answer.error_code), NONE)
        self._deleted(answer.error_code)

    async def _delete_offsets(self, where: Address, _: Sequence[Place]) -> None:
        places = list(self._known)
        self._asks(places, NONE)
        (answer,) = (
            await self.client.ask(
                where, DELETE_GROUPS, DELETE_GROUPS.request(groups_names=[self.group])
            )
        ).results
        for place in places:
            self._told(place, answer.error_code, NONE)
        self._deleted(answer.error_code)

    def _deleted(self, code: int) -> None:
        certain = [
            place
            for place, known in self._known.items()
            if NONE not in known | self._late[place].keys()
        ]
        if code == Code.GROUP_ID_NOT_FOUND and certain:
            self.story.wrong.append(
                f"{self.group} is said not to be there, it has an offset of "
                f"{certain[0][0]}-{certain[0][1]}"
            )
        if code != Code.GROUP_ID_NOT_FOUND:
            self._passes(code)
