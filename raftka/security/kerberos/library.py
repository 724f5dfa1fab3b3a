"""The Kerberos library behind GSSAPI: the optional package `gssapi` and the C library that it
calls. Imported when a login needs it.

Its calls read keytabs and the library's own configuration, write its replay cache, and on a
client's side ask the KDC: they are made beside the loop.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import NamedTuple, Protocol, TypeVar

from raftka.security.mechanism import AuthenticationFailed

MISSING = (
    "GSSAPI (Kerberos) needs the Python package gssapi, which is not installed: pip install "
    "'raftka[gssapi]'"
)
T = TypeVar("T")


class KerberosLogin(NamedTuple):
    """The Kerberos identity of a node or a client. Without a keytab: the owner of the tickets that
    `kinit` got.
    """

    service: str  # that one logs in to
    principal: str = ""
    keytab: str = ""


def is_installed() -> bool:
    """Both the package and the C library below it."""
    try:
        import_module("gssapi")
    except (ImportError, OSError):
        return False
    return True


def accept(login: KerberosLogin) -> "LibraryContext":
    """Begin the server's side, as the principal with its keys. Raises AuthenticationFailed."""
    return _told(partial(_accept, login))


def initiate(login: KerberosLogin, host: str) -> "LibraryContext":
    """Begin the client's side of a login to the service at a host. Raises AuthenticationFailed."""
    return _told(partial(_initiate, login, host))


def _accept(login: KerberosLogin) -> "LibraryContext":
    import gssapi

    kerberos = gssapi.MechType.kerberos
    name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
    keys = gssapi.Credentials(
        name=name, usage="accept", mechs=[kerberos], store={"keytab": f"FILE:{login.keytab}"}
    )
    return LibraryContext(gssapi.SecurityContext(creds=keys, usage="accept"))


def _initiate(login: KerberosLogin, host: str) -> "LibraryContext":
    import gssapi

    kerberos, flags = gssapi.MechType.kerberos, gssapi.RequirementFlag
    own = None
    if login.keytab:
        name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
        store = {
            "client_keytab": f"FILE:{login.keytab}",
            "ccache": f"MEMORY:raftka-{login.principal}",
        }
        own = gssapi.Credentials(name=name, usage="initiate", mechs=[kerberos], store=store)
    service = gssapi.Name(f"{login.service}@{host}", gssapi.NameType.hostbased_service)
    wanted = flags.mutual_authentication | flags.integrity | flags.out_of_sequence_detection
    return LibraryContext(
        gssapi.SecurityContext(
            name=service, creds=own, mech=kerberos, flags=wanted, usage="initiate"
        )
    )


class Wrapped(Protocol):
    message: bytes


class Native(Protocol):
    """The methods of gssapi.SecurityContext that are used here."""

    complete: bool
    initiator_name: object
    lifetime: int
    __DEFER_STEP_ERRORS__: bool

    def step(self, token: bytes | None) -> bytes | None: ...

    def wrap(self, message: bytes, encrypt: bool) -> Wrapped: ...

    def unwrap(self, message: bytes) -> Wrapped: ...


class LibraryContext:
    """A `Context` of mechanism.py."""

    def __init__(self, native: Native) -> None:
        self._native = native
        # gssapi's own: else what is refused is told as a token first, and raised a step later
        native.__DEFER_STEP_ERRORS__ = False

    @property
    def complete(self) -> bool:
        return self._native.complete

    @property
    def client(self) -> str:
        return _told(lambda: str(self._native.initiator_name))

    @property
    def lifetime_s(self) -> int:
        return _told(lambda: self._native.lifetime)

    def step(self, token: bytes) -> bytes:
        return _told(lambda: self._native.step(token or None)) or b""

    def wrap(self, message: bytes) -> bytes:
        return _told(lambda: self._native.wrap(message, False).message)

    def unwrap(self, token: bytes) -> bytes:
        return _told(lambda: self._native.unwrap(token).message)


def _told(call: Callable[[], T]) -> T:
    """Return the result of the call; a refusal of the library becomes AuthenticationFailed, whose
    reason is for the log.
    """
    try:
        from gssapi.exceptions import GSSError
    except (ImportError, OSError) as error:
        raise AuthenticationFailed(reason=f"{MISSING} ({error})") from None
    try:
        return call()
    except (GSSError, UnicodeDecodeError) as error:
        raise AuthenticationFailed(reason=" ".join(str(error).split())[:300]) from None
