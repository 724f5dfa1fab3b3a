"""A producer whose transactions follow each other without a pause: it writes to many partitions by
one request, and sends each request that may come between the decision of a transaction and its
markers.

Each session has a transactional id of its own, so that every refusal has a cause or is wrong.
"""

from collections.abc import Sequence

import trio

from raftka.chaos.checks.transactions import Attempt, Place
from raftka.chaos.simulated.clients.client import Client, NoAnswer
from raftka.chaos.simulated.clients.groups import Refused
from raftka.chaos.simulated.clients.transactional import GaveUp, Ledger, TransactionalProducer
from raftka.wire.errors import Code

GROUP = "tx-bursts"
TIMEOUT_MS = 6_000
PAUSE_S = (1.0, 4.0)  # between two sessions
TRANSACTIONS = (1, 5)  # of a session
PLACES = (1, 2, 4, 8, 8)  # partitions of a transaction
COMMITS, OFFSETS = 0.7, 0.2  # chances
# requests that follow an end, by clients of each version
FOLLOWERS_1 = ("next", "again", "other", "init", "offsets")
FOLLOWERS_2 = (*FOLLOWERS_1, "nothing", "nothing", "init again", "older")


class Burst:
    def __init__(
        self, client: Client, ledger: Ledger, name: str, places: Sequence[Place], pace: float
    ) -> None:
        self.client = client
        self.over = self.done = False
        self.ended = 0  # transactions
        self.followed: set[str] = set()  # the requests that it has sent right behind an end
        self._ledger, self._name, self._places, self._pace = ledger, name, places, pace
        self._random = client.runtime.random("burst")
        self._sessions = 0

    async def run(self) -> None:
        random = self._random
        while not self.over:
            self._sessions += 1
            producer = TransactionalProducer(
                self.client, self._ledger, f"{self._name}-{self._sessions}", TIMEOUT_MS
            )
            try:
                await producer.init()
                for _ in range(random.randint(*TRANSACTIONS)):
                    await self._write(producer)
            except (Refused, GaveUp, NoAnswer):
                pass
            await trio.sleep(random.uniform(*PAUSE_S) * self._pace)
        self.done = True

    async def _write(self, producer: TransactionalProducer) -> None:
        random = self._random
        attempt = self._ledger.begin(producer.transactional_id, (self._name, 0))
        places = random.sample(self._places, min(random.choice(PLACES), len(self._places)))
        batches = {
            place: [attempt.value(each, 0) for each in range(random.randint(1, 2))]
            for place in places
        }
        await producer.begin(places)
        attempt.sent.update(batches)
        await producer.produce_together(batches)
        if random.random() < OFFSETS:
            await producer.send_offsets(GROUP, {places[0]: 1})
        await self._end(producer, attempt)

    async def _end(self, producer: TransactionalProducer, attempt: Attempt) -> None:
        commit = self._random.random() < COMMITS
        await producer.end(attempt, commit=commit)
        self.ended += 1
        follower = self._random.choice(FOLLOWERS_2 if producer.is_version_2 else FOLLOWERS_1)
        self.followed.add(follower)
        await self._follow(producer, follower, commit=commit)

    async def _follow(self, producer: TransactionalProducer, how: str, *, commit: bool) -> None:
        """At once. Raises Refused, GaveUp."""
        before, now = producer.before, producer.pair
        match how:
            case "again":
                told = await producer.end_as(before, Code.NONE, commit=commit)
                if producer.is_version_2 and told != now:
                    producer.wrong(f"EndTxn is answered {told} when it is sent again, {now} before")
            case "other":
                await producer.end_as(before, Code.INVALID_TXN_STATE, commit=not commit)
            case "older":
                await producer.end_as(
                    (before[0], before[1] - 1), Code.PRODUCER_FENCED, commit=commit
                )
            case "nothing":
                await producer.abort_nothing()
            case "init":
                if (told := await producer.init_as(now)) != (now[0], now[1] + 1):
                    producer.wrong(f"InitProducerId of {now} is answered {told}")
            case "init again":
                if (told := await producer.init_as(before)) != now:
                    producer.wrong(
                        f"InitProducerId of {before}, whose answer may have been lost, is "
                        f"answered {told} instead of {now}"
                    )
            case "offsets":
                attempt = self._ledger.begin(producer.transactional_id, (self._name, 0))
                await producer.send_offsets(GROUP, {self._places[0]: 1})
                await producer.end(attempt, commit=True)
