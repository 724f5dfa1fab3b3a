"""The security of a client's connections: Kafka's `security.protocol` and the settings that belong
to it. Knows no connection, and reads files through its caller.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import NamedTuple

from raftka.security.client_properties import check_client_properties
from raftka.security.jaas import Jaas, parse_jaas
from raftka.security.kerberos.library import KerberosLogin, initiate
from raftka.security.kerberos.logins import SERVICE, client_login
from raftka.security.kerberos.mechanism import GssapiClient
from raftka.security.mechanism import GSSAPI, AuthenticationFailed, ClientMechanism
from raftka.security.oauth.jwt import unsecured_jwt
from raftka.security.oauth.oauthbearer import OAUTHBEARER, OAuthBearerClient, file_of
from raftka.security.plain import PLAIN, PlainClient
from raftka.security.scram import HASHES, TOKEN_AUTH, ScramClient
from raftka.security.tls_settings import NO_TLS, TlsSettings

NONCE_BYTES = 18
MECHANISMS = (PLAIN, *HASHES, OAUTHBEARER, GSSAPI)
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
STRING_CLAIM = "unsecuredLoginStringClaim_"
LIFE_S = 3600  # of a token without a signature
LONGEST_TOKEN_BYTES = 60_000  # a frame before the login may have 64 KiB


class Outside(NamedTuple):
    """The clock and the files that a login may need."""

    read: Callable[[str], bytes]  # a file
    wall_ms: Callable[[], int]


class TokenSource(NamedTuple):
    """The source of a client's OAUTHBEARER token: a file, or claims without a signature."""

    file: str = ""
    claims: tuple[tuple[str, str], ...] = ()
    life_s: int = LIFE_S

    def token(self, outside: Outside) -> str:
        """Raises AuthenticationFailed."""
        if not self.file:
            now_s = outside.wall_ms() // 1000
            return unsecured_jwt({**dict(self.claims), "iat": now_s, "exp": now_s + self.life_s})
        try:
            token = outside.read(self.file).decode("ascii").strip()
        except OSError as error:
            raise AuthenticationFailed(
                f"the token's file {self.file} cannot be read: {error.strerror or error}"
            ) from None
        except UnicodeDecodeError:
            token = ""
        if not token or len(token) > LONGEST_TOKEN_BYTES:
            raise AuthenticationFailed(f"the file {self.file} has no token")
        return token


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    security_protocol: str = "PLAINTEXT"
    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    tls: TlsSettings = NO_TLS
    token_auth: bool = False  # user and password are a delegation token's id and its HMAC
    source: TokenSource | None = field(default=None, repr=False)  # with OAUTHBEARER
    kerberos: KerberosLogin | None = None  # with GSSAPI

    @property
    def uses_tls(self) -> bool:
        return uses_tls(self.security_protocol)

    def login(
        self, random: Random, outside: Outside | None = None
    ) -> Callable[[str], ClientMechanism] | None:
        """Return the function that begins a login at a host; None where there is no login.
        `random`: for nonces. It raises AuthenticationFailed when it has no token.
        """
        if not uses_sasl(self.security_protocol):
            return None

        def begin(host: str) -> ClientMechanism:
            if self.mechanism == PLAIN:
                return PlainClient(self.user, self.password)
            if self.mechanism == OAUTHBEARER:
                if self.source is None or outside is None:
                    raise AuthenticationFailed("there is no token")
                return OAuthBearerClient(self.source.token(outside))
            if self.mechanism == GSSAPI:
                if self.kerberos is None:
                    raise AuthenticationFailed("there is no keytab")
                return GssapiClient(partial(initiate, self.kerberos, host))
            extensions = f",{TOKEN_AUTH}=true" if self.token_auth else ""
            return ScramClient(
                self.mechanism,
                self.user,
                self.password,
                random.randbytes(NONCE_BYTES).hex(),
                extensions,
            )

        return begin


PLAINTEXT = ClientSecurity()
PROTOCOLS = ("PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL")


def uses_sasl(security_protocol: str) -> bool:
    return security_protocol.startswith("SASL_")


def uses_tls(security_protocol: str) -> bool:
    return security_protocol.endswith("SSL")


def client_security(properties: Mapping[str, str]) -> ClientSecurity:
    """Of Kafka's client properties: `security.protocol`, `ssl.*`, `sasl.mechanism`, and
    `sasl.jaas.config` or `sasl.username` and `sasl.password`.

    Properties that have nothing to do with security are left alone. Raises ValueError, without any
    secret in its text.
    """
    check_client_properties(properties)
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise ValueError(f"security.protocol must be {' or '.join(PROTOCOLS)}")
    tls = TlsSettings.of(properties.get) if uses_tls(protocol) else NO_TLS
    if not uses_sasl(protocol):
        return ClientSecurity(protocol, tls=tls)
    mechanism = properties.get("sasl.mechanism", "")
    if mechanism not in MECHANISMS:
        raise ValueError(f"sasl.mechanism must be {', '.join(MECHANISMS)}")
    jaas = parse_jaas(properties["sasl.jaas.config"]) if "sasl.jaas.config" in properties else None
    if jaas is not None and mechanism not in jaas.mechanisms:
        raise ValueError(f"the login module of sasl.jaas.config is not one for {mechanism}")
    if mechanism == OAUTHBEARER:
        return ClientSecurity(
            protocol, mechanism, tls=tls, source=token_source(jaas, properties.get(TOKEN_URL))
        )
    if mechanism == GSSAPI:
        return ClientSecurity(
            protocol, mechanism, tls=tls, kerberos=client_login(jaas, properties.get(SERVICE))
        )
    user, password = properties.get("sasl.username"), properties.get("sasl.password")
    if jaas is not None:
        user, password = jaas.options.get("username"), jaas.options.get("password")
    if not user or password is None:
        raise ValueError("sasl.jaas.config must have a username and a password")
    return ClientSecurity(protocol, mechanism, user, password, tls, token_auth=is_token(jaas))


def security_for(
    security: ClientSecurity, mechanism: str, name: str, password: str
) -> ClientSecurity:
    """Return these settings with the login of another user. Raises ValueError for a mechanism
    without passwords, and for an empty name.
    """
    protocol = "SASL_SSL" if security.uses_tls else "SASL_PLAINTEXT"
    own = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": name,
        "sasl.password": password,
    }
    return replace(client_security(own), security_protocol=protocol, tls=security.tls)


def is_token(jaas: Jaas | None) -> bool:
    """Return whether a client's user and password are those of a delegation token."""
    return jaas is not None and jaas.options.get(TOKEN_AUTH, "").lower() == "true"


def token_source(jaas: Jaas | None, url: str | None) -> TokenSource:
    """Raises ValueError."""
    options = jaas.options if jaas is not None else {}
    claims = tuple(
        (name.removeprefix(STRING_CLAIM), value)
        for name, value in options.items()
        if name.startswith(STRING_CLAIM)
    )
    if claims and url is None:
        life_s = options.get("unsecuredLoginLifetimeSeconds", str(LIFE_S))
        if not (life_s.isascii() and life_s.isdigit() and 0 < int(life_s) <= 10**9):
            raise ValueError("unsecuredLoginLifetimeSeconds must be a number of seconds")
        return TokenSource(claims=claims, life_s=int(life_s))
    path = file_of(url) if url is not None else None
    if path is None:
        raise ValueError(
            f"OAUTHBEARER needs a token: {TOKEN_URL}=file:///path, or {STRING_CLAIM}sub in "
            "sasl.jaas.config for one without a signature"
        )
    return TokenSource(file=path)
