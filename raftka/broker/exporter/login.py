"""Logins for a node's pages: Basic (RFC 7617) and Bearer (RFC 6750), with users and tokens from
settings or files. Knows no connection.

A file is read again when it has changed. Only digests with a key of this process are kept, and
compared in constant time.
"""

import hmac
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

from raftka.broker.context import BrokerContext
from raftka.metadata.configs.ports import LOGINS
from raftka.metadata.configs.values import SettingError
from raftka.runtime.interfaces import SECRETS
from raftka.security.tls_context import LOOK_S

KEY_BYTES = 32
TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
BASIC, BEARER = 'Basic realm="raftka", charset="UTF-8"', 'Bearer realm="raftka"'


def needs_login(context: BrokerContext) -> bool:
    return any(context.metadata.settings[name] is not None for name in LOGINS)


class HttpLogins:
    """Raises SettingError for a file of no use at the start. Later the users and tokens of the last
    good file stay.
    """

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._settings = context.metadata.settings
        self._key = context.runtime.random(SECRETS).randbytes(KEY_BYTES)
        self._no_password = self._digest(self._key)
        self._users: dict[str, bytes] = {}
        self._tokens: tuple[bytes, ...] = ()
        self._read_at = context.runtime.clock.now()
        self._read()

    @property
    def challenges(self) -> Sequence[str]:
        """Return values for `WWW-Authenticate`."""
        settings = self._settings
        users = settings["metrics.auth.basic.users"], settings["metrics.auth.basic.users.location"]
        tokens = (
            settings["metrics.auth.bearer.token"],
            settings["metrics.auth.bearer.token.location"],
        )
        return [BASIC] * (users != (None, None)) + [BEARER] * (tokens != (None, None))

    def knows(self, authorization: bytes) -> bool:
        """Check the value of `Authorization`."""
        self._read_again()
        scheme, _, shown = authorization.partition(b" ")
        match scheme.lower():
            case b"basic":
                return self._knows_user(shown.strip())
            case b"bearer":
                digest = self._digest(shown.strip())
                return bool(sum([hmac.compare_digest(digest, each) for each in self._tokens]))
        return False

    def _knows_user(self, shown: bytes) -> bool:
        try:
            user, colon, password = b64decode(shown, validate=True).decode().partition(":")
        except ValueError:
            return False
        expected = self._users.get(user)
        right = hmac.compare_digest(self._digest(password.encode()), expected or self._no_password)
        return right and expected is not None and bool(colon)

    def _digest(self, secret: bytes) -> bytes:
        return hmac.digest(self._key, secret, sha256)

    # files

    def _read_again(self) -> None:
        clock = self._context.runtime.clock
        if clock.now() - self._read_at < LOOK_S:
            return
        self._read_at = clock.now()
        try:
            self._read()
        except SettingError as error:
            self._context.events.warning("http_logins_refused", error=str(error))

    def _read(self) -> None:
        """Read all or nothing. Raises SettingError, without any secret in its text."""
        settings = self._settings
        users = [
            *_users(
                "metrics.auth.basic.users", (settings["metrics.auth.basic.users"] or "").split(",")
            )
        ]
        users += self._from_file(
            "metrics.auth.basic.users.location",
            settings["metrics.auth.basic.users.location"],
            _users,
        )
        tokens = [
            *_tokens("metrics.auth.bearer.token", [settings["metrics.auth.bearer.token"] or ""])
        ]
        tokens += self._from_file(
            "metrics.auth.bearer.token.location",
            settings["metrics.auth.bearer.token.location"],
            _tokens,
        )
        self._users = {user: self._digest(password.encode()) for user, password in users}
        self._tokens = tuple(self._digest(token.encode()) for _, token in tokens)

    def _from_file(
        self,
        name: str,
        location: str | None,
        parse: Callable[[str, Iterable[str]], list[tuple[str, str]]],
    ) -> list[tuple[str, str]]:
        if location is None:
            return []
        try:
            text = self._context.store_files.read(location).decode()
        except OSError as error:
            raise SettingError(
                f"{name}: {location} cannot be read: {error.strerror or error}"
            ) from None
        except UnicodeDecodeError:
            raise SettingError(f"{name}: {location} is no text in UTF-8") from None
        return parse(
            f"{name}: {location}", [line for line in text.splitlines() if not line.startswith("#")]
        )


def _users(name: str, lines: Iterable[str]) -> list[tuple[str, str]]:
    found = [line.strip().partition(":") for line in lines if line.strip()]
    for number, (user, _, password) in enumerate(found, 1):
        if not user or not password:
            raise SettingError(f"{name}: entry {number} is not NAME:PASSWORD")
    return [(user, password) for user, _, password in found]


def _tokens(name: str, lines: Iterable[str]) -> list[tuple[str, str]]:
    """Return tokens, each behind an empty name."""
    found = [line.strip() for line in lines if line.strip()]
    for number, token in enumerate(found, 1):
        if not TOKEN.fullmatch(token):
            raise SettingError(
                f"{name}: entry {number} is not a token: letters, digits and -._~+/ are all that "
                "it may have"
            )
    return [("", token) for token in found]
