"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), both sides, sans-IO. Knows no connection
and no store of credentials.

The server never has the password: a credential is salt, StoredKey, ServerKey and iterations. A
login of a user that does not exist goes on to its last message and fails there, with the same words
as a wrong password, so nobody learns which users there are. There is no channel binding.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from typing import NamedTuple

from raftka.security.mechanism import AuthenticationFailed

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
HASHES = {SHA_256: "sha256", SHA_512: "sha512"}
NUMBERS = {1: SHA_256, 2: SHA_512}  # Kafka's, of AlterUserScramCredentials
FEWEST_ITERATIONS, MOST_ITERATIONS = 4096, 16384
# more is not computed by the client: a server could keep it busy for minutes
MOST_ITERATIONS_OF_SERVER = 1_000_000
SALT_BYTES = 26
TOKEN_AUTH = "tokenauth"

_CLIENT_FIRST = re.compile(
    r"n,(a=(?P<authzid>(?:[^\0=,]|=2C|=3D)*))?,(?P<bare>n=(?P<name>(?:[^\0=,]|=2C|=3D)+),"
    r"r=(?P<nonce>[!-+\--~]+)(?P<more>(?:,[A-Za-z]+=[^\0,]+)*))"
)
_TOKEN_AUTH = re.compile(r",tokenauth=true(?:,|$)", re.IGNORECASE)
_CLIENT_FINAL = re.compile(
    r"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]+)(?:,[A-Za-z]+=[^\0,]+)*),"
    r"p=(?P<proof>[A-Za-z0-9+/=]*)"
)
_SERVER_FIRST = re.compile(
    r"r=(?P<nonce>[!-+\--~]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[1-9][0-9]{0,8})(?:,.*)?"
)


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class TokenLogin(NamedTuple):
    """The password and the user of a delegation token that logs in."""

    credential: ScramCredential
    user: str
    expires_ms: int


Lookup = Callable[[str], ScramCredential | None]  # by the user's name
TokenLookup = Callable[[str], TokenLogin | None]  # by the token's id


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2: about 0.3 ms for a thousand iterations."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def credential_of(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential that a server stores. `salted`: the salted password."""
    stored_key = hashlib.new(HASHES[mechanism], _hmac(mechanism, salted, b"Client Key")).digest()
    return ScramCredential(salt, stored_key, _hmac(mechanism, salted, b"Server Key"), iterations)


def make_credential(
    mechanism: str, password: str, salt: bytes, iterations: int = FEWEST_ITERATIONS
) -> ScramCredential:
    return credential_of(
        mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations
    )


class ScramServer:
    """One login. `lookup` is asked at the first message; `secret` makes up the salts of users that
    do not exist, always the same ones.
    """

    def __init__(
        self,
        name: str,
        lookup: Lookup,
        nonce: str,
        secret: bytes,
        token_lookup: TokenLookup = lambda token_id: None,
    ) -> None:
        self.name = name
        self.by_token = False
        self.user: str | None = None
        self.expires_ms: int | None = None
        self._lookup = lookup
        self._token_lookup = token_lookup
        self._token: TokenLogin | None = None
        self._nonce = nonce
        self._secret = secret
        self._claimed = ""
        self._binding = b""
        self._bare = ""  # client-first without its header
        self._server_first = ""
        self._credential: ScramCredential | None = None

    def step(self, token: bytes) -> bytes:
        return self._final(token) if self._server_first else self._first(token)

    def _first(self, token: bytes) -> bytes:
        match = _CLIENT_FIRST.fullmatch(_text(token))
        if match is None:
            raise AuthenticationFailed
        self._claimed = _unescape(match["name"])
        if match["authzid"] and _unescape(match["authzid"]) != self._claimed:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.by_token = _TOKEN_AUTH.search(match["more"]) is not None
        if self.by_token:
            self._token = self._token_lookup(self._claimed)
            self._credential = self._token.credential if self._token is not None else None
        else:
            self._credential = self._lookup(self._claimed)
        salt, iterations = (
            (self._credential.salt, self._credential.iterations)
            if self._credential
            else self._made_up()
        )
        self._bare = match["bare"]
        self._binding = match[0][: match.start("bare")].encode()
        self._nonce = match["nonce"] + self._nonce
        self._server_first = f"r={self._nonce},s={b64encode(salt).decode()},i={iterations}"
        return self._server_first.encode()

    def _made_up(self) -> tuple[bytes, int]:
        return hmac.digest(self._secret, self._claimed.encode(), "sha256")[
            :SALT_BYTES
        ], FEWEST_ITERATIONS

    def _final(self, token: bytes) -> bytes:
        match = _CLIENT_FINAL.fullmatch(_text(token))
        if (
            match is None
            or _unbase64(match["binding"]) != self._binding
            or not hmac.compare_digest(match["nonce"], self._nonce)
        ):
            raise AuthenticationFailed
        proof, credential = _unbase64(match["proof"]), self._credential
        if credential is None or credential.iterations < FEWEST_ITERATIONS:
            raise AuthenticationFailed
        message = f"{self._bare},{self._server_first},{match['bare']}".encode()
        signature = _hmac(self.name, credential.stored_key, message)
        if len(proof) != len(signature):
            raise AuthenticationFailed
        client_key = hashlib.new(HASHES[self.name], _xor(proof, signature)).digest()
        if not hmac.compare_digest(client_key, credential.stored_key):
            raise AuthenticationFailed
        self.user = self._claimed
        if self.by_token:
            login = self._token_lookup(self._claimed)
            if login is None or login.credential != credential:  # removed since the first message
                self.user = None
                raise AuthenticationFailed
            self.user, self.expires_ms = login.user, login.expires_ms
        return b"v=" + b64encode(_hmac(self.name, credential.server_key, message))


class ScramClient:
    """One login as a client. `extensions`: of the first message, for delegation tokens."""

    def __init__(
        self, name: str, user: str, password: str, nonce: str, extensions: str = ""
    ) -> None:
        self.name = name
        self._password = password
        self._nonce = nonce
        self._bare = f"n={_escape(user)},r={nonce}{extensions}"
        self._signature: bytes | None = None  # the server's, once ours is sent

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def step(self, token: bytes) -> bytes | None:
        """Return the next message, None after the last. Raises AuthenticationFailed when the server
        does not prove that it knows the user.
        """
        text = _text(token)
        if self._signature is None:
            return self._final(text)
        if not hmac.compare_digest(text.encode(), b"v=" + b64encode(self._signature)):
            raise AuthenticationFailed(
                "the server does not know the password: it is not the one that it says it is"
            )
        return None

    def _final(self, server_first: str) -> bytes:
        match = _SERVER_FIRST.fullmatch(server_first)
        if (
            match is None
            or not match["nonce"].startswith(self._nonce)
            or len(match["nonce"]) == len(self._nonce)
        ):
            raise AuthenticationFailed(
                "the server's first SCRAM message is malformed or belongs to another login"
            )
        iterations = int(match["iterations"])
        if not FEWEST_ITERATIONS <= iterations <= MOST_ITERATIONS_OF_SERVER:
            raise AuthenticationFailed(
                f"the server asks for {iterations} iterations; {FEWEST_ITERATIONS} to "
                f"{MOST_ITERATIONS_OF_SERVER} are allowed"
            )
        salted = salted_password(self.name, self._password, _unbase64(match["salt"]), iterations)
        client_key = _hmac(self.name, salted, b"Client Key")
        bare = f"c={b64encode(b'n,,').decode()},r={match['nonce']}"
        message = f"{self._bare},{server_first},{bare}".encode()
        signature = _hmac(self.name, hashlib.new(HASHES[self.name], client_key).digest(), message)
        self._signature = _hmac(self.name, _hmac(self.name, salted, b"Server Key"), message)
        return f"{bare},p={b64encode(_xor(client_key, signature)).decode()}".encode()


def _hmac(mechanism: str, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, HASHES[mechanism])


def _xor(left: bytes, right: bytes) -> bytes:
    return (int.from_bytes(left) ^ int.from_bytes(right)).to_bytes(len(left))


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise AuthenticationFailed from None


def _unbase64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error:
        raise AuthenticationFailed from None


def _escape(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")
