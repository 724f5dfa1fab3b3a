"""Delegation tokens in the controller: made, renewed, ended, and removed when they have expired.
Knows no secret key and computes no HMAC.
"""

from collections.abc import Mapping

from raftka.limits import DELEGATION_TOKENS, DELEGATION_TOKENS_OF_REQUESTER, TOKEN_BYTES
from raftka.metadata.image import MetadataImage
from raftka.metadata.records import (
    DelegationTokenAdded,
    DelegationTokenRemoved,
    DelegationTokenRenewed,
    Record,
)
from raftka.metadata.security_commands import AddToken, ExpireToken, RenewToken, TokenTimes
from raftka.security.delegation_tokens import DelegationToken
from raftka.wire.errors import Code, KafkaError, check_limit

Decided = tuple[list[Record], TokenTimes | int]
NEVER_MS = (1 << 63) - 1


def decide_token(
    image: MetadataImage,
    command: AddToken | RenewToken | ExpireToken,
    settings: Mapping[str, object],
    now_ms: int,
) -> Decided:
    """Raises KafkaError."""
    match command:
        case AddToken():
            return _add(
                image,
                command,
                _number(settings["delegation.token.max.lifetime.ms"]),
                _life_ms(settings),
                now_ms,
            )
        case RenewToken():
            return _renew(image, command, _life_ms(settings), now_ms)
        case ExpireToken():
            return _expire(image, command, now_ms)


def expired_tokens(image: MetadataImage, now_ms: int) -> list[Record]:
    """What removes those that have ended."""
    return [
        DelegationTokenRemoved(token.token_id)
        for token in image.tokens.values()
        if token.expires_ms <= now_ms
    ]


def _life_ms(settings: Mapping[str, object]) -> int:
    """Until a token must be renewed."""
    return _number(settings["delegation.token.expiry.time.ms"])


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


def _add(
    image: MetadataImage, command: AddToken, longest_ms: int, life_ms: int, now_ms: int
) -> Decided:
    known = image.tokens.get(command.token_id)
    if known is not None:  # asked again, because the answer was lost
        return [], TokenTimes(known.issued_ms, known.expires_ms, known.max_ms)
    check_limit(
        TOKEN_BYTES,
        sum(map(len, (command.owner, command.requester, *command.renewers))),
        code=Code.INVALID_REQUEST,
    )
    check_limit(DELEGATION_TOKENS, len(image.tokens) + 1, code=Code.POLICY_VIOLATION)
    of_requester = sum(token.requester == command.requester for token in image.tokens.values())
    check_limit(DELEGATION_TOKENS_OF_REQUESTER, of_requester + 1, code=Code.POLICY_VIOLATION)
    asked_ms = command.max_lifetime_ms
    max_ms = now_ms + (min(longest_ms, asked_ms) if asked_ms > 0 else longest_ms)
    times = TokenTimes(now_ms, min(max_ms, now_ms + life_ms, NEVER_MS), min(max_ms, NEVER_MS))
    who = (command.token_id, command.owner, command.requester, command.renewers)
    return [DelegationTokenAdded(*who, *times, command.hmac, command.credentials)], times


def _renew(image: MetadataImage, command: RenewToken, life_ms: int, now_ms: int) -> Decided:
    token = _found(image, command.hmac)
    if token.expires_ms <= now_ms:
        raise KafkaError(Code.DELEGATION_TOKEN_EXPIRED)
    _check_renewer(token, command.requester)
    period_ms = min(command.period_ms, life_ms) if command.period_ms > 0 else life_ms
    expires_ms = min(token.max_ms, now_ms + period_ms)
    return [DelegationTokenRenewed(token.token_id, expires_ms)], expires_ms


def _expire(image: MetadataImage, command: ExpireToken, now_ms: int) -> Decided:
    """A period below 0 removes it."""
    token = _found(image, command.hmac)
    _check_renewer(token, command.requester)
    if command.period_ms < 0:
        return [DelegationTokenRemoved(token.token_id)], now_ms
    if token.expires_ms <= now_ms:
        raise KafkaError(Code.DELEGATION_TOKEN_EXPIRED)
    expires_ms = min(token.max_ms, now_ms + command.period_ms)
    return [DelegationTokenRenewed(token.token_id, expires_ms)], expires_ms


def _found(image: MetadataImage, token_hmac: bytes) -> DelegationToken:
    token_id = image.token_ids.get(token_hmac)
    if token_id is None:
        raise KafkaError(Code.DELEGATION_TOKEN_NOT_FOUND)
    return image.tokens[token_id]


def _check_renewer(token: DelegationToken, principal: str) -> None:
    """Not super users either, as in Kafka."""
    if not token.may_be_renewed_by(principal):
        raise KafkaError(Code.DELEGATION_TOKEN_OWNER_MISMATCH)
