"""OpenSSL's contexts out of settings: keys, certificates, protocols and ciphers; made anew when a
file or a setting has changed.

Reads files through the runtime. Knows no connection.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from ssl import (
    CERT_NONE,
    CERT_OPTIONAL,
    CERT_REQUIRED,
    OP_NO_RENEGOTIATION,
    OP_NO_TICKET,
    PROTOCOL_TLS_CLIENT,
    PROTOCOL_TLS_SERVER,
    SSLContext,
    SSLError,
    TLSVersion,
)
from typing import NamedTuple

from raftka.security.stores import Store, StoreError, expires_s, read_pem, read_store
from raftka.security.tls_settings import StoreSettings, TlsError, TlsSettings

LOOK_S = 10.0  # between two looks at the files
VERSIONS = {"TLSv1.2": TLSVersion.TLSv1_2, "TLSv1.3": TLSVersion.TLSv1_3}
VERIFY = {"none": CERT_NONE, "requested": CERT_OPTIONAL, "required": CERT_REQUIRED}


class StoreFiles(NamedTuple):
    """The reading of stores, and the hand-over to OpenSSL, which reads keys from files only."""

    read: Callable[[str], bytes]
    lend: Callable[[bytes], AbstractContextManager[str]]


class Material(NamedTuple):
    """The contents of the stores."""

    own: Store  # with the key
    trusted: Store


def read_material(settings: TlsSettings, files: StoreFiles) -> Material:
    """Raises TlsError."""
    return Material(
        _read(settings.key_store, "the key store", files),
        _read(settings.trust_store, "the trust store", files),
    )


def _read(store: StoreSettings, name: str, files: StoreFiles) -> Store:
    try:
        if store.text:
            return read_pem(store.text, name)
        if store.location:
            return read_store(
                files.read(store.location), store.password, f"{name} {store.location}"
            )
    except OSError as error:
        raise TlsError(
            f"{name} {store.location} cannot be read: {error.strerror or error}"
        ) from None
    except StoreError as error:
        raise TlsError(str(error)) from None
    return Store("", ())


def server_context(settings: TlsSettings, material: Material, files: StoreFiles) -> SSLContext:
    """Raises TlsError."""
    if not material.own.key or not material.own.certificates:
        raise TlsError(
            "a listener with TLS needs a private key and its certificate: ssl.keystore.location, "
            "or ssl.keystore.key and its chain"
        )
    if settings.client_auth != "none" and not material.trusted.certificates:
        raise TlsError(
            f"ssl.client.auth={settings.client_auth} needs the certificates that clients' are "
            "signed by: ssl.truststore.location"
        )
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.options |= OP_NO_TICKET | OP_NO_RENEGOTIATION
    context.num_tickets = 0  # nobody resumes, and a stolen ticket key would open recorded sessions
    _set_up(context, settings, material, files)
    context.verify_mode = VERIFY[settings.client_auth]
    return context


def client_context(settings: TlsSettings, material: Material, files: StoreFiles) -> SSLContext:
    """Without a trust store the operating system's certificates are trusted. Raises TlsError."""
    context = SSLContext(PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verifies_hostnames
    context.verify_mode = CERT_REQUIRED
    _set_up(context, settings, material, files)
    if not material.trusted.certificates:
        context.load_default_certs()
    return context


def _set_up(
    context: SSLContext, settings: TlsSettings, material: Material, files: StoreFiles
) -> None:
    versions = sorted(VERSIONS[each] for each in settings.protocols)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    try:
        if settings.openssl_ciphers:
            context.set_ciphers(settings.openssl_ciphers)
    except SSLError:
        raise TlsError(
            f"ssl.cipher.suites: OpenSSL has none of {', '.join(settings.ciphers)}"
        ) from None
    try:
        if material.trusted.certificates:
            context.load_verify_locations(cadata="".join(material.trusted.certificates))
        if material.own.key:
            with files.lend(
                (material.own.key + "".join(material.own.certificates)).encode()
            ) as path:
                context.load_cert_chain(
                    path,
                    password=lambda: settings.key_password or settings.key_store.password or "",
                )
    except (SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise TlsError(
            f"OpenSSL does not take the key, its password or a certificate: {reason}"
        ) from None


class TlsContexts:
    """The context that holds now, of one listener or of outgoing connections; connections that are
    open keep theirs.
    """

    def __init__(
        self,
        settings: Callable[[], TlsSettings],
        make: Callable[[TlsSettings, Material, StoreFiles], SSLContext],
        files: StoreFiles,
        now: Callable[[], float],
    ) -> None:
        """`make`: server_context or client_context. `now`: seconds of a clock that only goes
        forward.
        """
        self._settings = settings
        self._make = make
        self._files = files
        self._now = now
        self._made: tuple[TlsSettings, Material] | None = None
        self._refused: tuple[TlsSettings, Material] | None = None
        self._context: SSLContext | None = None
        self._looked = 0.0
        self.expires_s: int | None = None  # since the epoch; of the own certificate
        # new keys or certificates that do not do: the old ones stay
        self.on_refused: Callable[[str], None] = lambda reason: None
        self.on_replaced: Callable[[], None] = lambda: None  # there are new ones, or the first
        self.on_looked: Callable[[], None] = lambda: None

    def current(self) -> SSLContext:
        """Raises TlsError while there has never been one that works."""
        settings = self._settings()
        if (
            self._context is not None
            and self._now() - self._looked < LOOK_S
            and self._made is not None
            and settings == self._made[0]
        ):
            return self._context
        self._looked = self._now()
        try:
            self._look(settings)
        except TlsError as error:
            if self._context is None:
                raise
            self.on_refused(str(error))
        self.on_looked()
        assert self._context is not None
        return self._context

    def _look(self, settings: TlsSettings) -> None:
        found = (settings, read_material(settings, self._files))
        if found in (self._made, self._refused):
            return
        try:
            context = self._make(*found, self._files)
        except TlsError:
            self._refused = found
            raise
        self._made, self._refused, self._context = found, None, context
        own = found[1].own.certificates
        self.expires_s = expires_s(own[0]) if own else None
        self.on_replaced()
