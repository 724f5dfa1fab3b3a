"""Settings of a listener for tokens of OAUTHBEARER: the issuer's keys, and the rules for claims.
They are read when the node starts, not later.

Tokens without a signature are accepted only if the settings name Kafka's class for them. No other
class is loaded.
"""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from raftka.metadata.configs.prefixes import AtListener
from raftka.metadata.configs.values import SettingError, Values
from raftka.security import cryptography_package
from raftka.security.jaas import Jaas
from raftka.security.oauth.jwt import Expected
from raftka.security.oauth.oauthbearer import OAUTHBEARER, file_of
from raftka.security.tls_settings import NO_TLS, TlsError, TlsSettings

_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
UNSECURED = f"{_PACKAGE}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
SECURED = f"{_PACKAGE}OAuthBearerValidatorCallbackHandler"
HANDLERS = (SECURED, UNSECURED)
VALIDATORS = (f"{_PACKAGE}DefaultJwtValidator", f"{_PACKAGE}BrokerJwtValidator")
URL = "sasl.oauthbearer.jwks.endpoint.url"
HANDLER = "sasl.server.callback.handler.class"
OWN = "unsecuredValidator"  # options of the JAAS line begin with it


class KeySource(NamedTuple):
    """The place of the issuer's keys, and the interval at which they are read."""

    url: str
    refresh_s: float
    retry_s: float
    retry_max_s: float
    tls: TlsSettings


class OAuthSettings(NamedTuple):
    expected: Expected
    source: KeySource | None  # None: tokens have no signature


def oauth_of(values: Values, listener: str, jaas: Jaas | None) -> OAuthSettings:
    """Raises SettingError."""
    settings = AtListener(values, listener, OAUTHBEARER)
    url = settings["sasl.oauthbearer.jwks.endpoint.url"]
    handler = settings["sasl.server.callback.handler.class"]
    options = jaas.options if jaas is not None else {}
    if settings["sasl.oauthbearer.jwt.validator.class"] not in VALIDATORS:
        raise SettingError(
            f"listener {listener}: sasl.oauthbearer.jwt.validator.class must be one of "
            f"{', '.join(VALIDATORS)}: no class is loaded"
        )
    if handler == UNSECURED:
        if url is not None:
            raise SettingError(
                f"listener {listener}: {URL} is set, and {HANDLER} takes tokens without a "
                "signature: remove one of them"
            )
        return OAuthSettings(_unsecured(options), None)
    if url is None:
        keys = f"OAUTHBEARER needs the keys of the tokens' issuer, {URL}"
        raise SettingError(
            f"listener {listener}: {keys}; without signatures (for tests) it needs "
            f"{HANDLER}={UNSECURED}"
        )
    _check_url(str(url), listener)
    if not cryptography_package.is_installed():
        raise SettingError(
            f"listener {listener}: OAUTHBEARER with {URL} {cryptography_package.NEEDS_IT}"
        )
    audiences = settings.names("sasl.oauthbearer.expected.audience")
    issuer = settings.text("sasl.oauthbearer.expected.issuer")
    any_audience = settings["sasl.oauthbearer.allow.unverified.audience"]
    any_issuer = settings["sasl.oauthbearer.allow.unverified.issuer"]
    _check_verified(listener, "audience", bool(audiences or any_audience))
    _check_verified(listener, "issuer", bool(issuer or any_issuer))
    expected = Expected(
        audiences=audiences,
        issuer=issuer,
        skew_ms=1000 * settings.number("sasl.oauthbearer.clock.skew.seconds"),
        user_claim=str(settings["sasl.oauthbearer.sub.claim.name"]),
        scope_claim=str(settings["sasl.oauthbearer.scope.claim.name"]),
    )
    try:
        tls = TlsSettings.of(options.get) if str(url).startswith("https:") else NO_TLS
    except TlsError as error:
        raise SettingError(f"listener {listener}: {URL}: {error}") from None
    source = KeySource(
        str(url),
        settings.number("sasl.oauthbearer.jwks.endpoint.refresh.ms") / 1000,
        settings.number("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms") / 1000,
        settings.number("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms") / 1000,
        tls,
    )
    return OAuthSettings(expected, source)


def _check_verified(listener: str, claim: str, is_settled: bool) -> None:
    """Refuse, as Kafka 4.4 does, a listener that would take tokens of the issuer for other
    services, or of another issuer that the same keys serve.
    """
    if not is_settled:
        raise SettingError(
            f"listener {listener}: set sasl.oauthbearer.expected.{claim}, or "
            f"sasl.oauthbearer.allow.unverified.{claim}=true to take tokens of any {claim}"
        )


def _check_url(url: str, listener: str) -> None:
    try:
        if file_of(url) is not None:
            return
        parts = urlsplit(url)
        fine = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and "@" not in parts.netloc
        )
    except ValueError:
        fine = False
    if not fine or not url.isascii() or any(sign <= " " or sign == "\x7f" for sign in url):
        raise SettingError(
            f"listener {listener}: {URL} must be file:///path, https://host[:port]/path or "
            "http://host[:port]/path"
        )


def _unsecured(options: Mapping[str, str]) -> Expected:
    known = {
        f"{OWN}PrincipalClaimName",
        f"{OWN}ScopeClaimName",
        f"{OWN}RequiredScope",
        f"{OWN}AllowableClockSkewMs",
    }
    skew_ms = options.get(f"{OWN}AllowableClockSkewMs", "0")
    if not (skew_ms.isascii() and skew_ms.isdigit() and len(skew_ms) < 10):
        raise SettingError(f"{OWN}AllowableClockSkewMs must be a number of milliseconds")
    if unknown := [name for name in options if name.startswith(OWN) and name not in known]:
        raise SettingError(f"there is no option {unknown[0]} of a login module")
    return Expected(
        skew_ms=int(skew_ms),
        user_claim=options.get(f"{OWN}PrincipalClaimName", "sub"),
        scope_claim=options.get(f"{OWN}ScopeClaimName", "scope"),
        scopes=tuple(options.get(f"{OWN}RequiredScope", "").split()),
        must_be_issued=False,
    )
