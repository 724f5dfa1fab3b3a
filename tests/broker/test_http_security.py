"""The metrics port with TLS and logins: pages for clients that have logged in, and nothing for
others.
"""

import json
from base64 import b64encode
from functools import partial
from operator import contains
from typing import Any

import pytest

from raftka.broker.exporter.guarded import FAILED_LOGINS
from raftka.limits import HTTP_CONNECTIONS, HTTP_REQUEST_BYTES, LOGIN_SECONDS
from raftka.metadata.configs.settings import NodeSettings
from raftka.metadata.configs.values import SettingError
from tests.broker.conftest import Lower
from tests.broker.stage import Stage, Wire
from tests.broker.tls import ALICE, AUTHORITY, NODE, wrapped
from tests.kit.broker.http import GET, PORT, Browser

METRICS = b"GET /metrics HTTP/1.1\r\nHost: x\r\n%b\r\n"
TLS = {
    "metrics_ssl_enable": "true",
    "ssl_keystore_key": NODE.key,
    "ssl_keystore_certificate_chain": NODE.chain,
    "ssl_truststore_certificates": AUTHORITY.trusted,
}
USERS = {"metrics_auth_basic_users": "prometheus:pass:word, ops:geheim"}
TOKEN = {"metrics_auth_bearer_token": "a-token-of-letters"}


def scraped(**settings: Any) -> Stage:
    return Stage(metrics_port=str(PORT), **settings)


def basic(user: str, password: str) -> bytes:
    return b"Authorization: Basic " + b64encode(f"{user}:{password}".encode()) + b"\r\n"


def bearer(token: str) -> bytes:
    return f"Authorization: Bearer {token}\r\n".encode()


def status(stage: Stage, header: bytes = b"") -> int:
    return Browser(stage).answer_to(METRICS % header)[0]


class TlsBrowser(Browser):
    def __init__(self, stage: Stage, own: Any = None, trusted: str = AUTHORITY.trusted) -> None:
        self.came = bytearray()
        Wire.__init__(self, stage.world, stage.runtime, "n1", PORT, wrapped(own, trusted))


# logins


def test_pages_are_for_users_and_tokens_that_are_right() -> None:
    with scraped(**USERS, **TOKEN) as stage:
        assert status(stage, basic("prometheus", "pass:word")) == 200
        assert status(stage, basic("ops", "geheim")) == 200
        assert status(stage, b"authorization: bEARER a-token-of-letters\r\n") == 200
        before = stage.counted(FAILED_LOGINS)
        wrong = [
            basic("ops", "pass:word"),
            basic("ops", ""),
            basic("", ""),
            basic("nobody", "geheim"),
            b"Authorization: Basic !!!\r\n",
            b"Authorization: Basic\r\n",
            b"Authorization: Basic " + b64encode(b"ops") + b"\r\n",
            b"Authorization: Basic " + b64encode(b"\xff:\xff") + b"\r\n",
            bearer("a-token-of-letter"),
            bearer("A-TOKEN-OF-LETTERS"),
            bearer(""),
            b"Authorization: Digest username=ops\r\n",
            b"Authorization: \r\n",
        ]
        assert [status(stage, each) for each in wrong] == [401] * len(wrong)
        assert stage.counted(FAILED_LOGINS) - before == len(wrong)


def test_a_client_without_login_is_told_how_to_get_one_and_closed() -> None:
    with scraped(**USERS) as stage:
        browser = Browser(stage)
        code, headers, _ = browser.answer_to(METRICS % b"")
        assert (code, headers["www-authenticate"]) == (401, 'Basic realm="raftka", charset="UTF-8"')
        stage.wait(lambda: browser.close_reason is not None)
        assert stage.counted(FAILED_LOGINS) == 0, "it has shown nothing that could be wrong"
        assert Browser(stage).answer_to(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")[0] == 401, (
            "a stranger does not learn which pages there are"
        )


def test_two_logins_in_one_request_are_none() -> None:
    with scraped(**USERS) as stage:
        assert status(stage, basic("ops", "wrong") + basic("ops", "geheim")) == 400


def test_health_tells_strangers_the_status_alone() -> None:
    with scraped(**USERS) as stage:
        code, _, body = Browser(stage).answer_to(GET)
        assert (code, json.loads(body)) == (200, {"status": "ok"})
        assert Browser(stage).answer_to(GET[:-2] + basic("ops", "wrong") + b"\r\n")[0] == 401
        assert "cluster_id" in json.loads(
            Browser(stage).answer_to(GET[:-2] + basic("ops", "geheim") + b"\r\n")[2]
        )
    with scraped(**USERS, metrics_auth_health="true") as stage:
        assert Browser(stage).answer_to(GET)[0] == 401


def test_a_failed_login_is_answered_after_a_while_and_told_at_most_ten_times_a_second() -> None:
    with scraped(**USERS, connection_failed_authentication_delay_ms="700") as stage:
        browsers = [Browser(stage) for _ in range(15)]
        begun = stage.world.now
        for browser in browsers:
            browser.send(METRICS % basic("ops", "geheimnis"))
        assert {browser.page()[0] for browser in browsers} == {401}
        assert stage.world.now - begun >= 0.7
        lines = stage.events("http_authentication_failed")
        assert len(lines) == 10
        assert lines[0]["scheme"] == "basic"
        assert "geheim" not in stage.logs[1].getvalue()


def test_files_of_users_and_tokens_are_read_again() -> None:
    files = {
        "metrics_auth_basic_users_location": "/users",
        "metrics_auth_bearer_token_location": "/tokens",
    }
    with scraped(
        files={"/users": "# scrapers\nops:one\n", "/tokens": "old\nnew\n"}, **files
    ) as stage:
        assert [
            status(stage, each)
            for each in (basic("ops", "one"), bearer("old"), bearer("new"), bearer("# scrapers"))
        ] == [200] * 3 + [401]

        stage.put("/users", "ops:two\n")
        stage.put("/tokens", "new\n")
        stage.world.run(stage.world.now + 11)
        assert [
            status(stage, each)
            for each in (basic("ops", "one"), basic("ops", "two"), bearer("old"), bearer("new"))
        ] == [401, 200, 401, 200]

        stage.put("/users", "no-password-here\n")
        stage.world.run(stage.world.now + 11)
        assert status(stage, basic("ops", "two")) == 200, "the last file that can be used counts"
        assert "entry 1" in stage.events("http_logins_refused")[-1]["error"]
        assert "no-password-here" not in stage.logs[1].getvalue()

        stage.put("/users", "")
        stage.world.run(stage.world.now + 11)
        assert status(stage, basic("ops", "two")) == 401, "an empty file lets no user in"


def test_a_node_does_not_start_where_a_login_is_meant_and_cannot_be() -> None:
    with Stage(
        metrics_port=str(PORT), metrics_auth_basic_users_location="/none", wait=False
    ) as stage:
        stage.wait(partial(contains, stage.refused, 1))
        assert "/none cannot be read" in str(stage.refused[1])


@pytest.mark.parametrize(
    "name",
    ["metrics.auth.basic.users", "metrics.auth.bearer.token", "metrics.auth.bearer.token.location"],
)
def test_an_empty_setting_does_not_open_the_pages(name: str) -> None:
    properties = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://n1:9092,CONTROLLER://n1:9093",
    }
    properties |= {
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@n1:9093",
        name: " ",
    }
    with pytest.raises(SettingError, match=f"{name} is empty"):
        NodeSettings.from_properties(properties)


def test_logins_without_tls_are_warned_of() -> None:
    with scraped(**TOKEN) as stage:
        assert len(stage.events("http_logins_in_the_open")) == 1
    with scraped(**TOKEN, **TLS) as stage:
        assert not stage.events("http_logins_in_the_open")


# TLS


def test_pages_with_tls() -> None:
    with scraped(**TLS, **TOKEN) as stage:
        browser = TlsBrowser(stage)
        assert [browser.answer_to(METRICS % bearer("a-token-of-letters"))[0] for _ in range(3)] == [
            200
        ] * 3
        _, _, body = browser.answer_to(METRICS % bearer("a-token-of-letters"))
        assert b'raftka_certificate_expiry_timestamp_seconds{listener="metrics"}' in body
        assert TlsBrowser(stage).answer_to(METRICS % b"")[0] == 401


def test_plain_requests_at_a_port_with_tls_and_the_reverse() -> None:
    with scraped(**TLS) as stage:
        browser = Browser(stage)
        browser.send(GET)
        stage.wait(lambda: browser.close_reason is not None)
        assert not browser.came.startswith(b"HTTP")
        assert stage.events("tls_handshake_failed")[0]["listener"] == "metrics"
        assert TlsBrowser(stage).answer_to(GET)[0] == 200
    with scraped() as stage:
        browser = TlsBrowser(stage)
        stage.wait(lambda: browser.close_reason is not None)
        assert stage.events("http_refused")[0]["reason"] == "there is no TLS on this port"


def test_certificates_of_clients_are_asked_for_by_the_ports_own_setting() -> None:
    with scraped(**TLS, ssl_client_auth="required") as stage:
        assert TlsBrowser(stage).answer_to(GET)[0] == 200
    with scraped(**TLS, metrics_ssl_client_auth="required") as stage:
        browser = TlsBrowser(stage)
        browser.send(GET)
        stage.wait(lambda: browser.close_reason is not None)
        assert not browser.came
        assert TlsBrowser(stage, ALICE).answer_to(GET)[0] == 200


def test_a_key_store_of_the_ports_own_is_read_again_when_it_changes() -> None:
    with scraped(
        files={"/web.pem": AUTHORITY.issue("web", ["n1"]).key_store},
        metrics_ssl_keystore_location="/web.pem",
        **TLS,
    ) as stage:
        assert TlsBrowser(stage).answer_to(GET)[0] == 200
        stage.put("/web.pem", AUTHORITY.issue("web", ["another"]).key_store)
        stage.world.run(stage.world.now + 11)
        browser = TlsBrowser(stage)
        stage.wait(lambda: browser.close_reason is not None)
        stage.put("/web.pem", AUTHORITY.issue("web", ["n1"]).key_store)
        stage.world.run(stage.world.now + 11)
        assert TlsBrowser(stage).answer_to(GET)[0] == 200


# limits


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x40\x00", b"G"])
@pytest.mark.parametrize("secured", [TLS, TOKEN])
def test_who_is_silent_before_the_login_is_closed_early(
    secured: dict[str, Any], sent: bytes
) -> None:
    with scraped(**secured) as stage:
        browser = Browser(stage)
        browser.send(sent)
        stage.wait(lambda: browser.close_reason is not None, at_most_s=LOGIN_SECONDS.value + 1)


@pytest.mark.parametrize("secured", [TLS, TOKEN])
def test_silent_strangers_do_not_keep_out_those_who_may_come_in(
    secured: dict[str, Any], lowered: Lower
) -> None:
    lowered(HTTP_CONNECTIONS, 4)
    with scraped(**secured) as stage:

        def scrape(browser: Browser) -> int:
            return browser.answer_to(METRICS % bearer("a-token-of-letters"))[0]

        known = [TlsBrowser(stage) if secured is TLS else Browser(stage) for _ in range(2)]
        assert [scrape(each) for each in known] == [200, 200]
        strangers = [Browser(stage) for _ in range(20)]
        stage.world.run(stage.world.now + 1.0)
        assert scrape(TlsBrowser(stage) if secured is TLS else Browser(stage)) == 200
        assert sum(each.close_reason is not None for each in strangers) >= 19
        assert [scrape(each) for each in known] == [200, 200]
        assert stage.nodes[1].web is not None
        assert len(stage.nodes[1].web.connections) <= 4
        assert stage.counted(HTTP_CONNECTIONS.metric) >= 18


def test_bytes_before_a_login_are_bounded_behind_tls_too(lowered: Lower) -> None:
    lowered(HTTP_REQUEST_BYTES, 200)
    with scraped(**TLS, **TOKEN) as stage:
        assert TlsBrowser(stage).answer_to(METRICS % (b"A: b\r\n" * 100))[0] == 431


def test_passwords_and_tokens_are_not_in_the_log_nor_on_the_pages() -> None:
    with scraped(**USERS, **TOKEN, raftka_log_level="debug") as stage:
        page = Browser(stage).answer_to(METRICS % basic("ops", "geheim"))[2].decode()
        for secret in ("geheim", "pass:word", "a-token-of-letters"):
            assert secret not in page + stage.logs[1].getvalue()
