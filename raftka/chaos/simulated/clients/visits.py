"""One connection of a user who logs in with SCRAM. The broker lets it in or refuses it, and then
answers by the user's rights.
"""

from random import Random

import trio

from raftka.chaos.simulated.clients.client import (
    REQUEST_S,
    Address,
    NoAnswer,
    only_partition,
    produce_row,
)
from raftka.chaos.simulated.clients.shapes import PLAIN
from raftka.client.connection import Secured, open_connection
from raftka.runtime.interfaces import Runtime
from raftka.security import acls
from raftka.security.client_security import ClientSecurity
from raftka.wire.errors import Code
from raftka.wire.messages.fetch import FETCH
from raftka.wire.messages.produce import PRODUCE
from raftka.wire.records import build_batch
from raftka.wire.schema import Api, Req, Resp

PROTOCOL, MECHANISM = "SASL_PLAINTEXT", "SCRAM-SHA-256"
REFUSED = f"authentication with {MECHANISM}: Authentication failed"


class Visit:
    def __init__(
        self, runtime: Runtime, address: Address, user: str, password: str, random: Random
    ) -> None:
        self._runtime = runtime
        self._answered = trio.Event()
        self._reason: str | None = None
        login = ClientSecurity(PROTOCOL, MECHANISM, user, password).login(random)
        self._connection = open_connection(
            runtime.network,
            address,
            user,
            self._answered.set,
            on_closed=self._closed,
            secured=Secured(login),
        )

    def _closed(self, reason: str) -> None:
        self._reason = reason
        self._answered.set()

    async def let_in(self) -> bool:
        """Raises NoAnswer, also if the connection broke for another reason."""
        with trio.move_on_after(REQUEST_S):
            await self._answered.wait()
        if self._connection.ready:
            return True
        self.leave()
        if self._reason is None or not self._reason.startswith(REFUSED):
            raise NoAnswer
        return False

    async def use(self, operation: int, topic: str) -> tuple[bool, bool]:
        """Write a record or read one; whether that is allowed, and whether the client is told to
        wait. Raises NoAnswer.
        """
        if operation == acls.WRITE:
            batch = build_batch(
                [(None, b"written by a visitor", (), self._runtime.clock.wall_ms())]
            )
            written = await self._ask(PRODUCE, produce_row(topic, 0, batch, acks=1))
            return only_partition(
                PRODUCE, written
            ).error_code != Code.TOPIC_AUTHORIZATION_FAILED, written.throttle_time_ms > 0
        row = FETCH.request.topics
        asked = row(topic=topic, partitions=[row.partitions(partition=0, partition_max_bytes=100)])
        read = await self._ask(FETCH, FETCH.request(max_bytes=100, topics=[asked]))
        return only_partition(
            FETCH, read
        ).error_code != Code.TOPIC_AUTHORIZATION_FAILED, read.throttle_time_ms > 0

    async def _ask(self, api: Api[Req, Resp], row: Req) -> Resp:
        answered = trio.Event()
        answers: list[Resp | None] = []

        def on_reply(answer: Resp | None, _: str | None) -> None:
            answers.append(answer)
            answered.set()

        self._connection.request(api, row, on_reply, PLAIN.version(api))
        with trio.move_on_after(REQUEST_S):
            await answered.wait()
        answer = answers[0] if answers else None
        if answer is None:
            self.leave()
            raise NoAnswer
        return answer

    def leave(self) -> None:
        self._connection.close("the visit is over")
