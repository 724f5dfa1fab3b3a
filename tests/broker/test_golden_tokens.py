"""Delegation tokens of a secured Apache Kafka 4.3.1, recorded in golden_tokens.jsonl and asked for
again, by the same users in the same order.

Ids and HMACs are made anew by every cluster: those of the recording stand for ours. Times are
compared as seconds from the creation of their token. Answers to DescribeDelegationToken are
compared by the tokens of these exchanges: the recorded broker had others too, and some were not
there yet.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from raftka.security import acls
from raftka.security.acls import ALLOW, LITERAL, Acl
from raftka.wire.messages.delegation_tokens import (
    CREATE_DELEGATION_TOKEN,
    DESCRIBE_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
)
from tests.broker.golden import Exchange
from tests.broker.golden_tokens import EXCHANGES, SETTINGS
from tests.broker.rights import create_acls, delete_acl
from tests.broker.sasl import log_in
from tests.broker.stage import Stage, Wire, decoded
from tests.broker.tokens import with_token

APIS: dict[int, Any] = {
    api.key: api
    for api in (
        CREATE_DELEGATION_TOKEN,
        DESCRIBE_DELEGATION_TOKEN,
        EXPIRE_DELEGATION_TOKEN,
        RENEW_DELEGATION_TOKEN,
    )
}
TIMES = (
    "issue_timestamp_ms",
    "expiry_timestamp_ms",
    "max_timestamp_ms",
    "issue_timestamp",
    "expiry_timestamp",
    "max_timestamp",
)


class Replay:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.ours: dict[bytes, bytes] = {}  # ids and HMACs, by the recorded ones
        # when a token was made, by its id: of the recording, and ours
        self.began: dict[bool, dict[bytes, int]] = {True: {}, False: {}}
        self.first: Any = None

    def wire(self, principal: str) -> Wire:
        if principal.endswith("(token)"):
            return with_token(self.stage, self.first)
        wire, name = Stage.wire(self.stage), principal.removeprefix("User:")
        assert log_in(wire, "PLAIN", name, f"{name}-secret").error_code == 0
        return wire

    def ask(self, exchange: Exchange) -> tuple[Any, Any]:
        """The recorded answer and ours."""
        assert exchange.request is not None
        assert exchange.response is not None
        assert exchange.principal is not None
        frame = bytes.fromhex(exchange.request)
        for theirs, mine in self.ours.items():
            frame = frame.replace(theirs, mine)
        wire, api = self.wire(exchange.principal), APIS[exchange.key]
        wire.send_frame(frame)
        data = wire.frame()
        assert data is not None
        recorded_row = decoded(api, exchange.version, bytes.fromhex(exchange.response))
        row = decoded(api, exchange.version, data)
        wire.close()
        if (
            exchange.key == CREATE_DELEGATION_TOKEN.key
            and not row.error_code
            and not recorded_row.error_code
        ):
            self._made(recorded_row, row)
        return recorded_row, row

    def _made(self, theirs: Any, mine: Any) -> None:
        self.first = self.first or mine
        self.ours |= {
            theirs.token_id.encode(): mine.token_id.encode(),
            bytes(theirs.hmac): bytes(mine.hmac),
        }
        self.began[True][theirs.token_id.encode()] = theirs.issue_timestamp_ms
        self.began[False][mine.token_id.encode()] = mine.issue_timestamp_ms

    def shown(self, row: Any, *, is_recorded: bool, began_ms: int | None = None) -> dict[str, Any]:
        """Return the fields of a row that are compared."""
        found: dict[str, Any] = {}
        token_id = getattr(row, "token_id", "").encode()
        began_ms = self.began[is_recorded].get(token_id, began_ms)
        for field in row.struct.fields:
            value = getattr(row, field.name)
            if field.name in TIMES and value > 0:
                value = (
                    round((value - (began_ms or 0)) / 1000) if began_ms is not None else "a time"
                )
            elif field.name == "token_id" and is_recorded:
                value = self.ours.get(token_id, token_id).decode()
            elif field.name == "hmac":
                value = self.ours.get(bytes(value), bytes(value)) if is_recorded else bytes(value)
            elif field.name == "tokens":
                known = self.ours if is_recorded else self.ours.values()
                rows = [each for each in value if each.token_id.encode() in known]
                value = {
                    each["token_id"]: each
                    for each in (self.shown(row, is_recorded=is_recorded) for row in rows)
                }
            elif field.name == "renewers":
                value = sorted((each.principal_type, each.principal_name) for each in value)
            found[field.name] = value
        return found


def right(resource_type: int, name: str, principal: str, operation: int) -> Acl:
    return Acl(resource_type, name, LITERAL, principal, "*", operation, ALLOW)


@pytest.fixture
def replay() -> Iterator[Replay]:
    with Stage(**SETTINGS) as stage:
        yield Replay(stage)
        assert not stage.world.failures


def prepare(replay: Replay, n: int) -> None:
    """Do what the administrator did before an exchange, as its comment says."""
    stage = replay.stage
    match n:
        case 686:
            assert create_acls(
                stage, right(acls.USER, "User:bob", "User:alice", acls.CREATE_TOKENS)
            ) == [0]
        case 693:
            assert create_acls(
                stage,
                right(acls.DELEGATION_TOKEN, replay.first.token_id, "User:pat", acls.DESCRIBE),
            ) == [0]
        case 694:
            assert (
                delete_acl(
                    stage,
                    right(acls.DELEGATION_TOKEN, replay.first.token_id, "User:pat", acls.DESCRIBE),
                )
                == 1
            )
            assert create_acls(
                stage, right(acls.USER, "User:alice", "User:pat", acls.DESCRIBE_TOKENS)
            ) == [0]
        case 701:
            stage.world.run(stage.world.now + 1)  # the token of 300 ms ends


def test_answers_about_tokens_are_kafkas(replay: Replay) -> None:
    different: dict[int, Any] = {}
    for exchange in EXCHANGES:
        prepare(replay, exchange.n)
        recorded_row, row = replay.ask(exchange)
        theirs = replay.shown(recorded_row, is_recorded=True)
        mine = replay.shown(row, is_recorded=False)
        if "tokens" in theirs:
            missing = theirs["tokens"].keys() - mine["tokens"].keys()
            both = theirs["tokens"].keys() & mine["tokens"].keys()
            theirs["tokens"], mine["tokens"] = (
                {key: each[key] for key in both} for each in (theirs["tokens"], mine["tokens"])
            )
            if missing:
                different[exchange.n] = missing
        if theirs != mine:
            different[exchange.n] = {
                name: (theirs[name], mine[name]) for name in theirs if theirs[name] != mine[name]
            }

    assert different == {}


def test_exactly_these_tokens_are_seen(replay: Replay) -> None:
    for exchange in EXCHANGES:
        prepare(replay, exchange.n)
        recorded_row, row = replay.ask(exchange)
        if exchange.n in {691, 692, 693}:
            theirs = replay.shown(recorded_row, is_recorded=True)
            mine = replay.shown(row, is_recorded=False)
            assert (
                theirs["tokens"].keys()
                == mine["tokens"].keys()
                == {each.token_id for each in row.tokens}
            )
