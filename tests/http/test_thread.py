"""A server in a thread: with TLS, beside others, and gone when it is stopped."""

import socket
import ssl
import threading
from urllib.error import URLError
from urllib.request import urlopen

import pytest
import trustme

from raftka.http.messages import TEXT, Reply, Request, Response
from raftka.http.pages import BOUNDS, Pages, Stderr
from raftka.http.server import HttpServer
from raftka.http.thread import ServerThread, page_in_thread, tls_of
from raftka.runtime.interfaces import Runtime

HOST = "127.0.0.1"


def server(tls: ssl.SSLContext | None = None, *, prepared: bool = True) -> ServerThread:
    def show(request: Request, reply: Reply) -> None:
        reply(Response(200, TEXT, request.query.encode()))

    def slow(request: Request) -> Response:
        return Response(200, TEXT, threading.current_thread().name.encode())

    def make(runtime: Runtime) -> HttpServer:
        pages = {"/": show, "/slow": page_in_thread(runtime, slow)}
        protect = tls_of(tls, runtime.clock) if tls is not None else None
        return HttpServer(Pages(pages, Stderr()), BOUNDS, runtime.clock, protect=protect)

    return ServerThread((HOST, 0), make, "a server", lambda: prepared)


def test_pages_come_from_the_servers_thread_and_from_another_one() -> None:
    thread = server()
    thread.start()
    try:
        with urlopen(f"{thread.url}/?a=b", timeout=30) as answer:
            assert answer.read() == b"a=b"
        with urlopen(f"{thread.url}/slow", timeout=30) as answer:
            assert answer.read() not in (b"a server", b"")
    finally:
        thread.stop()

    assert not thread.thread.is_alive()
    with pytest.raises(URLError):
        urlopen(thread.url, timeout=30)


def test_pages_with_tls() -> None:
    authority = trustme.CA()
    own, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert(HOST).configure_cert(own)
    authority.configure_trust(trusting)
    thread = server(own)
    thread.start()
    try:
        url = thread.url.replace("http:", "https:")
        with urlopen(f"{url}/?secret", timeout=30, context=trusting) as answer:
            assert answer.read() == b"secret"
        with pytest.raises(URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urlopen(url, timeout=30, context=ssl.create_default_context())
        with socket.create_connection((HOST, thread.port), 30) as plain:
            plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert not plain.recv(100).startswith(b"HTTP")
    finally:
        thread.stop()


def test_thread_that_is_not_prepared_serves_nothing() -> None:
    thread = server(prepared=False)
    thread.start()
    thread.thread.join(30)

    with pytest.raises(URLError):
        urlopen(thread.url, timeout=30)


def test_port_is_free_again_after_a_server_that_never_started() -> None:
    thread = server()
    thread.stop()

    with socket.create_server((HOST, thread.port)):
        pass


def test_taken_port_is_an_error_of_the_caller() -> None:
    with (
        socket.create_server((HOST, 0)) as taken,
        pytest.raises(OSError, match="in use"),
    ):
        ServerThread(
            (HOST, taken.getsockname()[1]), lambda runtime: pytest.fail("not made"), "second"
        )
