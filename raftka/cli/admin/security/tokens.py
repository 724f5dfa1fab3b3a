"""`raftka tokens ...`: delegation tokens, through Kafka's protocol alone (KIP-48)."""

from base64 import b64decode, b64encode
from datetime import UTC, datetime
from typing import IO

from raftka.cli.admin.client import connect
from raftka.cli.output import CommandFailed, command, show
from raftka.client.blocking.client import check
from raftka.json_values import Json
from raftka.wire.messages.delegation_tokens import (
    CREATE_DELEGATION_TOKEN,
    DESCRIBE_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
    DescribedDelegationToken,
)

COLUMNS = ["token", "owner", "requester", "renewers", "issued", "expires", "latest"]
HMAC = "hmac"


@command
def create(
    owner: str | None,
    renewers: tuple[str, ...],
    max_lifetime_ms: int,
    bootstrap_server: str,
    output: str,
) -> None:
    request = CREATE_DELEGATION_TOKEN.request
    row = request(
        renewers=[
            request.renewers(principal_type="User", principal_name=name) for name in renewers
        ],
        max_lifetime_ms=max_lifetime_ms,
    )
    if owner is not None:
        row.owner_principal_type, row.owner_principal_name = "User", owner
    with connect(bootstrap_server) as client:
        token = client.ask(CREATE_DELEGATION_TOKEN, row)
    check(token.error_code)
    found: dict[str, Json] = {
        "token": token.token_id,
        HMAC: b64encode(token.hmac).decode(),
        "expires": _time(token.expiry_timestamp_ms),
    }
    show(
        [{**found, "latest": _time(token.max_timestamp_ms)}],
        ["token", HMAC, "expires", "latest"],
        output,
    )


@command
def list_all(owners: tuple[str, ...], hmacs: bool, bootstrap_server: str, output: str) -> None:
    request = DESCRIBE_DELEGATION_TOKEN.request
    rows = [request.owners(principal_type="User", principal_name=name) for name in owners]
    with connect(bootstrap_server) as client:
        answer = client.ask(DESCRIBE_DELEGATION_TOKEN, request(owners=rows or None))
    check(answer.error_code)
    found = sorted(answer.tokens, key=lambda each: (each.principal_name, each.issue_timestamp))
    shown = [
        _shown(each) | ({HMAC: b64encode(each.hmac).decode()} if hmacs else {}) for each in found
    ]
    show(shown, [*COLUMNS, *([HMAC] if hmacs else [])], output)


def _shown(token: DescribedDelegationToken) -> dict[str, Json]:
    return {
        "token": token.token_id,
        "owner": token.principal_name,
        "requester": token.token_requester_principal_name,
        "renewers": [each.principal_name for each in token.renewers],
        "issued": _time(token.issue_timestamp),
        "expires": _time(token.expiry_timestamp),
        "latest": _time(token.max_timestamp),
    }


@command
def renew(hmac_file: IO[str], period_ms: int, bootstrap_server: str, output: str) -> None:
    row = RENEW_DELEGATION_TOKEN.request(hmac=_hmac(hmac_file), renew_period_ms=period_ms)
    with connect(bootstrap_server) as client:
        answer = client.ask(RENEW_DELEGATION_TOKEN, row)
    check(answer.error_code)
    show([{"expires": _time(answer.expiry_timestamp_ms)}], ["expires"], output)


@command
def expire(hmac_file: IO[str], period_ms: int, bootstrap_server: str, output: str) -> None:
    row = EXPIRE_DELEGATION_TOKEN.request(hmac=_hmac(hmac_file), expiry_time_period_ms=period_ms)
    with connect(bootstrap_server) as client:
        answer = client.ask(EXPIRE_DELEGATION_TOKEN, row)
    check(answer.error_code)
    show([{"expires": _time(answer.expiry_timestamp_ms)}], ["expires"], output)


def _hmac(file: IO[str]) -> bytes:
    """Raises CommandFailed, without anything of it."""
    try:
        found = b64decode(file.readline().strip(), validate=True)
    except ValueError:
        found = b""
    if not found:
        raise CommandFailed("the HMAC must be base64, as `raftka tokens create` prints it")
    return found


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
