"""The client of the SQL server: `connect(...)`, for programs and for the prompt. Starts the server
of this user and cluster when there is none.

    connection = raftka.sql.connect("localhost:9092")
    for row in connection.execute("select key, value from `trucks`"):
        print(row["key"])
"""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Lock
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlsplit

from raftka.http.messages import EVENTS
from raftka.json_values import Json, JsonObject
from raftka.sql.answers import Column, Words, distinct_names
from raftka.sql.server.folder import Address
from raftka.sql.server.launch import NoServer, Wanted, find_or_start

HEALTH_S = 10.0  # until a server counts as silent
READ_BYTES = 64 * 1024
JSON_TYPE = "application/json"
# codes of errors: nothing was sent; the statement may have been done or not
NO_SERVER, SERVER_LOST = "NO_SERVER", "SERVER_LOST"
LOST = "the SQL server has ended before its answer did: the next statement starts a new one"


class SqlError(Exception):
    """A statement was refused or failed, or there is no server. The text is for the user."""

    def __init__(self, message: str, code: str = NO_SERVER) -> None:
        """`code`: for programs, as the server has it, such as STATEMENT_REFUSED."""
        super().__init__(message)
        self.code = code


class Rows:
    """The answer to a statement: an iterator of rows, by the names of their columns. Its methods
    block, and raise SqlError. `close` ends the statement; it may be called in another thread.
    """

    def __init__(self, http: HTTPConnection, response: HTTPResponse) -> None:
        self._http, self._response = http, response
        self._buffer = b""
        self._waiting: list[list[Json]] = []  # rows that have come, the next one last
        self._is_over = False
        self._lock = Lock()
        self.note = ""  # the server's sentence about the answer, once all rows were read
        name, head = self._event()
        if name != "columns":
            raise SqlError("the server does not speak as an SQL server does")
        self.id: str = head["id"]
        self.is_live: bool = head["is_live"]
        self.columns: Sequence[Column] = [
            Column(each["name"], each["type"]) for each in head["columns"]
        ]
        self.names = distinct_names(self.columns)

    def __iter__(self) -> Iterator[dict[str, Json]]:
        return self

    def __next__(self) -> dict[str, Json]:
        if not self._waiting:
            self._waiting = self.take()[::-1]
            if not self._waiting:
                raise StopIteration
        return dict(zip(self.names, self._waiting.pop(), strict=True))

    def take(self) -> list[list[Json]]:
        """Return the rows that come next, at least one, as lists; none: the answer has ended."""
        while not self._is_over:
            name, value = self._event()
            if name == "rows":
                rows: list[list[Json]] = value
                return rows
            self.close()
            if name == "failure":
                raise SqlError(value["message"], value["error"])
            self.note = value["note"]
        return []

    def close(self) -> None:
        with self._lock:
            is_first, self._is_over = not self._is_over, True
        if is_first:
            _shut(self._http)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _event(self) -> tuple[str, Json]:
        """Return the next event; the end where the rows were closed meanwhile."""
        while True:
            text, separator, rest = self._buffer.partition(b"\n\n")
            if separator:
                self._buffer = rest
                found = _parse_event(text)
                if found is not None:
                    return found
                continue
            try:
                more = self._response.read1(READ_BYTES)
            except (OSError, HTTPException, ValueError, AttributeError):
                more = b""  # ValueError, AttributeError: it was closed in another thread
            if not more:
                if self._is_over:
                    return "end", {"note": ""}
                self.close()
                raise SqlError(LOST, SERVER_LOST)
            self._buffer += more


def _parse_event(text: bytes) -> tuple[str, Json] | None:
    """Return name and value; None for a heartbeat."""
    fields = dict(line.split(b": ", 1) for line in text.split(b"\n") if b": " in line)
    if b"data" not in fields:
        return None
    return fields.get(b"event", b"").decode(), json.loads(fields[b"data"])


def _shut(http: HTTPConnection) -> None:
    """Close a connection, also while another thread reads from it."""
    sock = http.sock
    if sock is not None:
        try:
            sock.shutdown(2)
        except OSError:
            """The server has closed it."""
    http.close()


class Connection:
    """A way to one SQL server, for many threads."""

    def __init__(
        self,
        address: Address,
        *,
        patience_s: float | None = None,
        login: tuple[str, str] | None = None,
        start: Callable[[], Address] | None = None,
    ) -> None:
        """`patience_s`: how long one read may take; None: as long as it likes. `login`: user and
        password, in place of the token. `start`: finds or starts a server when this one has ended,
        or raises SqlError; None: nothing does.
        """
        self.address, self._patience_s, self._start = address, patience_s, start
        self._login = login
        self._tls = _tls_of(address)

    def execute(
        self,
        text: str,
        limit: int | None = None,
        on_open: Callable[[Callable[[], None]], None] = lambda end: None,
    ) -> Rows:
        """Run a statement; return when its columns are known. Raises SqlError. Blocks, also while
        Spark starts. A server that has ended, idle or killed, is started anew. `limit`: of rows.
        `on_open`: called before the statement is sent, with a function that ends it, in any thread.
        """
        try:
            http = self._open(self._patience_s)
        except SqlError:
            if self._start is None:
                raise
            self.address = self._start()
            http = self._open(self._patience_s)
        body = json.dumps({"text": text, "limit": limit}).encode()
        try:
            on_open(partial(_shut, http))
            response = self._ask(http, "POST", "/statements", body, EVENTS)
            return Rows(http, response)
        except BaseException:
            _shut(http)
            raise

    def words(self) -> Words:
        """Return names to complete. Raises SqlError."""
        return Words(**self._get("/words", None))

    def health(self) -> JsonObject:
        """Return the state of Spark and the limits. Raises SqlError."""
        found: JsonObject = self._get("/health", HEALTH_S)
        return found

    def statements(self) -> Sequence[JsonObject]:
        """Return the statements that run, of all clients. Raises SqlError."""
        found: Sequence[JsonObject] = self._get("/statements", HEALTH_S)
        return found

    def end(self, id: str) -> None:
        """End a statement. Raises SqlError."""
        http = self._open(HEALTH_S)
        try:
            self._ask(http, "DELETE", f"/statements/{quote(id, safe='')}", b"", JSON_TYPE).read()
        finally:
            http.close()

    def _get(self, path: str, patience_s: float | None) -> Json:
        http = self._open(patience_s)
        try:
            return json.loads(self._ask(http, "GET", path, b"", JSON_TYPE).read())
        except (OSError, HTTPException) as error:
            raise SqlError(LOST, SERVER_LOST) from error
        finally:
            http.close()

    def _open(self, patience_s: float | None) -> HTTPConnection:
        """Raises SqlError."""
        parts = urlsplit(self.address.url)
        host, port = parts.hostname or "", parts.port
        http = (
            HTTPConnection(host, port, timeout=patience_s)
            if self._tls is None
            else HTTPSConnection(host, port, timeout=patience_s, context=self._tls)
        )
        try:
            http.connect()
        except OSError as error:
            raise SqlError(f"no SQL server answers at {self.address.url}: {error}") from None
        return http

    def _ask(
        self, http: HTTPConnection, method: str, path: str, body: bytes, accept: str
    ) -> HTTPResponse:
        """Return the response once its head is there. Raises SqlError for a refusal."""
        authorization = f"Bearer {self.address.token}"
        if self._login is not None:
            encoded = base64.b64encode(":".join(self._login).encode()).decode()
            authorization = f"Basic {encoded}"
        headers = {"Authorization": authorization, "Accept": accept}
        try:
            http.request(method, path, body or None, headers)
            response = http.getresponse()
            if response.status == 200:
                return response
            told = json.loads(response.read())
            raise SqlError(told["message"], told["error"])
        except (OSError, HTTPException) as error:
            raise SqlError(LOST, SERVER_LOST) from error


class AsyncConnection:
    """The same for asyncio: what blocks runs in threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def execute(self, text: str, limit: int | None = None) -> AsyncIterator[dict[str, Json]]:
        """Yield rows. The statement ends with the iteration, or when its task is cancelled. Raises
        SqlError.
        """
        begun = asyncio.ensure_future(asyncio.to_thread(self._connection.execute, text, limit))
        try:
            rows = await asyncio.shield(begun)
        except asyncio.CancelledError:
            begun.add_done_callback(_close_rows)
            raise
        try:
            while batch := await asyncio.to_thread(rows.take):
                for row in batch:
                    yield dict(zip(rows.names, row, strict=True))
        finally:
            rows.close()


def connect(
    bootstrap: str = "localhost:9092",
    *,
    properties: Mapping[str, str] | None = None,
    url: str | None = None,
    token: str = "",
    certificate: str = "",
    login: tuple[str, str] | None = None,
) -> Connection:
    """Return a connection to the SQL server of this user and cluster, which is started where none
    runs. `properties`: of the client, for the brokers. Raises SqlError. Blocks for about a second;
    Spark starts meanwhile.

    `url`, `token`: of a server that was started by hand, perhaps on another machine, in place of
    this; `certificate`: PEM that is trusted for it. `login`: user and password of the cluster, in
    place of the token.
    """
    if url is not None:
        return Connection(Address(url, token, 0, certificate), login=login)
    return connect_wanted(Wanted(bootstrap, properties or {}))


async def connect_async(
    bootstrap: str = "localhost:9092", *, properties: Mapping[str, str] | None = None
) -> AsyncConnection:
    """As `connect`, for asyncio. Raises SqlError."""
    return AsyncConnection(await asyncio.to_thread(connect, bootstrap, properties=properties))


def connect_wanted(wanted: Wanted) -> Connection:
    """As `connect`, with all that may be said of a server. Raises SqlError."""

    def start() -> Address:
        try:
            return find_or_start(wanted, answers).address
        except NoServer as error:
            raise SqlError(str(error)) from None

    return Connection(start(), start=start)


def _close_rows(begun: "asyncio.Future[Rows]") -> None:
    if begun.exception() is None:
        begun.result().close()


def answers(address: Address) -> bool:
    """Ask whether a server is there."""
    try:
        Connection(address).health()
    except SqlError:
        return False
    return True


def _tls_of(address: Address) -> ssl.SSLContext | None:
    if not address.url.startswith("https:"):
        return None
    context = ssl.create_default_context()
    if address.certificate:
        context.load_verify_locations(address.certificate)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.check_hostname = False  # this one certificate is trusted, whatever its names
    return context
