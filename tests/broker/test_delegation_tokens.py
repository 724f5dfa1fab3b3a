"""Delegation tokens on simulated nodes: who may make, see, renew and end them, and what a login
with one is.
"""

from collections.abc import Iterator
from random import Random

import pytest

from raftka.limits import DELEGATION_TOKENS, DELEGATION_TOKENS_OF_REQUESTER, TOKEN_BYTES, Limit
from raftka.security.client_security import ClientSecurity
from raftka.security.delegation_tokens import password_of
from raftka.security.scram import SHA_256, SHA_512
from raftka.wire.errors import Code
from raftka.wire.messages.delegation_tokens import (
    DESCRIBE_DELEGATION_TOKEN,
)
from raftka.wire.messages.metadata import METADATA
from raftka.wire.messages.sasl import SASL_HANDSHAKE
from tests.broker.conftest import Lower
from tests.broker.rights import admin_of, pat
from tests.broker.sasl import authenticate, works
from tests.broker.stage import Stage
from tests.broker.tokens import (
    DAY_MS,
    NOBODYS,
    SECURE,
    WEEK_MS,
    create,
    expire,
    log_in,
    now_ms,
    renew,
    with_token,
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Stage]:
    with Stage(**SECURE) as stage:
        yield stage


def test_token_lasts_a_day_and_a_week_with_renewals(shared: Stage) -> None:
    began = now_ms(shared)
    token = create(pat(shared), "bob")
    assert (token.error_code, token.principal_type, token.principal_name) == (0, "User", "pat")
    assert (token.token_requester_principal_type, token.token_requester_principal_name) == (
        "User",
        "pat",
    )
    assert began <= token.issue_timestamp_ms <= now_ms(shared)
    assert token.expiry_timestamp_ms == token.issue_timestamp_ms + DAY_MS
    assert token.max_timestamp_ms == token.issue_timestamp_ms + WEEK_MS
    assert (len(token.token_id), len(token.hmac)) == (22, 64)


def test_life_that_is_asked_for_is_cut_at_the_longest(shared: Stage) -> None:
    wire = pat(shared)
    most = (DAY_MS, WEEK_MS)
    for life_ms, expected in (
        (3_600_000, (3_600_000, 3_600_000)),
        (10**15, most),
        ((1 << 63) - 1, most),
        (0, most),
    ):
        token = create(wire, life_ms=life_ms)
        assert (
            token.expiry_timestamp_ms - token.issue_timestamp_ms,
            token.max_timestamp_ms - token.issue_timestamp_ms,
        ) == expected
    assert create(wire, version=1).error_code == 0


def test_requests_are_refused_in_kafkas_order(shared: Stage) -> None:
    wire = pat(shared)
    refused = create(wire, "x", kind="Group")
    assert (refused.error_code, refused.principal_name, refused.token_requester_principal_name) == (
        Code.INVALID_PRINCIPAL_TYPE,
        "pat",
        "pat",
    )
    assert (refused.issue_timestamp_ms, refused.expiry_timestamp_ms, refused.max_timestamp_ms) == (
        -1,
        -1,
        -1,
    )
    assert (refused.token_id, bytes(refused.hmac)) == ("", b"")
    refused = create(wire, "x", owner="bob", kind="Group")
    assert (refused.error_code, refused.principal_name) == (
        Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        "bob",
    )
    assert (
        renew(wire, NOBODYS)
        == expire(wire, NOBODYS)
        == expire(wire, b"x")
        == (Code.DELEGATION_TOKEN_NOT_FOUND, 0)
    )


def test_owner_and_renewers_renew_and_nobody_else(shared: Stage) -> None:
    token = create(pat(shared), "node")
    hmac = bytes(token.hmac)
    code, expires_ms = renew(pat(shared), hmac, 3_600_000)
    assert (code, abs(expires_ms - now_ms(shared) - 3_600_000) < 1000) == (0, True)
    code, expires_ms = renew(admin_of(shared), hmac, 10**15)
    assert (code, abs(expires_ms - now_ms(shared) - DAY_MS) < 1000) == (0, True)
    stranger = create(admin_of(shared))
    assert renew(pat(shared), bytes(stranger.hmac)) == (Code.DELEGATION_TOKEN_OWNER_MISMATCH, 0)
    others = create(pat(shared))
    assert renew(admin_of(shared), bytes(others.hmac)) == (
        Code.DELEGATION_TOKEN_OWNER_MISMATCH,
        0,
    ), "a super user neither"
    assert expire(admin_of(shared), bytes(others.hmac)) == (Code.DELEGATION_TOKEN_OWNER_MISMATCH, 0)


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_login_with_a_token_is_its_owner_until_it_ends(shared: Stage, mechanism: str) -> None:
    token = create(pat(shared), life_ms=8_000)
    wire = shared.wire()
    answer = log_in(wire, token.token_id, bytes(token.hmac), mechanism)
    assert answer.error_code == 0
    assert 0 < answer.session_lifetime_ms <= 8_000
    assert works(wire)
    session = shared.server_side().session
    assert (session.principal, session.by_token, session.mechanism) == ("User:pat", True, mechanism)
    shared.world.run(shared.world.now + 9)
    wire.request(METADATA, METADATA.request(topics=[]))
    assert wire.frame() is None


def test_session_of_a_token_may_use_none_of_the_requests_for_tokens(shared: Stage) -> None:
    token = create(pat(shared))
    wire, hmac = with_token(shared, token), bytes(token.hmac)
    not_allowed = Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert create(wire, owner="bob").error_code == not_allowed
    assert renew(wire, hmac) == expire(wire, hmac) == (not_allowed, -1)
    assert (
        wire.ask(
            DESCRIBE_DELEGATION_TOKEN, DESCRIBE_DELEGATION_TOKEN.request(owners=None)
        ).error_code
        == not_allowed
    )


def test_token_is_no_user_without_the_extension_and_no_other_token(shared: Stage) -> None:
    token, other = create(pat(shared)), create(pat(shared))
    for hmac, token_auth in (
        (bytes(token.hmac), False),
        (bytes(other.hmac), True),
        (NOBODYS, True),
    ):
        answer = log_in(shared.wire(), token.token_id, hmac, token_auth=token_auth)
        assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
    assert log_in(shared.wire(), "pat", b"pat-secret").error_code == Code.SASL_AUTHENTICATION_FAILED


def test_removed_token_lets_nobody_in_also_between_two_messages(shared: Stage) -> None:
    token = create(pat(shared))
    begin = ClientSecurity(
        "SASL_PLAINTEXT", SHA_256, token.token_id, password_of(bytes(token.hmac)), token_auth=True
    ).login(Random(1))
    assert begin is not None
    wire, client = shared.wire(), begin("")
    wire.ask(SASL_HANDSHAKE, SASL_HANDSHAKE.request(mechanism=SHA_256))
    last = client.step(bytes(authenticate(wire, client.first()).auth_bytes))
    assert expire(pat(shared), bytes(token.hmac))[0] == 0
    assert last is not None
    assert authenticate(wire, last).error_code == Code.SASL_AUTHENTICATION_FAILED
    assert (
        log_in(shared.wire(), token.token_id, bytes(token.hmac)).error_code
        == Code.SASL_AUTHENTICATION_FAILED
    )


def test_expired_token_lets_nobody_in_and_is_swept(shared: Stage) -> None:
    token = create(pat(shared))
    code, expires_ms = expire(pat(shared), bytes(token.hmac), 500)
    assert (code, abs(expires_ms - now_ms(shared)) <= 500) == (0, True)
    shared.world.run(shared.world.now + 0.6)
    if token.token_id in shared.nodes[1].image.tokens:
        assert renew(pat(shared), bytes(token.hmac)) == (Code.DELEGATION_TOKEN_EXPIRED, 0)
    answer = log_in(shared.wire(), token.token_id, bytes(token.hmac))
    assert (answer.error_code, answer.session_lifetime_ms) == (Code.SASL_AUTHENTICATION_FAILED, 0)
    shared.wait(lambda: token.token_id not in shared.nodes[1].image.tokens)
    assert renew(pat(shared), bytes(token.hmac)) == (Code.DELEGATION_TOKEN_NOT_FOUND, 0)


LIMITS = {
    DELEGATION_TOKENS: Code.POLICY_VIOLATION,
    DELEGATION_TOKENS_OF_REQUESTER: Code.POLICY_VIOLATION,
    TOKEN_BYTES: Code.INVALID_REQUEST,
}


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_tokens_are_counted(shared: Stage, lowered: Lower, limit: Limit) -> None:
    code = LIMITS[limit]
    create(pat(shared), "bob")
    lowered(limit, 1)
    assert create(pat(shared), "bob").error_code == code
    assert shared.counted(limit.metric) == 1
