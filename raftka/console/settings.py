"""The settings of a console, as plain values. Bad ones are refused when the console starts."""

import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from raftka.client.connection import Address
from raftka.schemas.client import is_registry_url
from raftka.security.client_security import PLAINTEXT, ClientSecurity

if TYPE_CHECKING:
    from raftka.console.sql.target import SqlTarget

LOOPBACK = ("127.0.0.1", "::1", "localhost")
EVERYWHERE = ("", "0.0.0.0", "::")
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
# a name of a field or a header, or a path such as $.a.b; items of lists have no name of their own
MASK = re.compile(r"(\$\.)?[^\s.$\[\]*]+(\.[^\s.$\[\]*]+)*")


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    bootstrap: Sequence[Address]
    security: ClientSecurity = PLAINTEXT  # of the console's own connections to brokers
    host: str = "127.0.0.1"
    port: int = 8080  # 0: any free one
    tls: ssl.SSLContext | None = None
    login: str = ""  # mechanism of the users' passwords at the brokers; empty: nobody logs in
    allowed_hosts: Sequence[str] = ()  # further names under which browsers may reach the console
    registry: str = ""  # URL of the schema registry; empty: none
    registry_login: tuple[str, str] | None = field(default=None, repr=False)  # name and password
    registry_ca: str | None = None  # PEM: trusted where that URL is https; None: the system's
    read_only: bool = False
    show_records: bool = True
    masked: Sequence[str] = ()  # JSON fields (name or $.path) and headers whose values are hidden
    sql: "SqlTarget | None" = None  # the SQL server of its page; None: there is no such page

    control: object | None = None  # the channel to the launcher of this cluster, if there is one

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if self.login and self.login not in PASSWORD_MECHANISMS:
            raise ValueError(
                f"{self.login} is no mechanism of passwords: a login here is one of "
                f"{', '.join(PASSWORD_MECHANISMS)}"
            )
        for each in self.masked:
            if not MASK.fullmatch(each):
                raise ValueError(f"{each!r} is no field to mask: it is a name, or $.NAME.NAME")
        parts = urlsplit(self.registry)
        if self.registry and not is_registry_url(self.registry):
            raise ValueError("the registry's URL is none, such as http://localhost:8081")
        if parts.username is not None or parts.password is not None:
            raise ValueError("the registry's URL has no name and password in it: give a file")

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can reach the console."""
        return self.host in LOOPBACK


def read_registry_login(file: str | Path | None) -> tuple[str, str] | None:
    """Return name and password out of a file with NAME:PASSWORD; None: there is no file. Raises
    OSError, and ValueError, without its content, for a file of no use.
    """
    if file is None:
        return None
    try:
        lines = Path(file).read_text(encoding="utf-8").split("\n", 1)
    except UnicodeDecodeError:
        raise ValueError(f"{file} is no text in UTF-8") from None
    name, colon, password = lines[0].strip().partition(":")
    if not (name and colon and password) or "".join(lines[1:]).strip():
        raise ValueError(f"{file} is to have one line, NAME:PASSWORD")
    return name, password


def check_registry_ca(file: str | Path | None) -> None:
    """Raises OSError for a file without certificates in PEM."""
    if file is not None:
        ssl.create_default_context(cafile=str(file))


def read_tls(certificate: str | Path | None, key: str | Path | None) -> ssl.SSLContext | None:
    """Return a context of files in PEM; None: the port has no TLS. Raises OSError for files of no
    use, ValueError for a key without a certificate.
    """
    if certificate is None:
        if key is not None:
            raise ValueError("a key belongs to a certificate: give that too")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


def warnings_of(settings: ConsoleSettings) -> list[str]:
    """Return what whoever starts the console should know about its safety."""
    found = []
    if settings.login and settings.tls is None and not settings.is_loopback:
        found.append("passwords come in the open: --certificate gives the port TLS")
    if not settings.login and settings.security.mechanism:
        found.append(
            f"nobody logs in at the console: all have the rights of its own {who_is(settings)}"
        )
    elif not settings.login and settings.security.uses_tls:
        found.append("nobody logs in at the console: all have the rights of its own certificate")
    elif not settings.login and not settings.is_loopback:
        found.append("nobody logs in at the console: all who reach it may do what it can")
    if settings.sql is not None and not settings.login and not settings.is_loopback:
        found.append("SQL is for all who reach the console, with all rights of its SQL server")
    return found


def who_is(settings: ConsoleSettings) -> str:
    security = settings.security
    return f"login, {security.user}" if security.user else f"login by {security.mechanism}"
