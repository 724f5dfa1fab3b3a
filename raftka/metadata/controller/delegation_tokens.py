"""Decisions on delegation tokens: add, renew, expire; and the removal of those that have expired.

The handler has computed the HMAC and the credentials; no secret key comes this far.
"""

from raftka.limits import DELEGATION_TOKENS, DELEGATION_TOKENS_OF_REQUESTER, TOKEN_BYTES
from raftka.metadata.controller.decision import Decision
from raftka.metadata.controller.draft import Draft, Environment
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

NEVER_MS = (1 << 63) - 1


def decide_add_token(draft: Draft, command: AddToken) -> Decision:
    """Add a token; the reply is its TokenTimes. A command that comes again, because its answer was
    lost, gets the same reply.

    Raises INVALID_REQUEST for too long names, POLICY_VIOLATION for too many tokens.
    """
    tokens, now_ms = draft.image.tokens, draft.environment.wall_ms
    known = tokens.get(command.token_id)
    if known is not None:
        return [], TokenTimes(known.issued_ms, known.expires_ms, known.max_ms)
    check_limit(
        TOKEN_BYTES,
        sum(map(len, (command.owner, command.requester, *command.renewers))),
        code=Code.INVALID_REQUEST,
    )
    check_limit(DELEGATION_TOKENS, len(tokens) + 1, code=Code.POLICY_VIOLATION)
    of_requester = sum(token.requester == command.requester for token in tokens.values())
    check_limit(DELEGATION_TOKENS_OF_REQUESTER, of_requester + 1, code=Code.POLICY_VIOLATION)
    longest_ms: int = draft.environment.settings["delegation.token.max.lifetime.ms"]
    wanted_ms = command.max_lifetime_ms
    max_ms = now_ms + (min(longest_ms, wanted_ms) if wanted_ms > 0 else longest_ms)
    expires_ms = min(max_ms, now_ms + _renewal_period_ms(draft.environment), NEVER_MS)
    times = TokenTimes(now_ms, expires_ms, min(max_ms, NEVER_MS))
    names = (command.token_id, command.owner, command.requester, command.renewers)
    return [DelegationTokenAdded(*names, *times, command.hmac, command.credentials)], times


def decide_renew_token(draft: Draft, command: RenewToken) -> Decision:
    """Move a token's expiry; the reply is the new one."""
    longest_ms, now_ms = _renewal_period_ms(draft.environment), draft.environment.wall_ms
    token = _find_token(draft.image, command.hmac)
    _check_not_expired(token, now_ms)
    _check_renewer(token, command.requester)
    period_ms = min(command.period_ms, longest_ms) if command.period_ms > 0 else longest_ms
    expires_ms = min(token.max_ms, now_ms + period_ms)
    return [DelegationTokenRenewed(token.token_id, expires_ms)], expires_ms


def decide_expire_token(draft: Draft, command: ExpireToken) -> Decision:
    """Move a token's expiry, or remove the token if the period is below 0; the reply is the
    expiry.
    """
    now_ms = draft.environment.wall_ms
    token = _find_token(draft.image, command.hmac)
    _check_renewer(token, command.requester)
    if command.period_ms < 0:
        return [DelegationTokenRemoved(token.token_id)], now_ms
    _check_not_expired(token, now_ms)
    expires_ms = min(token.max_ms, now_ms + command.period_ms)
    return [DelegationTokenRenewed(token.token_id, expires_ms)], expires_ms


def remove_expired_tokens(image: MetadataImage, now_ms: int) -> list[Record]:
    """Return the records that remove all tokens that have expired."""
    return [
        DelegationTokenRemoved(token.token_id)
        for token in image.tokens.values()
        if token.expires_ms <= now_ms
    ]


def _renewal_period_ms(environment: Environment) -> int:
    """Return the time after which a token must be renewed."""
    period_ms: int = environment.settings["delegation.token.expiry.time.ms"]
    return period_ms


def _find_token(image: MetadataImage, token_hmac: bytes) -> DelegationToken:
    """Raises DELEGATION_TOKEN_NOT_FOUND."""
    token_id = image.token_ids.get(token_hmac)
    if token_id is None:
        raise KafkaError(Code.DELEGATION_TOKEN_NOT_FOUND)
    return image.tokens[token_id]


def _check_not_expired(token: DelegationToken, now_ms: int) -> None:
    """Raises DELEGATION_TOKEN_EXPIRED."""
    if token.expires_ms <= now_ms:
        raise KafkaError(Code.DELEGATION_TOKEN_EXPIRED)


def _check_renewer(token: DelegationToken, principal: str) -> None:
    """Raises DELEGATION_TOKEN_OWNER_MISMATCH, for super users too, as in Kafka."""
    if not token.may_be_renewed_by(principal):
        raise KafkaError(Code.DELEGATION_TOKEN_OWNER_MISMATCH)
