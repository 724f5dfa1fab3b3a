"""Logins with tokens of an issuer at a secured Apache Kafka 4.3.1, recorded in golden_oauth.jsonl
and played again with tokens of our issuer.

The recorded issuer's key is not there, so each token is made anew: the same header and claims,
times as far from now as they were, and a signature of the same kind: right, cut, made with the
public key as a secret, or none. What differs stands in TOKENS_OF_ISSUERS with its reason.
"""

import json
import re
from base64 import urlsafe_b64decode
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from raftka.wire.frame import decode_request_header
from raftka.wire.messages.sasl import SASL_AUTHENTICATE
from tests.broker.golden import (
    Differences,
    Exchange,
    Replay,
    all_found,
    not_meant,
    numbers_of,
    recorded,
)
from tests.broker.oauth import TRUSTING, begun, now_s, stage_with_keys
from tests.broker.stage import Stage
from tests.kit.broker.kafka_differences import TOKENS_OF_ISSUERS
from tests.security.issuer import base64, signature

EXCHANGES = recorded(Path(__file__).parent / "golden_oauth.jsonl")
TOKEN = re.compile(rb"(?i)(?<=auth=bearer )[\w-]+\.[\w-]+\.[\w-]*")
GOES_ON = (182, 262)  # and every %x01
UNSECURED = range(263, 273)  # on a listener that takes tokens without a signature
BEGAN_S = 1795409453  # the recorded clock, at the first exchange
TIMES = ("iat", "exp", "nbf")


class TokenReplay(Replay):
    def __init__(self, stage: Stage, exchanges: list[Exchange]) -> None:
        super().__init__(stage, exchanges, {})
        self.wire = stage.wire()
        self.recorded_s = BEGAN_S  # what the recorded clock was about

    def run(self) -> dict[int, Differences]:
        return {exchange.n: self.answer(exchange) for exchange in self.exchanges}

    def answer(self, exchange: Exchange) -> Differences:
        if exchange.n not in GOES_ON and not exchange.comment.endswith("%x01"):
            self.wire = begun(self.stage)
        self.wire.send_frame(self.request(exchange))
        found = self.compare(exchange, data := self.wire.frame())
        if (
            exchange.closes
            and data is not None
            and not self.stage.world.run(lambda: self.wire.close_reason is not None, at_most_s=5.0)
        ):
            found["closes"] = True, False
        return found

    def request(self, exchange: Exchange) -> bytes:
        data = super().request(exchange)
        if exchange.key != SASL_AUTHENTICATE.key:
            return data
        _, position = decode_request_header(memoryview(data), flexible=True)
        row, _ = SASL_AUTHENTICATE.decode_request(exchange.version, memoryview(data), position)
        row.auth_bytes = TOKEN.sub(
            lambda found: self.made_anew(found[0].decode()).encode(), bytes(row.auth_bytes)
        )
        return data[:position] + SASL_AUTHENTICATE.encode_request(exchange.version, row)

    def made_anew(self, token: str) -> str:
        head, body, sealed = token.split(".")
        try:
            header, claims = (json.loads(urlsafe_b64decode(part + "==")) for part in (head, body))
        except ValueError:
            return token
        if BEGAN_S <= claims.get("iat", 0) < BEGAN_S + 60:
            self.recorded_s = claims["iat"]
        later_s = int(now_s(self.stage)) - self.recorded_s
        moved = {
            name: value + later_s if name in TIMES else value for name, value in claims.items()
        }
        text = f"{head}.{base64(json.dumps(moved).encode())}"
        made = base64(signature(text.encode(), header["alg"]))
        return f"{text}.{made[: len(sealed)] or sealed}"

    def same(self, path: str, name: str, recorded: Any, ours: Any) -> bool:
        if name == "session_lifetime_ms":
            return bool((recorded > 0) == (ours > 0) and abs(recorded - ours) < 4000)
        return super().same(path, name, recorded, ours)


@cache
def replayed() -> dict[int, Differences]:
    found: dict[int, Differences] = {}
    with stage_with_keys() as stage:
        found |= TokenReplay(stage, [each for each in EXCHANGES if each.n not in UNSECURED]).run()
        assert not stage.world.failures
    with Stage(**TRUSTING) as stage:
        found |= TokenReplay(stage, [each for each in EXCHANGES if each.n in UNSECURED]).run()
        assert not stage.world.failures
    return found


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    assert not_meant(TOKENS_OF_ISSUERS, exchange.n, replayed()[exchange.n]) == {}, exchange.comment


@pytest.mark.parametrize("n", numbers_of(TOKENS_OF_ISSUERS))
def test_what_is_said_to_differ_does(n: int) -> None:
    assert all_found(TOKENS_OF_ISSUERS, n, replayed()[n])
