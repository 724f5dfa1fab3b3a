"""The keys of the issuer of a listener's tokens: read when the node starts and from time to time,
beside the loop, and kept while no others can be read.

The setting names the only file or URL that is ever read. After a token with an unknown key id they
are read again, at most once a minute.
"""

from collections.abc import Callable
from urllib.parse import urlsplit

from raftka.broker.context import BrokerContext
from raftka.http.answer_reader import HttpFailed
from raftka.http.client import Answer, Wanted, fetch
from raftka.limits import KEY_SET_BYTES, KEY_SET_SECONDS, LimitExceeded
from raftka.metadata.configs.oauth import KeySource
from raftka.security.mechanism import NotReady
from raftka.security.oauth.jwks import KeySet, UnknownKey, read_key_set
from raftka.security.oauth.jwt import Expected, InvalidToken, Verified, check_claims, read_jwt
from raftka.security.oauth.oauthbearer import file_of
from raftka.security.tls_context import TlsContexts, client_context
from raftka.security.tls_settings import TlsError

EXPEDITE_S = 60.0


class IssuerKeys:
    def __init__(self, context: BrokerContext, listener: str, source: KeySource) -> None:
        self._context = context
        self._clock = context.runtime.clock
        self._listener = listener
        self._source = source
        self._tls = TlsContexts(
            lambda: source.tls, client_context, context.store_files, self._clock.now
        )
        self._keys: KeySet | None = None
        self._reading = False
        self._failures = 0
        self._expedited_at = -EXPEDITE_S
        self._next = 0  # the number of the timer that counts
        self._read()

    def verify(self, expected: Expected, text: str) -> Verified:
        """Raises InvalidToken, and NotReady before there are keys."""
        token = read_jwt(text)
        if self._keys is None:
            raise NotReady("the issuer's keys have not come yet")
        try:
            self._keys.verify(token)
        except UnknownKey:
            self._expedite()
            raise
        return check_claims(token.claims, expected, self._clock.wall_ms())

    def _expedite(self) -> None:
        if self._clock.now() - self._expedited_at >= EXPEDITE_S:
            self._expedited_at = self._clock.now()
            self._read()

    def _read(self) -> None:
        if self._reading or self._context.stopped:
            return
        self._reading = True
        path = file_of(self._source.url)
        if path is not None:
            read = self._context.runtime.files.read
            self._context.runtime.offload.run(lambda: _key_set(read(path)), self._on_keys)
            return
        try:
            self._get()
        except TlsError as error:
            self._on_keys(error)

    def _get(self) -> None:
        """Raises TlsError."""
        url = urlsplit(self._source.url)
        tls = (self._tls.current(), self._context.later) if url.scheme == "https" else None
        fetch(
            self._context.runtime, Wanted(url, KEY_SET_BYTES), KEY_SET_SECONDS, self._on_answer, tls
        )

    def _on_answer(self, result: Answer | HttpFailed | LimitExceeded) -> None:
        if isinstance(result, Answer):
            self._context.runtime.offload.run(lambda: _key_set(result.body), self._on_keys)
        else:
            self._on_keys(result)

    def _on_keys(self, result: KeySet | BaseException) -> None:
        self._reading = False
        source = self._source
        if isinstance(result, KeySet):
            if result.keys and self._keys is None:
                self._context.events.info(
                    "issuer_keys_loaded", listener=self._listener, keys=len(result.keys)
                )
            self._keys, self._failures = result, 0
            self._again_in(source.refresh_s)
            return
        reason = (result.strerror or str(result)) if isinstance(result, OSError) else str(result)
        self._context.events.warning(
            "issuer_keys_failed", listener=self._listener, url=source.url, reason=reason
        )
        if isinstance(result, LimitExceeded):
            self._context.metrics.hit(result.limit)
        pause_s = min(source.retry_max_s, source.retry_s * 2 ** min(self._failures, 30))
        self._failures += 1
        self._again_in(pause_s)

    def _again_in(self, seconds: float) -> None:
        self._next += 1
        number = self._next

        def due() -> None:
            if number == self._next:
                self._read()

        self._clock.call_at(self._clock.now() + seconds, due)


def _key_set(data: bytes) -> KeySet:
    """Raises JwksError and LimitExceeded."""
    if len(data) > KEY_SET_BYTES.value:
        raise LimitExceeded(KEY_SET_BYTES, len(data))
    return read_key_set(data)


def unsecured(wall_ms: Callable[[], int], expected: Expected, text: str) -> Verified:
    """Check a token without a signature. Raises InvalidToken."""
    token = read_jwt(text)
    if token.algorithm != "none" or token.signature:
        raise InvalidToken("it has a signature, or an algorithm for one")
    return check_claims(token.claims, expected, wall_ms())
