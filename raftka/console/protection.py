"""Protection of browsers: other sites must not read from the console, write through it, or frame
it. Records and names of topics come from strangers, and must not run as scripts.
"""

import ipaddress
import socket
from collections.abc import Callable, Collection
from urllib.parse import urlsplit

from raftka.console.call import ApiError
from raftka.console.routes import SAFE
from raftka.console.settings import LOOPBACK, ConsoleSettings
from raftka.http.messages import Request

# of all responses
HEADERS = (
    "Content-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; object-src 'none'",
    "X-Content-Type-Options: nosniff",
    "X-Frame-Options: DENY",  # of browsers that do not know frame-ancestors
    "Referrer-Policy: no-referrer",
    "Cross-Origin-Opener-Policy: same-origin",
    "Cross-Origin-Resource-Policy: same-origin",
)
OWN_HEADER = b"x-raftka-console"  # other sites cannot send it without asking first (CORS)
OWN_VALUE = b"1"
FROM_ELSEWHERE = (b"cross-site", b"same-site")  # another port of this host is the same site
WRONG_HOST, FOREIGN = "WRONG_HOST", "FOREIGN_ORIGIN"


class Hosts:
    """Names under which browsers may reach the console.

    A page of another site whose name is made to lead here (DNS rebinding) has that name in Host. An
    address cannot be such a name.
    """

    def __init__(
        self,
        settings: ConsoleSettings,
        own_names: Callable[[], Collection[str]] = lambda: (socket.gethostname(),),
    ) -> None:
        self._only_loopback = settings.is_loopback
        own = () if settings.is_loopback else (settings.host, *own_names())
        self._names = {name.lower() for name in (*LOOPBACK, *own, *settings.allowed_hosts)}

    def check(self, request: Request) -> None:
        """Raises ApiError. A request without a name comes from no browser."""
        value = request.headers.get(b"host", b"")
        name = host_of(value.decode("latin-1"))
        if not value or name in self._names or (not self._only_loopback and is_address(name)):
            return
        raise ApiError(
            421,
            WRONG_HOST,
            f"the console is not called {name[:200]!r}: `raftka console --allow-host NAME` adds "
            "a name",
        )


def host_of(value: str) -> str:
    """Return the name in a header Host, without its port; empty for one that is malformed."""
    try:
        parts = urlsplit(f"//{value}")
        _ = parts.port  # raises ValueError for one that is no number
    except ValueError:
        return ""
    if parts.netloc != value or "@" in value:
        return ""
    return (parts.hostname or "").lower()


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def check_origin(request: Request) -> None:
    """Check that a request to the API comes from the console's own pages, or from no page. Raises
    ApiError.
    """
    headers = request.headers
    if headers.get(b"sec-fetch-site", b"none").lower() in FROM_ELSEWHERE:
        raise ApiError(403, FOREIGN, "the request comes from a page of another origin")
    origin = headers.get(b"origin")
    if origin is not None and not is_own_origin(origin, headers.get(b"host", b"")):
        raise ApiError(403, FOREIGN, "the request comes from a page of another origin")
    if request.method not in SAFE and headers.get(OWN_HEADER) != OWN_VALUE:
        raise ApiError(403, FOREIGN, "a request that is not GET has the header X-Raftka-Console: 1")


def is_own_origin(origin: bytes, host: bytes) -> bool:
    """Compare host and port; the scheme may be that of a proxy with TLS."""
    scheme, _, rest = origin.partition(b"://")
    return scheme in (b"http", b"https") and rest.lower() == host.lower()
