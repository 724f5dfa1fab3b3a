"""One call of the API: what a handler gets, and the ways it may answer."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from raftka.client.blocking.client import Client
from raftka.console.sessions import Session
from raftka.console.settings import ConsoleSettings
from raftka.json_values import Json

if TYPE_CHECKING:
    from raftka.console.view.view import View


class ApiError(Exception):
    """A refusal for the browser: `{"error": code, "message": message}`."""

    def __init__(self, status: int, code: str, message: str) -> None:
        """`status`: of HTTP, 400 to 599. `code`: for programs, such as NOT_FOUND."""
        super().__init__(message)
        self.status, self.code = status, code

    def __reduce__(self) -> tuple[type["ApiError"], tuple[int, str, str]]:
        return ApiError, (self.status, self.code, str(self))


class Download(NamedTuple):
    """A file for the browser to keep, made while it is sent."""

    file_name: str
    content_type: str
    chunks: Iterator[bytes]  # closed when the browser leaves


class Answer(NamedTuple):
    """A document with headers of its own, for what JSON alone cannot say."""

    document: Json
    headers: tuple[str, ...]  # each "Name: value"


Event = tuple[str, Json]  # of a stream: its name, and what is sent with it


def is_never_gone() -> bool:
    return False


def refuse_login(user: str, password: str) -> str:
    raise ApiError(409, "NO_LOGIN", "nobody logs in at this console")


@dataclass(slots=True)
class Call:
    path: Mapping[str, str]  # decoded names of the route's path
    query: Mapping[str, Json]  # by the route's declaration, defaults included
    body: Mapping[str, Json]
    session: Session
    settings: ConsoleSettings
    # ask it in long work: True when the browser has left, or the session or the console has ended
    is_gone: Callable[[], bool] = is_never_gone
    log_in: Callable[[str, str], str] = refuse_login  # user, password: the value of the cookie
    hits: Mapping[str, int] = field(default_factory=dict)  # by the name of a limit

    @property
    def view(self) -> "View":
        """Return what the session has asked of the cluster, kept for a while."""
        return self.session.view

    def client(self) -> AbstractContextManager[Client]:
        """A client with the user's login, for this thread alone until the context ends."""
        return self.session.client()
