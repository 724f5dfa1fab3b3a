"""Logins with delegation tokens at a secured Apache Kafka 4.3.1, recorded in
golden_token_logins.jsonl and played again with our tokens.

Where the recorded client had sent the right proof for its message and its token, ours does too.
What differs stands in TOKEN_LOGINS with its reason.
"""

from base64 import b64decode, b64encode
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from raftka.security import acls
from raftka.security.delegation_tokens import password_of
from raftka.security.scram import salted_password
from raftka.wire.frame import decode_request_header
from raftka.wire.messages.delegation_tokens import CREATE_DELEGATION_TOKEN
from raftka.wire.messages.sasl import (
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
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
from tests.broker.golden_tokens import BY_NUMBER, SETTINGS
from tests.broker.rights import admin_of, create_acls, topic_acl
from tests.broker.sasl import log_in
from tests.broker.stage import Stage, Wire, decoded
from tests.broker.tokens import create
from tests.kit.broker.kafka_differences import LATE, TOKEN_LOGINS

EXCHANGES = recorded(Path(__file__).parent / "golden_token_logins.jsonl")
MECHANISMS = {713: "SCRAM-SHA-512"}  # of the others: SCRAM-SHA-256
MADE_BY = (681, 688)  # exchanges that made the tokens: one for a day, one for 300 ms
BY_ALICE, BY_FIRST_TOKEN, GOES_ON = (725,), (712, 728), (724,)
OF_THE_TOPIC = ("records", "high_watermark", "last_stable_offset")  # there it had records


class Password(NamedTuple):
    recorded: str
    ours: str


class Login:
    """A recorded login and ours, side by side."""

    def __init__(
        self, mechanism: str, recorded_first: str, our_first: str, password: Password
    ) -> None:
        self.mechanism = mechanism
        self.password = password
        self.bare = recorded_first.split(",", 2)[2], our_first.split(",", 2)[2]
        self.recorded = self.ours = ""  # the server's first messages
        self.signature = b""  # of our server, when our proof is right

    def translated(self, client_final: str) -> str:
        """With our server's nonce, and with a proof that is right if the recorded one was."""
        bare, sent = client_final.rsplit(",p=", 1)
        was_right = sent == proof(
            self.mechanism,
            self._salted(self.password.recorded, self.recorded),
            f"{self.bare[0]},{self.recorded},{bare}",
        )
        theirs, mine = (
            text.split(",")[0].removeprefix("r=") for text in (self.recorded, self.ours)
        )
        bare = bare.replace(theirs, mine)
        salted = self._salted(self.password.ours, self.ours)
        message = f"{self.bare[1]},{self.ours},{bare}"
        self.signature = server_signature(self.mechanism, salted, message)
        return f"{bare},p={proof(self.mechanism, salted, message) if was_right else sent}"

    def _salted(self, password: str, server_first: str) -> bytes:
        _, salt, iterations = server_first.split(",")
        return salted_password(
            self.mechanism,
            password,
            b64decode(salt.removeprefix("s=")),
            int(iterations.removeprefix("i=")),
        )


class TokenReplay(Replay):
    def __init__(self, stage: Stage) -> None:
        super().__init__(stage, EXCHANGES, {})
        stage.wire = lambda node_id=1: admin_of(stage, node_id)  # type: ignore[method-assign]
        stage.create("open")
        assert create_acls(
            stage, topic_acl(acls.READ, name="open")._replace(principal="User:alice")
        ) == [0]
        self.passwords: dict[str, Password] = {}  # by the recorded ids of their tokens
        for n, life_ms in zip(MADE_BY, (-1, 300), strict=True):
            theirs = decoded(
                CREATE_DELEGATION_TOKEN,
                BY_NUMBER[n].version,
                bytes.fromhex(BY_NUMBER[n].response or ""),
            )
            mine = create(self.alice(), life_ms=life_ms)
            self.ids |= {
                theirs.token_id.encode(): mine.token_id.encode(),
                bytes(theirs.hmac): bytes(mine.hmac),
            }
            self.passwords[theirs.token_id] = Password(
                password_of(bytes(theirs.hmac)), password_of(bytes(mine.hmac))
            )
        stage.world.run(stage.world.now + 1)
        self.current = self.by_token = Stage.wire(stage)
        self.login: Login

    def alice(self) -> Wire:
        wire = Stage.wire(self.stage)
        assert log_in(wire, "PLAIN", "alice", "alice-secret").error_code == 0
        return wire

    def run(self) -> dict[int, Differences]:
        return {exchange.n: self.answer(exchange) for exchange in self.exchanges}

    def answer(self, exchange: Exchange) -> Differences:
        if exchange.n in BY_ALICE:
            self.current = self.alice()
        elif exchange.n in BY_FIRST_TOKEN:
            self.current = self.by_token
        elif "client-final" not in exchange.comment and exchange.n not in GOES_ON:
            self.current = Stage.wire(self.stage)
            mechanism = MECHANISMS.get(exchange.n, "SCRAM-SHA-256")
            assert (
                self.current.ask(
                    SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=mechanism)
                ).error_code
                == 0
            )
        self.current.send_frame(self.request(exchange))
        data = self.current.frame()
        if exchange.n in LATE and data is not None:
            data = self.at_last(decoded(SASL_AUTHENTICATE, exchange.version, data))
        found = self.compare(exchange, data)
        if exchange.n in LATE:
            found["message"] = "first", "last"
        if exchange.n == 708:
            self.by_token = self.current
        if (
            exchange.closes
            and data is not None
            and not self.stage.world.run(
                lambda: self.current.close_reason is not None, at_most_s=5.0
            )
        ):
            found["closes"] = True, False
        return found

    def at_last(self, first: SaslAuthenticateResponse) -> bytes | None:
        """The answer to a last message, if the first one was answered as any other."""
        assert first.error_code == 0
        nonce = bytes(first.auth_bytes).decode().split(",")[0]
        last = f"c=biws,{nonce},p={b64encode(bytes(32)).decode()}"
        self.current.request(SASL_AUTHENTICATE, SASL_AUTHENTICATE.request(auth_bytes=last.encode()))
        return self.current.frame()

    def request(self, exchange: Exchange) -> bytes:
        data = super().request(exchange)
        if exchange.key != SASL_AUTHENTICATE.key:
            return data
        position, row = _read(exchange, data)
        if "client-final" not in exchange.comment:
            recorded_first = bytes(
                _read(exchange, bytes.fromhex(exchange.request or ""))[1].auth_bytes
            ).decode()
            name = recorded_first.split(",")[2].removeprefix("n=")
            password = self.passwords.get(name, Password("", ""))
            mechanism = MECHANISMS.get(exchange.n, "SCRAM-SHA-256")
            self.login = Login(mechanism, recorded_first, bytes(row.auth_bytes).decode(), password)
            return data
        row.auth_bytes = self.login.translated(bytes(row.auth_bytes).decode()).encode()
        return data[:position] + SASL_AUTHENTICATE.encode_request(exchange.version, row)

    def same(self, path: str, name: str, recorded: Any, ours: Any) -> bool:
        if name == "auth_bytes" and recorded and ours:
            return self.same_message(bytes(recorded).decode(), bytes(ours))
        if name in ("session_lifetime_ms", "expiry_timestamp_ms"):
            return bool((recorded > 0) == (ours > 0))
        if name in OF_THE_TOPIC:
            return True
        return super().same(
            path,
            name,
            SAME.get(recorded, recorded) if isinstance(recorded, str | int) else recorded,
            ours,
        )

    def same_message(self, recorded: str, ours: bytes) -> bool:
        """The first message of a server: another nonce behind the client's, a salt, the same
        iterations; its last: its signature.
        """
        login = self.login
        if recorded.startswith("v="):
            return ours == login.signature
        login.recorded, login.ours = recorded, ours.decode()
        (nonce, _, iterations), (own, _, own_iterations) = (
            recorded.split(","),
            login.ours.split(","),
        )
        client = login.bare[1].split("r=", 1)[1].split(",")[0]
        return own.startswith(f"r={client}") and own != nonce and iterations == own_iterations


def _read(exchange: Exchange, data: bytes) -> tuple[int, SaslAuthenticateRequest]:
    frame = memoryview(data)
    _, position = decode_request_header(
        frame, flexible=exchange.version in SASL_AUTHENTICATE.flexible
    )
    return position, SASL_AUTHENTICATE.decode_request(exchange.version, frame, position)[0]


@cache
def replayed() -> dict[int, Differences]:
    with Stage(**SETTINGS) as stage:
        found = TokenReplay(stage).run()
        assert not stage.world.failures
    return found


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda exchange: exchange.name)
def test_the_answer_is_kafkas(exchange: Exchange) -> None:
    assert not_meant(TOKEN_LOGINS, exchange.n, replayed()[exchange.n]) == {}, exchange.comment


@pytest.mark.parametrize("n", numbers_of(TOKEN_LOGINS))
def test_what_is_said_to_differ_does(n: int) -> None:
    assert all_found(TOKEN_LOGINS, n, replayed()[n])
