"""Options of webhooks, and their errors as sentences. Opens no connection."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from raftka.pipeline.connect.options import known_options, whole, with_prefix
from raftka.pipeline.errors import OptionRefused

KNOWN = ["url", "rows_per_request", "timeout", "retries", "id", "ca_file", "dead_letters"]
PREFIXES = ["header.", "secret_header.", "kafka."]
OURS = {
    "idempotency-key",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "connection",
}
TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
VALUE = re.compile(r"[\t\x20-\x7e]*")
HERE = {"localhost", "127.0.0.1", "::1"}
MOST_ROWS, MOST_RETRIES, LONGEST_TIMEOUT_S = 10_000, 20, 300


@dataclass(frozen=True, slots=True)
class Webhook:
    host: str
    port: int
    is_tls: bool
    target: str  # path and query, as the request has them
    rows_per_request: int = 1
    timeout_s: int = 10
    retries: int = 5
    id: str | None = None  # the column that names a row in its Idempotency-Key
    headers: Mapping[str, str] = field(default_factory=dict)
    # names of environment variables
    secret_headers: Mapping[str, str] = field(default_factory=dict)
    ca_file: str | None = None
    dead_letters: Mapping[str, str] | None = None  # options of the sink for refused rows

    @property
    def where(self) -> str:
        """Without path and query: they may hold secrets."""
        return f"{'https' if self.is_tls else 'http'}://{self.host}:{self.port}"


def webhook_options(given: Mapping[str, str]) -> Webhook:
    """Raises OptionRefused."""
    options = known_options(given, KNOWN, PREFIXES)
    host, port, is_tls, target = _address(options.get("url", ""))
    headers, secret = with_prefix(options, "header."), with_prefix(options, "secret_header.")
    _check_headers(headers, secret)
    if secret and not is_tls and host not in HERE:
        raise OptionRefused(f"secret_headers would travel in the open to http://{host}: take https")
    rows = whole(options, "rows_per_request", 1, 1, MOST_ROWS)
    name = options.get("id", "").strip() or None
    if name is not None and rows > 1:
        raise OptionRefused("id names one row: it can not be given with rows_per_request above 1")
    ca_file = options.get("ca_file")
    if ca_file is not None and not is_tls:
        raise OptionRefused("ca_file has no meaning without https")
    return Webhook(
        host,
        port,
        is_tls,
        target,
        rows,
        whole(options, "timeout", 10, 1, LONGEST_TIMEOUT_S),
        whole(options, "retries", 5, 0, MOST_RETRIES),
        name,
        headers,
        secret,
        ca_file,
        _dead_letters(options),
    )


def _address(url: str) -> tuple[str, int, bool, str]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise OptionRefused(f"the webhook's URL is none: {error}") from None
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or re.search(r"[\x00-\x20\x7f-\U0010ffff]", url)
    ):
        raise OptionRefused(
            "the webhook's URL is to be https://host/path (or http://), without blanks and with "
            "letters of ASCII only"
        )
    if parts.username is not None or parts.fragment:
        raise OptionRefused(
            "the webhook's URL is to have no user and no fragment: logins go into secret_headers, "
            "such as Authorization"
        )
    is_tls = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return parts.hostname, port or (443 if is_tls else 80), is_tls, target


def _check_headers(headers: Mapping[str, str], secret: Mapping[str, str]) -> None:
    for name in [*headers, *secret]:
        if TOKEN.fullmatch(name) is None:
            raise OptionRefused(f"{name!r} is no name of an HTTP header")
        if name in OURS:
            raise OptionRefused(f"the header {name} is set by the webhook itself")
    if both := headers.keys() & secret.keys():
        raise OptionRefused(
            f"the header {min(both)} is given twice, in headers and in secret_headers"
        )
    for name, value in headers.items():
        if VALUE.fullmatch(value) is None:
            raise OptionRefused(
                f"the value of the header {name} has characters that no header may have"
            )


def _dead_letters(options: Mapping[str, str]) -> dict[str, str] | None:
    topic = options.get("dead_letters")
    kafka = {name: value for name, value in options.items() if name.startswith("kafka.")}
    if topic is None:
        if kafka:
            raise OptionRefused(
                f"{min(kafka)} has a meaning with dead_letters only, a topic for refused rows"
            )
        return None
    if "kafka.bootstrap.servers" not in kafka:
        raise OptionRefused("dead_letters is a topic: kafka.bootstrap.servers is missing")
    return {"topic": topic, **kafka}
