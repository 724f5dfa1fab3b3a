"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, DescribeDelegationToken: v1-3
(KIP-48, KIP-373).

A client that has logged in with a token may use none of these APIs, and an anonymous client
neither. The HMAC is a password: it is never logged.
"""

from functools import partial

import trio

from raftka.broker.context import MetadataCache
from raftka.broker.controller.controller_client import ControllerClient
from raftka.broker.handlers.parts import AccessParts
from raftka.broker.network.access.authorizer import DELEGATION_TOKEN, USER
from raftka.broker.network.dispatch import handles
from raftka.broker.network.request import Request
from raftka.broker.network.session import Session
from raftka.broker.work.long_work import Steps
from raftka.metadata.commands import OfTokens
from raftka.metadata.security_commands import AddToken, ExpireToken, RenewToken, TokenTimes
from raftka.runtime.interfaces import SECRETS
from raftka.security.client_security import uses_sasl, uses_tls
from raftka.security.delegation_tokens import (
    USER_PREFIX,
    DelegationToken,
    TokenCredential,
    hmac_of,
    make_credentials,
    new_token_id,
    salts_of,
)
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.delegation_tokens import (
    CREATE_DELEGATION_TOKEN,
    DESCRIBE_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

WORK_BYTES = 64 * 1024  # size of the work for the background worker
ANONYMOUS = "User:ANONYMOUS"


def _allowed(session: Session, metadata: MetadataCache) -> bool:
    """Return whether the client has logged in, and not with a token."""
    protocol = next(
        (
            each.security_protocol
            for each in metadata.settings.listeners
            if each.listener == session.listener
        ),
        "PLAINTEXT",
    )
    known = uses_sasl(protocol) or (uses_tls(protocol) and session.principal != ANONYMOUS)
    return known and not session.by_token


def _check_creation(
    request: Request[CreateDelegationTokenRequest], metadata: MetadataCache, owner: str
) -> None:
    """Make Kafka's checks in Kafka's order. Raises KafkaError."""
    if not _allowed(request.session, metadata):
        raise KafkaError(Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if owner != request.session.principal and not request.may("CREATE_TOKENS", (USER, owner)):
        raise KafkaError(Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if not owner.startswith(USER_PREFIX) or any(
        each.principal_type != "User" for each in request.body.renewers
    ):
        raise KafkaError(Code.INVALID_PRINCIPAL_TYPE)
    if not metadata.settings["delegation.token.secret.key"]:
        raise KafkaError(Code.DELEGATION_TOKEN_AUTH_DISABLED)


@handles(CREATE_DELEGATION_TOKEN)
async def create_delegation_token(
    request: Request[CreateDelegationTokenRequest],
    metadata: MetadataCache,
    controller: ControllerClient,
    access: AccessParts,
) -> CreateDelegationTokenResponse:
    body, requester = request.body, request.session.principal
    owner = (
        f"{body.owner_principal_type}:{body.owner_principal_name}"
        if body.owner_principal_type and body.owner_principal_name
        else requester
    )
    try:
        _check_creation(request, metadata, owner)
        random = request.dispatcher.context.runtime.random(SECRETS)
        token_id = new_token_id(random.randbytes)
        token_hmac = hmac_of(metadata.settings["delegation.token.secret.key"], token_id)
        credentials = await _make_credentials(access, token_hmac, salts_of(random.randbytes))
        renewers = tuple(dict.fromkeys(f"User:{each.principal_name}" for each in body.renewers))
        command = AddToken(
            token_id, owner, requester, renewers, body.max_lifetime_ms, token_hmac, credentials
        )
        times: TokenTimes = await controller.ask(command)
    except KafkaError as error:
        return _make_created(owner, requester, TokenTimes(-1, -1, -1), code=error.code)
    return _make_created(owner, requester, times, token_id, token_hmac)


def _make_created(
    owner: str,
    requester: str,
    times: TokenTimes,
    token_id: str = "",
    token_hmac: bytes = b"",
    code: Code = Code.NONE,
) -> CreateDelegationTokenResponse:
    (owner_type, owner_name), (requester_type, requester_name) = _split(owner), _split(requester)
    return CREATE_DELEGATION_TOKEN.response(
        error_code=int(code),
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=times.issued_ms,
        expiry_timestamp_ms=times.expires_ms,
        max_timestamp_ms=times.max_ms,
        token_id=token_id,
        hmac=token_hmac,
    )


def _split(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name


async def _make_credentials(
    access: AccessParts, token_hmac: bytes, salts: tuple[bytes, ...]
) -> tuple[TokenCredential, ...]:
    """Compute the credentials in the background worker. Raises KafkaError if its queue is full."""
    access.background.check_room(WORK_BYTES)
    made = trio.Event()
    found: list[tuple[TokenCredential, ...] | BaseException] = []

    def done(result: tuple[TokenCredential, ...] | BaseException) -> None:
        found.append(result)
        made.set()

    access.background.run(WORK_BYTES, partial(make_credentials, token_hmac, salts), done)
    await made.wait()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


async def _ask_controller(
    session: Session, metadata: MetadataCache, controller: ControllerClient, command: OfTokens
) -> tuple[int, int]:
    """Return an error code and the token's expiry."""
    if not _allowed(session, metadata):
        return int(Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED), -1
    if not metadata.settings["delegation.token.secret.key"]:
        return int(Code.DELEGATION_TOKEN_AUTH_DISABLED), 0
    try:
        return 0, await controller.ask(command)
    except KafkaError as error:
        return int(error.code), 0


@handles(RENEW_DELEGATION_TOKEN)
async def renew_delegation_token(
    request: Request[RenewDelegationTokenRequest],
    metadata: MetadataCache,
    controller: ControllerClient,
) -> RenewDelegationTokenResponse:
    command = RenewToken(
        bytes(request.body.hmac), request.session.principal, request.body.renew_period_ms
    )
    code, expires_ms = await _ask_controller(request.session, metadata, controller, command)
    return RENEW_DELEGATION_TOKEN.response(error_code=code, expiry_timestamp_ms=expires_ms)


@handles(EXPIRE_DELEGATION_TOKEN)
async def expire_delegation_token(
    request: Request[ExpireDelegationTokenRequest],
    metadata: MetadataCache,
    controller: ControllerClient,
) -> ExpireDelegationTokenResponse:
    command = ExpireToken(
        bytes(request.body.hmac), request.session.principal, request.body.expiry_time_period_ms
    )
    code, expires_ms = await _ask_controller(request.session, metadata, controller, command)
    return EXPIRE_DELEGATION_TOKEN.response(error_code=code, expiry_timestamp_ms=expires_ms)


@handles(DESCRIBE_DELEGATION_TOKEN)
def describe_delegation_token(
    request: Request[DescribeDelegationTokenRequest], metadata: MetadataCache
) -> Steps[DescribeDelegationTokenResponse]:
    response = DESCRIBE_DELEGATION_TOKEN.response
    if not _allowed(request.session, metadata):
        return response(error_code=int(Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED))
    if not metadata.settings["delegation.token.secret.key"]:
        return response(error_code=int(Code.DELEGATION_TOKEN_AUTH_DISABLED))
    owners = None
    if request.body.owners is not None:
        owners = set[str]()
        for each in request.body.owners:
            owners.add(f"{each.principal_type}:{each.principal_name}")
            yield
    rows = request.encoded_rows(response.tokens)
    for token in metadata.image.tokens.values():
        if (owners is None or token.owner in owners) and _may_see(request, token):
            rows.add(_make_row(token))
        yield
    return response(tokens=rows)


def _may_see(request: Request[DescribeDelegationTokenRequest], token: DelegationToken) -> bool:
    principal = request.session.principal
    if principal == token.requester or token.may_be_renewed_by(principal):
        return True
    return request.may("DESCRIBE", (DELEGATION_TOKEN, token.token_id)) or request.may(
        "DESCRIBE_TOKENS", (USER, token.owner)
    )


def _make_row(token: DelegationToken) -> DescribedDelegationToken:
    row = DESCRIBE_DELEGATION_TOKEN.response.tokens
    (owner_type, owner_name), (requester_type, requester_name) = (
        _split(token.owner),
        _split(token.requester),
    )
    renewers = [
        row.renewers(principal_type=kind, principal_name=name)
        for kind, name in map(_split, token.renewers)
    ]
    return row(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=token.hmac,
        renewers=renewers,
    )
