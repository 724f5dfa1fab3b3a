"""`raftka users ...`: credentials of SCRAM, through Kafka's protocol alone (KIP-554)."""

import secrets
from typing import IO

import click

from raftka.cli.admin.client import connect, sentence
from raftka.cli.output import CommandFailed, command, show
from raftka.client.blocking.access import list_scram_users
from raftka.client.blocking.client import Client
from raftka.security.scram import NUMBERS, SALT_BYTES, salted_password
from raftka.wire.messages.scram import (
    ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsResult,
)

COLUMNS = ["user", "mechanism", "iterations"]
NUMBER_OF = {name: number for number, name in NUMBERS.items()}


@command
def list_all(bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        found = _users(client)
        rows = [
            {
                "user": each.user,
                "mechanism": NUMBERS.get(info.mechanism, str(info.mechanism)),
                "iterations": info.iterations,
            }
            for each in found
            for info in each.credential_infos
        ]
        show(rows, COLUMNS, output)


def _users(client: Client, name: str | None = None) -> list[DescribeUserScramCredentialsResult]:
    """All users, or that one. Raises CommandFailed for one that is not there."""
    found = list_scram_users(client, name)
    if refused := [
        sentence(each.user, each.error_code, each.error_message)
        for each in found
        if each.error_code
    ]:
        raise CommandFailed("; ".join(refused))
    return found


@command
def set_password(
    name: str,
    mechanism: str,
    iterations: int,
    password_file: IO[str] | None,
    bootstrap_server: str,
    output: str,
) -> None:
    if password_file is None:
        password: str = click.prompt(
            f"password of {name}", hide_input=True, confirmation_prompt=True
        )
    else:
        password = password_file.readline().rstrip("\r\n")
    if not password:
        raise CommandFailed("the password is empty")
    salt = secrets.token_bytes(SALT_BYTES)
    salted = salted_password(mechanism, password, salt, iterations)
    request = ALTER_USER_SCRAM_CREDENTIALS.request
    row = request.upsertions(
        name=name,
        mechanism=NUMBER_OF[mechanism],
        iterations=iterations,
        salt=salt,
        salted_password=salted,
    )
    with connect(bootstrap_server) as client:
        _alter(client, request(upsertions=[row]))
    show([{"user": name, "mechanism": mechanism, "iterations": iterations}], COLUMNS, output)


@command
def delete(name: str, mechanism: str | None, bootstrap_server: str, output: str) -> None:
    with connect(bootstrap_server) as client:
        (user,) = _users(client, name)
        numbers = (
            [info.mechanism for info in user.credential_infos]
            if mechanism is None
            else [NUMBER_OF[mechanism]]
        )
        request = ALTER_USER_SCRAM_CREDENTIALS.request
        for number in numbers:  # one request each: a request alters a user once
            _alter(client, request(deletions=[request.deletions(name=name, mechanism=number)]))
    shown = [{"user": name, "mechanism": NUMBERS.get(each, str(each))} for each in numbers]
    show(shown, COLUMNS[:2], output)


def _alter(client: Client, request: AlterUserScramCredentialsRequest) -> None:
    results = client.ask(ALTER_USER_SCRAM_CREDENTIALS, request).results
    if refused := [
        sentence(each.user, each.error_code, each.error_message)
        for each in results
        if each.error_code
    ]:
        raise CommandFailed("; ".join(refused))
