"""Nodes with delegation tokens, and clients that make, renew, end and bring them by hand."""

from random import Random
from typing import Any

from raftka.security.client_security import ClientSecurity
from raftka.security.delegation_tokens import password_of
from raftka.security.scram import SHA_256
from raftka.wire.messages.delegation_tokens import (
    CREATE_DELEGATION_TOKEN,
    DESCRIBE_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
    CreateDelegationTokenResponse,
)
from raftka.wire.messages.sasl import SASL_HANDSHAKE, SaslAuthenticateResponse
from tests.broker.rights import WITH_ACLS
from tests.broker.sasl import authenticate
from tests.broker.stage import Stage, Wire

Created = CreateDelegationTokenResponse
DAY_MS, WEEK_MS = 86_400_000, 604_800_000
SECURE: dict[str, Any] = {
    **WITH_ACLS,
    "delegation_token_secret_key": "not-a-secret",
    "delegation_token_expiry_check_interval_ms": "5000",
}
NOBODYS = b"x" * 64


def create(
    wire: Wire,
    *renewers: str,
    owner: str | None = None,
    life_ms: int = -1,
    kind: str = "User",
    version: int = 3,
) -> Created:
    request = CREATE_DELEGATION_TOKEN.request
    rows = [request.renewers(principal_type=kind, principal_name=name) for name in renewers]
    who = (
        {"owner_principal_type": "User", "owner_principal_name": owner} if owner is not None else {}
    )
    return wire.ask(
        CREATE_DELEGATION_TOKEN, request(renewers=rows, max_lifetime_ms=life_ms, **who), version
    )


def renew(wire: Wire, hmac: bytes, period_ms: int = -1) -> tuple[int, int]:
    answer = wire.ask(
        RENEW_DELEGATION_TOKEN, RENEW_DELEGATION_TOKEN.request(hmac=hmac, renew_period_ms=period_ms)
    )
    return answer.error_code, answer.expiry_timestamp_ms


def expire(wire: Wire, hmac: bytes, period_ms: int = -1) -> tuple[int, int]:
    answer = wire.ask(
        EXPIRE_DELEGATION_TOKEN,
        EXPIRE_DELEGATION_TOKEN.request(hmac=hmac, expiry_time_period_ms=period_ms),
    )
    return answer.error_code, answer.expiry_timestamp_ms


def seen(wire: Wire, *owners: str, everybodys: bool = False) -> list[str]:
    row = DESCRIBE_DELEGATION_TOKEN.request
    rows = (
        None
        if everybodys
        else [row.owners(principal_type="User", principal_name=name) for name in owners]
    )
    answer = wire.ask(DESCRIBE_DELEGATION_TOKEN, row(owners=rows))
    assert answer.error_code == 0
    return [each.token_id for each in answer.tokens]


def log_in(
    wire: Wire, token_id: str, hmac: bytes, mechanism: str = SHA_256, *, token_auth: bool = True
) -> SaslAuthenticateResponse:
    begin = ClientSecurity(
        "SASL_PLAINTEXT", mechanism, token_id, password_of(hmac), token_auth=token_auth
    ).login(Random(1))
    assert begin is not None
    assert wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=mechanism)).error_code == 0
    client = begin("")
    answer = authenticate(wire, client.first())
    if not answer.error_code:
        last = client.step(bytes(answer.auth_bytes))
        assert last is not None
        answer = authenticate(wire, last)
    return answer


def with_token(stage: Stage, token: Created, mechanism: str = SHA_256) -> Wire:
    wire = stage.wire()
    assert log_in(wire, token.token_id, bytes(token.hmac), mechanism).error_code == 0
    return wire


def now_ms(stage: Stage) -> int:
    return stage.nodes[1].runtime.clock.wall_ms()
