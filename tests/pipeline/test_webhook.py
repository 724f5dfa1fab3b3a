"""Webhooks without Spark: keys, tries, refusals, TLS, secrets; over real connections to a server of
the test.
"""

import ssl
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import trustme

from raftka.pipeline.connect import webhook
from raftka.pipeline.connect.values import as_json
from raftka.pipeline.connect.webhook import Place, Poster, requests, send, stop_at_refusal
from raftka.pipeline.connect.webhook_options import Webhook, webhook_options
from raftka.pipeline.errors import OptionRefused, PipelineError
from tests.pipeline.hooks import Receiver, receiver

PLACE = Place("q", 7, 1)


@pytest.fixture
def server() -> Iterator[Receiver]:
    with receiver() as started:
        yield started


def hook(server: Receiver, **options: str) -> Webhook:
    return webhook_options({"url": server.url, **options})


def post(
    found: Webhook, rows: list[dict[str, Any]], pauses: list[float] | None = None, dead: Any = None
) -> int:
    poster = Poster(found)
    pauses = [] if pauses is None else pauses
    try:
        return send(
            found,
            requests(found, rows, PLACE),
            poster.post,
            dead or stop_at_refusal(found),
            pauses.append,
        )
    finally:
        poster.close()


def numbered(count: int) -> list[dict[str, Any]]:
    return [{"n": at} for at in range(count)]


def test_each_row_is_a_request_with_the_same_key_when_it_is_sent_again(server: Receiver) -> None:
    for _ in range(2):
        assert post(hook(server), numbered(3)) == 3

    assert server.keys() == ["q-7-1-0", "q-7-1-1", "q-7-1-2"] * 2
    assert [each.told for each in server.got[:3]] == numbered(3)
    assert {(each.path, each.headers["Content-Type"]) for each in server.got} == {
        ("/hook", "application/json")
    }
    assert server.connections == 2


def test_rows_per_request_makes_lists(server: Receiver) -> None:
    assert post(hook(server, rows_per_request="2"), numbered(5)) == 5

    assert [(each.key, [row["n"] for row in each.told]) for each in server.got] == [
        ("q-7-1-0", [0, 1]),
        ("q-7-1-2", [2, 3]),
        ("q-7-1-4", [4]),
    ]


def test_an_id_names_the_row_wherever_it_is(server: Receiver) -> None:
    post(hook(server, id="n"), [{"n": "a/b"}, {"n": 5}])

    assert server.keys() == ["q-a/b", "q-5"]
    for bad in (None, "ü", "x\r\nHost: y", "x" * 201):
        with pytest.raises(PipelineError, match="the id of a row is"):
            post(hook(server, id="n"), [{"n": bad}])
    with pytest.raises(
        OptionRefused, match="id names the column m, which is not there: there are n"
    ):
        post(hook(server, id="m"), numbered(1))


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 507])
def test_failures_that_pass_are_tried_again_later_each_time(server: Receiver, status: int) -> None:
    server.answers = [(status, {}, b"later")] * 3
    pauses: list[float] = []

    assert post(hook(server), numbered(1), pauses) == 1
    assert server.keys() == ["q-7-1-0"] * 4
    assert pauses == [0.5, 1.0, 2.0]


def test_retry_after_is_kept_within_bounds(server: Receiver) -> None:
    server.answers = [(429, {"Retry-After": after}, b"") for after in ("7", "86400", "soon", "-5")]
    pauses: list[float] = []

    post(hook(server), numbered(1), pauses)
    assert pauses == [7.0, webhook.LONGEST_PAUSE_S, 2.0, 4.0]


def test_tries_are_bounded(server: Receiver) -> None:
    server.answers = [(503, {}, b"down")] * 9

    with pytest.raises(
        PipelineError,
        match=(
            r"took no row in 3 tries: it answered 503 Service Unavailable: down\. .* sent again "
            r"under the same keys"
        ),
    ):
        post(hook(server, retries="2"), numbered(1))
    assert len(server.got) == 3


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 401, 403, 404, 422])
def test_a_refusal_stops_the_query_and_no_redirect_is_followed(
    server: Receiver, status: int
) -> None:
    with receiver() as other:
        server.answers = [(status, {"Location": other.url}, b"no <such> thing")]
        with pytest.raises(
            PipelineError,
            match=(
                rf"refused the rows with the key q-7-1-0: {status} .*no <such> "
                r"thing.*dead_letters"
            ),
        ):
            post(hook(server), numbered(2))
        assert (len(server.got), other.got) == (1, [])


def test_refused_rows_may_be_dead_letters(server: Receiver) -> None:
    server.decide = lambda got: (422, {}, b"odd") if got.told["n"] % 2 else (200, {}, b"")
    dead: list[tuple[str, bytes, str]] = []

    assert (
        post(
            hook(server),
            numbered(4),
            dead=lambda request, why: dead.append((request.key, request.body, why)),
        )
        == 2
    )
    assert dead == [
        ("q-7-1-1", b'{"n":1}', "422 Unprocessable Entity: odd"),
        ("q-7-1-3", b'{"n":3}', "422 Unprocessable Entity: odd"),
    ]


def test_a_connection_that_breaks_is_made_anew(server: Receiver) -> None:
    server.decide = lambda got: (
        (200, {"Content-Length": "100"}, b"short") if len(server.got) == 1 else (200, {}, b"")
    )
    found = hook(server, timeout="1")
    assert post(found, numbered(1)) == 1
    assert server.connections == 2
    with receiver() as gone:
        url = gone.url
    pauses: list[float] = []
    with pytest.raises(PipelineError, match=r"took no row in 2 tries: ConnectionRefusedError"):
        post(webhook_options({"url": url, "retries": "1"}), numbered(1), pauses)
    assert pauses == [0.5]


def test_a_long_answer_costs_its_connection_and_no_memory(server: Receiver) -> None:
    server.decide = lambda got: (200, {}, b"x" * 300_000)

    assert post(hook(server), numbered(2)) == 2
    assert server.connections == 2


def test_secrets_come_from_the_environment_of_the_task(
    server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = hook(server, **{"header.X-Team": "trucks", "secret_header.Authorization": "HOOK_TOKEN"})
    monkeypatch.delenv("HOOK_TOKEN", raising=False)
    with pytest.raises(
        OptionRefused,
        match=(
            "the header authorization is to come from the environment variable HOOK_TOKEN, "
            "which is not set"
        ),
    ):
        post(found, numbered(1))
    monkeypatch.setenv("HOOK_TOKEN", "Bearer x\r\nEvil: y")
    with pytest.raises(OptionRefused, match="characters that no header may have"):
        post(found, numbered(1))
    monkeypatch.setenv("HOOK_TOKEN", "Bearer secret")
    post(found, numbered(1))

    headers = {name.lower(): value for name, value in server.got[0].headers.items()}
    assert (headers["x-team"], headers["authorization"]) == ("trucks", "Bearer secret")
    assert "Bearer" not in repr(found)


def test_certificates_are_verified(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    with receiver(context) as server:
        url = server.url.replace("http:", "https:")
        with pytest.raises(
            PipelineError,
            match=r"certificate of https://127.0.0.1:\d+ is not to be trusted.*ca_file",
        ):
            post(webhook_options({"url": url}), numbered(1))
        assert server.got == []
        assert post(webhook_options({"url": url, "ca_file": str(ca_file)}), numbered(1)) == 1
        with pytest.raises(PipelineError, match="is not to be trusted"):
            post(
                webhook_options(
                    {"url": url.replace("127.0.0.1", "localhost"), "ca_file": str(ca_file)}
                ),
                numbered(1),
            )
        with pytest.raises(OptionRefused, match="can not be read"):
            post(webhook_options({"url": url, "ca_file": str(tmp_path / "none")}), numbered(1))


def test_values_as_json() -> None:
    row = {
        "b": b"\x00\xff",
        "t": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "d": date(2026, 1, 2),
        "m": Decimal("1.20"),
        "n": [float("nan"), 1.5, {"x": None}],
        "s": "ü\ud800",
    }

    assert as_json(row).decode() == (
        '{"b":"AP8=","t":"2026-01-02T03:04:05+00:00","d":"2026-01-02","m":"1.20","n":[null,1.5,'
        '{"x":null}],"s":"ü?"}'
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"url": ""}, "is to be https://host/path"),
        ({"url": "ftp://x/"}, "is to be https://host/path"),
        ({"url": "https://x/a b"}, "without blanks"),
        ({"url": "https://x/a\r\nb"}, "without blanks"),
        ({"url": "https://x:99999/"}, "URL is none"),
        ({"url": "https://user:pw@x/"}, "logins go into secret_headers"),
        ({"rows_per_reqest": "2"}, "there is no option rows_per_reqest: is it rows_per_request"),
        ({"rows_per_request": "0"}, "a whole number from 1 to 10000"),
        ({"retries": "21"}, "a whole number from 0 to 20"),
        ({"timeout": "ten"}, "a whole number from 1 to 300"),
        ({"id": "a", "rows_per_request": "2"}, "id names one row"),
        ({"header.Idempotency-Key": "x"}, "idempotency-key is set by the webhook itself"),
        ({"header.a b": "x"}, "no name of an HTTP header"),
        ({"header.a": "x\r\nb: c"}, "characters that no header may have"),
        ({"header.a": "x", "secret_header.A": "Y"}, "the header a is given twice"),
        ({"url": "http://example.org/", "secret_header.a": "Y"}, "would travel in the open"),
        ({"url": "http://example.org/", "ca_file": "x"}, "ca_file has no meaning"),
        ({"kafka.bootstrap.servers": "x:1"}, "dead_letters only"),
        ({"dead_letters": "t"}, "kafka.bootstrap.servers is missing"),
    ],
)
def test_mistakes_are_told(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionRefused, match=said):
        webhook_options({"url": "https://example.org/hook?x=1", **options})
