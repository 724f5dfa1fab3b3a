"""Sessions: users log in at the brokers, see what their ACLs allow, and log out."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
import trio

from raftka.client.blocking.connection import addresses_of
from raftka.console import sessions
from raftka.console.call import Call
from raftka.console.parameters import Field
from raftka.console.routes import route
from raftka.console.server import ConsoleServer
from raftka.console.sessions import Sessions, cookie_name
from raftka.console.settings import ConsoleSettings, warnings_of
from raftka.json_values import Json
from raftka.limits import Limit
from raftka.security.client_security import ClientSecurity
from raftka.testing import Cluster
from raftka.wire.errors import Code, KafkaError
from raftka.wire.messages.topics import CREATE_TOPICS
from tests.console.scene import own_routes
from tests.kit.console import Api, console_of
from tests.kit.secured_registry import ADMIN, secured

__all__ = ["secured"]


def list_topics(call: Call) -> Json:
    with call.client() as client:
        return sorted(topic.name or "" for topic in client.metadata(None).topics)


def create_topic(call: Call) -> Json:
    new = CREATE_TOPICS.request.topics(
        name=call.body["name"], num_partitions=1, replication_factor=1
    )
    with call.client() as client:
        answer = client.ask_controller(CREATE_TOPICS, CREATE_TOPICS.request(topics=[new]))
    (made,) = answer.topics
    if made.error_code:
        raise KafkaError(Code(made.error_code), made.error_message)
    return made.name


@pytest.fixture
def console(secured: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConsoleServer]:
    monkeypatch.setattr("raftka.console.workers.FAILED_LOGIN_S", 0.01)
    with own_routes(monkeypatch):
        route("GET", "/api/test/topics", "")(list_topics)
        route("POST", "/api/test/topics", "", body={"name": Field(str)}, writes=True)(create_topic)
        with console_of(secured, login="PLAIN") as console:
            yield console


@pytest.fixture
def api(console: ConsoleServer) -> Api:
    return Api(console.url)


def log_in(console: ConsoleServer, user: str) -> Api:
    api = Api(console.url)
    api.post("/api/login", user=user, password=f"{user}-secret")
    return api


def test_browser_without_a_login_gets_its_page_and_nothing_else(
    console: ConsoleServer, api: Api
) -> None:
    assert api.get("/api/me") == {**api.get("/api/me"), "user": None, "login_needed": True}
    assert "paths" in api.get("/api/openapi.json")
    for path in ("/api/test/topics", "/api/limits"):
        answer = api.ask("GET", path)
        assert (answer.status, answer.json["error"]) == (401, "UNAUTHORIZED")
    assert api.ask("POST", "/api/test/topics", body={"name": "x"}).status == 401
    api.cookie = f"{cookie_name(console.port)}=guessed"
    assert api.ask("GET", "/api/test/topics").status == 401


@pytest.mark.parametrize(
    ("user", "password"),
    [("reader", "wrong"), ("reader", ""), ("stranger", "x"), ("", "x"), ("reader", "x\0y")],
)
def test_wrong_password_is_refused_without_a_cookie(api: Api, user: str, password: str) -> None:
    answer = api.ask("POST", "/api/login", body={"user": user, "password": password})

    assert (answer.status, answer.json["error"]) == (401, "UNAUTHORIZED")
    assert "set-cookie" not in answer.headers
    assert password not in answer.json["message"] or not password.strip("x")


def test_cookie_is_kept_from_scripts_and_from_other_sites(console: ConsoleServer, api: Api) -> None:
    answer = api.ask("POST", "/api/login", body={"user": "reader", "password": "reader-secret"})

    name, *attributes = answer.headers["set-cookie"].split("; ")
    assert name.startswith(f"{cookie_name(console.port)}=")
    assert len(name) > 50
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict"]
    assert api.get("/api/me")["user"] == "reader"
    assert api.get("/api/me")["login_needed"] is False


def test_login_at_one_console_leaves_that_of_another_on_the_same_host(
    secured: Cluster, console: ConsoleServer
) -> None:
    first = log_in(console, "reader")
    with console_of(secured, login="PLAIN") as other:
        second = log_in(other, "admin")
        # a browser sends both cookies to both ports, and keeps one of each name
        jar = dict(each.cookie.split("=", 1) for each in (first, second))
        first.cookie = second.cookie = "; ".join(map("=".join, jar.items()))

        assert first.get("/api/me")["user"] == "reader"
        assert second.get("/api/me")["user"] == "admin"


def test_users_see_and_do_what_their_acls_allow(console: ConsoleServer) -> None:
    reader, nobody, admin = (log_in(console, user) for user in ("reader", "nobody", "admin"))

    assert reader.get("/api/test/topics") == ["orders"]
    assert nobody.get("/api/test/topics") == []
    refused = reader.ask("POST", "/api/test/topics", body={"name": "hidden"})
    assert (refused.status, refused.json["error"]) == (403, "TOPIC_AUTHORIZATION_FAILED")
    assert admin.post("/api/test/topics", name="hidden") == "hidden"
    assert admin.get("/api/test/topics") == ["hidden", "orders"]
    assert reader.get("/api/test/topics") == ["orders"]


def test_logout_ends_the_session_its_pages_and_no_other(console: ConsoleServer) -> None:
    first, second = log_in(console, "reader"), log_in(console, "reader")
    old = first.cookie
    with first.stream("/api/test/topics", {"every": 1}) as page:
        assert page.next() == ("", ["orders"])

        answer = first.ask("POST", "/api/logout")

        assert "Max-Age=0" in answer.headers["set-cookie"]
        failure = page.next()
        assert failure is not None
        assert (failure.name, failure.json["status"]) == ("failure", 401)
        assert page.next() is None
    first.cookie = old
    assert first.ask("GET", "/api/test/topics").status == 401
    assert second.get("/api/test/topics") == ["orders"]


def test_session_ends_when_brokers_refuse_its_login(
    console: ConsoleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "PATIENCE_S", 0.1)
    api = log_in(console, "reader")
    (session,) = console._sessions._by_token.values()
    for client in session._idle:
        client.close()
    session._idle.clear()
    session._security = replace(session._security, password="of yesterday")

    answer = api.ask("GET", "/api/test/topics")

    assert (answer.status, answer.json["error"]) == (401, "UNAUTHORIZED")
    assert session.is_over
    assert api.get("/api/me")["login_needed"] is True


def test_second_login_of_a_browser_ends_its_first(console: ConsoleServer) -> None:
    api = log_in(console, "reader")
    old = api.cookie
    api.post("/api/login", user="nobody", password="nobody-secret")

    assert api.get("/api/me")["user"] == "nobody"
    api.cookie = old
    assert api.get("/api/me")["user"] is None


def test_console_of_one_login_asks_for_none(secured: Cluster) -> None:
    with console_of(secured, security=ADMIN) as console:
        api = Api(console.url)
        assert api.get("/api/me")["login_needed"] is False
        answer = api.ask("POST", "/api/login", body={"user": "reader", "password": "x"})
        assert (answer.status, answer.json["error"]) == (409, "NO_LOGIN")
        assert api.post("/api/logout") == {"user": None}


def test_login_without_a_broker_is_no_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftka.console.workers.FAILED_LOGIN_S", 0.01)
    with ConsoleServer(ConsoleSettings([("127.0.0.1", 1)], port=0, login="PLAIN")) as console:
        answer = Api(console.url).ask("POST", "/api/login", body={"user": "a", "password": "b"})
    assert (answer.status, answer.json["error"]) == (503, "UNREACHABLE")


def test_mechanism_that_brokers_do_not_have_is_no_wrong_password(secured: Cluster) -> None:
    with console_of(secured, login="SCRAM-SHA-256") as console:
        body = {"user": "reader", "password": "reader-secret"}
        answer = Api(console.url).ask("POST", "/api/login", body=body)
    assert (answer.status, answer.json["error"]) == (502, "UNSUPPORTED_SASL_MECHANISM")
    assert "take no SCRAM-SHA-256 logins" in answer.json["message"]


def test_wrong_password_is_answered_late(secured: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = trio.sleep

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr("raftka.console.workers.FAILED_LOGIN_S", 0.0123)
    monkeypatch.setattr(trio, "sleep", note)
    with console_of(secured, login="PLAIN") as console:
        for password in ("wrong", "reader-secret"):
            body = {"user": "reader", "password": password}
            Api(console.url).ask("POST", "/api/login", body=body)
    assert pauses.count(0.0123) == 1


# sessions by themselves


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def many(secured: Cluster) -> tuple[Sessions, Clock, list[str]]:
    """Sessions, their clock, and names of the limits that were hit."""
    clock, hits = Clock(), list[str]()
    settings = ConsoleSettings(addresses_of(secured.bootstrap_servers), login="PLAIN")
    return Sessions(settings, lambda limit: hits.append(limit.name), clock), clock, hits


def test_session_ends_after_an_hour_without_a_request(
    many: tuple[Sessions, Clock, list[str]],
) -> None:
    found, clock, _ = many
    token = found.log_in("reader", "reader-secret")
    session = found.find(token)
    assert session is not None
    clock.now += 3600
    assert found.find(token) is session
    clock.now += 3601
    assert found.find(token) is None
    assert not session.is_over

    found.end_idle()

    assert session.is_over
    with pytest.raises(sessions.SessionOver), session.client():
        pass


def test_session_that_was_idle_for_longest_makes_room(
    many: tuple[Sessions, Clock, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.console.sessions.SESSIONS", Limit("console_sessions", 2, ""))
    found, _, hits = many
    first, second = (found.log_in("reader", "reader-secret") for _ in range(2))
    assert found.find(first) is not None

    third = found.log_in("reader", "reader-secret")

    assert [found.find(token) is not None for token in (first, second, third)] == [
        True,
        False,
        True,
    ]
    assert hits == ["console_sessions"]
    found.end_all()


def test_clients_of_a_session_are_kept_and_bounded(
    many: tuple[Sessions, Clock, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raftka.console.sessions.CLIENTS", Limit("console_clients", 2, ""))
    found, _, _ = many
    session = found.find(found.log_in("reader", "reader-secret"))
    assert session is not None

    with ExitStack() as stack:
        clients = [stack.enter_context(session.client()) for _ in range(3)]
        for each in clients:
            each.refresh([])
        assert len({id(each) for each in clients}) == 3

    assert sum(bool(each._idle) for each in clients) == 2
    found.end_all()
    assert not any(each._idle for each in clients)


def test_password_is_in_no_text_of_a_session(many: tuple[Sessions, Clock, list[str]]) -> None:
    found, _, _ = many
    session = found.find(found.log_in("reader", "reader-secret"))
    assert session is not None
    assert "reader-secret" not in repr(vars(session)) + repr(session)
    found.end_all()


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        (ConsoleSettings([]), ""),
        (ConsoleSettings([], host="0.0.0.0"), "all who reach it may do what it can"),
        (ConsoleSettings([], login="PLAIN"), ""),
        (ConsoleSettings([], login="PLAIN", host="10.0.0.1"), "passwords come in the open"),
        (ConsoleSettings([], ADMIN), "all have the rights of its own login, admin"),
        (
            ConsoleSettings([], ClientSecurity("SASL_SSL", "OAUTHBEARER")),
            "all have the rights of its own login by OAUTHBEARER",
        ),
        (ConsoleSettings([], ClientSecurity("SSL")), "rights of its own certificate"),
    ],
    ids=str,
)
def test_whoever_starts_a_console_is_warned(settings: ConsoleSettings, warning: str) -> None:
    found = warnings_of(settings)

    assert len(found) == bool(warning)
    assert warning in "".join(found)


def test_login_needs_a_mechanism_of_passwords() -> None:
    with pytest.raises(ValueError, match="OAUTHBEARER is no mechanism of passwords"):
        ConsoleSettings([], login="OAUTHBEARER")
