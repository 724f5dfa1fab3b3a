"""Logins at a secured Apache Kafka 4.3.1, recorded in golden_security.jsonl and played again:
PLAIN, SCRAM, re-authentication, and strangers.

Nonces of servers are random, so messages of SCRAM are translated: where the recorded client had
sent the right proof for its message, ours does too. Answers are compared field by field, and
whether the connection ended. What differs stands in LOGINS with its reason, and in
docs/compatibility.md.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from raftka.security.scram import NUMBERS
from raftka.wire.frame import decode_request_header
from raftka.wire.messages.sasl import SASL_AUTHENTICATE, SASL_HANDSHAKE
from raftka.wire.messages.scram import ALTER_USER_SCRAM_CREDENTIALS
from tests.broker import tls
from tests.broker.golden import (
    Differences,
    Exchange,
    Replay,
    all_found,
    not_meant,
    numbers_of,
    recorded,
)
from tests.broker.golden_logins import SAME, proof, server_signature
from tests.broker.sasl import SECURE, authenticate, logged_in
from tests.broker.stage import Stage, Wire
from tests.kit.broker.kafka_differences import LOGINS

EXCHANGES = [
    each
    for each in recorded(Path(__file__).parent / "golden_security.jsonl")
    if each.n < 307 or each.n > 743
]
BY_NUMBER = {exchange.n: exchange for exchange in EXCHANGES}
# bytes that were sent as one frame; those of the others are the connection's first
FRAMES = (32, 33, 78, 80)
SCRAM = "SCRAM-SHA-256"
SESSIONS_END = range(274, 305)  # on a listener with connections.max.reauth.ms=3000
OVER_TLS = range(173, 176)  # on a listener with SASL_SSL

# Which connection an exchange is on. A new one begins with a SaslHandshake that nobody recorded, or
# as alice, or bare.
GOES_ON = {
    3,
    5,
    7,
    8,
    22,
    *range(74, 78),
    79,
    174,
    *range(275, 284),
    *range(285, 290),
    291,
    292,
    295,
    297,
    298,
    301,
    304,
}
HANDSHAKES = {
    **dict.fromkeys((24, 26, 28, 30, 32, *range(43, 74), 303), ("PLAIN", 1)),
    **dict.fromkeys((33, 78, 80), ("PLAIN", 0)),
    **dict.fromkeys((81, *range(85, 155)), (SCRAM, 1)),
    83: ("SCRAM-SHA-512", 1),
}
AS_ALICE = (290, 294, 296, 300, 745)
# before the exchange
PAUSES_S = {278: 1.1, 283: 3.1, 287: 3.1, 290: 1.1, 294: 1.1, 296: 1.1, 300: 1.1, 304: 3.1}


def salted_passwords() -> dict[tuple[str, str], bytes]:
    """Of the recorded users, by name and mechanism."""
    frame = memoryview(bytes.fromhex(BY_NUMBER[1].request or ""))
    _, position = decode_request_header(frame, flexible=True)
    row, _ = ALTER_USER_SCRAM_CREDENTIALS.decode_request(0, frame, position)
    return {
        (each.name, NUMBERS[each.mechanism]): bytes(each.salted_password) for each in row.upsertions
    }


SALTED = salted_passwords()


class Scram:
    """A recorded login and ours, side by side."""

    def __init__(self, mechanism: str, client_first: str) -> None:
        self.mechanism = mechanism
        self.bare = client_first.split(",", 2)[2] if client_first.count(",") > 1 else ""
        found = re.search(r"(?:^|,)n=([^,]*)", self.bare)
        name = found[1].replace("=2C", ",").replace("=3D", "=") if found is not None else ""
        self.salted = SALTED.get((name, mechanism), b"")
        self.recorded = self.ours = ""  # the server's first messages
        self.signature = b""  # of our server, when our proof is right

    def translated(self, client_final: str) -> str:
        """The recorded client's last message with our server's nonce, and with a proof that is
        right if the recorded one was.
        """
        theirs, mine = (
            text.split(",")[0].removeprefix("r=") for text in (self.recorded, self.ours)
        )
        if ",p=" not in client_final:
            return client_final
        bare, sent = client_final.rsplit(",p=", 1)
        was_right = sent == proof(
            self.mechanism, self.salted, f"{self.bare},{self.recorded},{bare}"
        )
        bare = bare.replace(theirs, mine)
        message = f"{self.bare},{self.ours},{bare}"
        self.signature = server_signature(self.mechanism, self.salted, message)
        return f"{bare},p={proof(self.mechanism, self.salted, message) if was_right else sent}"


class LoginReplay(Replay):
    def __init__(self, stage: Stage, exchanges: list[Exchange]) -> None:
        super().__init__(stage, exchanges, {})
        self.wire = stage.wire()
        self.scram: Scram | None = None
        self.mechanism = SCRAM
        self.alice = self.wire

    def run(self) -> dict[int, Differences]:
        return {exchange.n: self.answer(exchange) for exchange in self.exchanges}

    def answer(self, exchange: Exchange) -> Differences:
        n = exchange.n
        self.begin(n, exchange)
        if n in PAUSES_S:
            self.stage.world.run(self.stage.world.now + PAUSES_S[n])
        if exchange.key < 0:
            return self.bytes_of(exchange)
        self.wire.send_frame(self.request(exchange))
        found = self.compare(exchange, data := self.wire.frame())
        if (
            exchange.closes
            and data is not None
            and not self.stage.world.run(lambda: self.wire.close_reason is not None, at_most_s=5.0)
        ):
            found["closes"] = True, False
        return found

    def begin(self, n: int, exchange: Exchange) -> None:
        """The connection of an exchange, and what was sent there before it."""
        if n in GOES_ON or exchange.comment.endswith("client-final"):
            return
        if n in (1, 744):
            self.alice = self.as_alice() if n == 744 else self.alice
            self.wire = logged_in(self.stage)
            return
        if n in AS_ALICE:
            self.wire = self.alice if n == 745 else self.as_alice()
            return
        self.wire = self.stage.wire()
        if n in HANDSHAKES:
            self.mechanism, version = HANDSHAKES[n]
            assert (
                self.wire.ask(
                    SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=self.mechanism), version
                ).error_code
                == 0
            )
        if n == 154:
            authenticate(self.wire, b"n,,n=alice,r=first")

    def as_alice(self) -> Wire:
        wire = self.stage.wire()
        wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=SCRAM))
        self.mechanism = SCRAM
        first = bytes(authenticate(wire, b"n,,n=alice,r=ours").auth_bytes).decode()
        bare = f"c=biws,{first.split(',')[0]}"
        final = f"{bare},p={proof(SCRAM, SALTED['alice', SCRAM], f'n=alice,r=ours,{first},{bare}')}"
        assert authenticate(wire, final.encode()).error_code == 0
        return wire

    def bytes_of(self, exchange: Exchange) -> Differences:
        data = bytes.fromhex(exchange.request or "")
        if exchange.n in FRAMES:
            self.wire.send_frame(data)
        else:
            self.wire.send(data)
        came = self.wire.frame()
        expected = bytes.fromhex(exchange.response) if exchange.response is not None else None
        return {} if came == expected else {"outcome": (expected, came)}

    # messages of SCRAM

    def request(self, exchange: Exchange) -> bytes:
        data = super().request(exchange)
        if exchange.key != SASL_AUTHENTICATE.key:
            return data
        frame = memoryview(data)
        _, position = decode_request_header(
            frame, flexible=exchange.version in SASL_AUTHENTICATE.flexible
        )
        row, _ = SASL_AUTHENTICATE.decode_request(exchange.version, frame, position)
        token = bytes(row.auth_bytes)
        if not exchange.comment.endswith("client-final"):
            self.scram = Scram(self.mechanism, token.decode(errors="replace"))
            return data
        assert self.scram is not None
        row.auth_bytes = self.scram.translated(token.decode()).encode()
        return data[:position] + SASL_AUTHENTICATE.encode_request(exchange.version, row)

    def same(self, path: str, name: str, recorded: Any, ours: Any) -> bool:
        if name == "auth_bytes" and recorded and ours and self.scram is not None:
            return self.same_message(bytes(recorded).decode(), bytes(ours))
        return super().same(
            path,
            name,
            SAME.get(recorded, recorded) if isinstance(recorded, str | int) else recorded,
            ours,
        )

    def same_message(self, recorded: str, ours: bytes) -> bool:
        """The first message of a server: another nonce behind the client's, same salt and
        iterations; its last: its signature.
        """
        scram = self.scram
        assert scram is not None
        if recorded.startswith("v="):
            return ours == scram.signature
        scram.recorded, scram.ours = recorded, ours.decode()
        (nonce, *rest), (own, *own_rest) = recorded.split(","), scram.ours.split(",")
        client = scram.bare.split("r=", 1)[1].split(",")[0]
        return (
            own.startswith(f"r={client}")
            and len(own) >= len(f"r={client}") + 20
            and own != nonce
            and rest == own_rest
        )


@cache
def replayed() -> dict[int, Differences]:
    found: dict[int, Differences] = {}
    ended, over_tls = (
        [each for each in EXCHANGES if each.n in numbers] for numbers in (SESSIONS_END, OVER_TLS)
    )
    with Stage(**SECURE) as stage:
        found |= LoginReplay(
            stage, [each for each in EXCHANGES if each not in ended and each not in over_tls]
        ).run()
    with Stage(**SECURE, connections_max_reauth_ms="3000") as stage:
        found |= LoginReplay(stage, [BY_NUMBER[1], *ended]).run()
    with Stage(
        **{
            **tls.SECURE,
            **SECURE,
            "listener_security_protocol_map": "PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT",
        }
    ) as stage:
        stage.wire = lambda node_id=1: tls.tls_wire(stage, node_id=node_id)  # type: ignore[method-assign]
        found |= LoginReplay(stage, [BY_NUMBER[1], *over_tls]).run()
    return found


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    assert not_meant(LOGINS, exchange.n, replayed()[exchange.n]) == {}, exchange.comment


@pytest.mark.parametrize("n", numbers_of(LOGINS))
def test_what_is_said_to_differ_does(n: int) -> None:
    assert all_found(LOGINS, n, replayed()[n])
