"""The pages of a real node over TLS, asked for by Python's own HTTP client."""

import ssl
from base64 import b64encode
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from raftka.cluster.ports import HeldPorts
from raftka.cluster.secured.authority import Authority
from raftka.testing import Cluster

BASIC = "Basic " + b64encode(b"prometheus:secret").decode()
TOKEN = "Bearer " + "a-token-of-letters"


def test_pages_over_tls_with_both_logins(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "web.pem").write_text(authority.issue("web", ["localhost"]).key_store)
    (tmp_path / "users").write_text("prometheus:secret\n")
    (tmp_path / "tokens").write_text("a-token-of-letters\n")
    with HeldPorts(1) as ports:
        (port,) = ports.numbers
        settings = {
            "metrics.port": str(port),
            "metrics.ssl.enable": "true",
            "metrics.ssl.keystore.location": str(tmp_path / "web.pem"),
            "metrics.auth.basic.users.location": str(tmp_path / "users"),
            "metrics.auth.bearer.token.location": str(tmp_path / "tokens"),
        }
        context = ssl.create_default_context(cadata=authority.trusted)

        def ask(path: str, scheme: str = "https", **headers: str) -> bytes:
            request = Request(f"{scheme}://localhost:{port}{path}", headers=headers)
            with urlopen(
                request, timeout=10, context=context if scheme == "https" else None
            ) as answer:
                return bytes(answer.read())

        with Cluster(properties=settings):
            assert all(
                b"raftka_certificate_expiry" in ask("/metrics", Authorization=each)
                for each in (BASIC, TOKEN)
            )
            assert ask("/health") == b'{"status": "ok"}\n'
            for headers in ({}, {"Authorization": TOKEN + "s"}, {"Authorization": BASIC[:-4]}):
                with pytest.raises(HTTPError) as refused:
                    ask("/metrics", **headers)
                assert refused.value.code == 401
                assert len(refused.value.headers.get_all("WWW-Authenticate") or ()) == 2
                refused.value.close()
            with pytest.raises((URLError, OSError)):
                ask("/health", scheme="http")
