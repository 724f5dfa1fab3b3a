"""The verbs of `raftka sql` but for a question: the prompt, files, the life of the server."""

import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from raftka.cli.admin.client import properties_of
from raftka.cli.output import CommandFailed, command, show, warn
from raftka.sql.client import Connection, SqlError, connect_wanted
from raftka.sql.prompt.runner import Runner
from raftka.sql.server.folder import Address, ServerFolder
from raftka.sql.server.launch import Wanted

STOP_S = 30.0  # until a server that was asked to end is gone
STEP_S = 0.05
TOKEN_BYTES, SHORTEST_TOKEN = 32, 16
LISTED = ["id", "seconds", "is_live", "text"]  # of a statement


def run(
    bootstrap: str,
    text: str | None,
    output: str,
    idle_s: float,
    limit: int,
    master: str | None,
    config: Mapping[str, str],
) -> int:
    """Run the statements of a text; None: those of standard input, or a prompt where that is a
    terminal. Return the exit code.
    """
    wanted = Wanted(bootstrap, _properties(), idle_s, master, config)
    runner = Runner(lambda: connect_wanted(wanted), output, limit)
    try:
        if text is None and sys.stdin.isatty():
            from raftka.sql.prompt.terminal import Terminal

            return Terminal(runner).run()
        return runner.run_text(sys.stdin.read() if text is None else text)
    except BrokenPipeError:  # the reader of the output has enough
        sys.stdout = None
        return 0


def read_text(file: str) -> str:
    """Return what a file holds; `-` is standard input. Raises OSError, UnicodeDecodeError."""
    return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")


@command
def serve(
    bootstrap_server: str,
    host: str,
    port: int,
    certificate: Path | None,
    key: Path | None,
    token_file: Path | None,
    login: str | None,
    no_functions: bool,
    master: str | None,
    config: Mapping[str, str],
) -> None:
    """Raises CommandFailed, OSError."""
    from raftka.console.settings import read_tls
    from raftka.sql.server.process import serve
    from raftka.sql.server.server import Door

    wanted = Wanted(
        bootstrap_server, _properties(), None, master, config, has_functions=not no_functions
    )
    folder = wanted.folder
    folder.make()
    lock = folder.try_lock()
    if lock is None:
        raise CommandFailed("an SQL server for this cluster runs: `raftka sql stop` ends it")
    try:
        pem = "" if certificate is None else str(certificate.absolute())
        own_key = "" if key is None else str(key.absolute())
        door = Door(
            _token(token_file), host, port, read_tls(certificate, key), pem, own_key, login or ""
        )
        if door.tls is None and not door.is_loopback:
            secrets_are = "the token and passwords come" if login else "the token comes"
            warn(f"{secrets_are} in the open: --certificate gives the port TLS")

        def announce(address: Address) -> None:
            print(f"SQL server: {address.url}", flush=True)

        serve(wanted.order, door, announce, lock)
    finally:
        os.close(lock)


@command
def status(bootstrap_server: str, output: str) -> None:
    """Raises CommandFailed."""
    _, connection = _running(bootstrap_server)
    with _as_failures():
        rows = connection.statements()
    show(rows, LISTED, output, own=True)


@command
def stop(bootstrap_server: str, id: str | None) -> None:
    """Raises CommandFailed."""
    folder, connection = _running(bootstrap_server)
    if id is not None:
        with _as_failures():
            connection.end(id)
        return
    os.kill(connection.address.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while (lock := folder.try_lock()) is None:
        if time.monotonic() > deadline:
            raise CommandFailed(
                f"process {connection.address.pid} does not end: {folder.log} may say why"
            )
        time.sleep(STEP_S)
    os.close(lock)


@contextmanager
def _as_failures() -> Iterator[None]:
    """Turn SqlError into CommandFailed."""
    try:
        yield
    except SqlError as error:
        raise CommandFailed(str(error)) from None


def _running(bootstrap: str) -> tuple[ServerFolder, Connection]:
    """Return the server that runs, whether it answers or not. Raises CommandFailed."""
    folder = ServerFolder.of(bootstrap, _properties())
    folder.make()
    lock = folder.try_lock()
    if lock is not None:
        os.close(lock)
    address = folder.address()
    if lock is not None or address is None:
        raise CommandFailed(f"no SQL server for {bootstrap} runs: `raftka sql` starts one")
    return folder, Connection(address)


def _properties() -> Mapping[str, str]:
    """Return the client properties of the command that runs."""
    return properties_of(click.get_current_context())[0]


def _token(file: Path | None) -> str:
    """Read the token, or make one. Raises CommandFailed, OSError."""
    if file is None:
        return secrets.token_urlsafe(TOKEN_BYTES)
    if not file.exists():
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:
            made.write(f"{secrets.token_urlsafe(TOKEN_BYTES)}\n")
    token = file.read_text().strip()
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise CommandFailed(f"{file}: a token has at least {SHORTEST_TOKEN} characters of ASCII")
    return token
