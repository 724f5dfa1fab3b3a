"""Two ends of a TLS connection without a network: what one sends is what the other gets, however it
is cut, and every failure is told.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from re import search
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftka.limits import LOGIN_BYTES
from raftka.runtime.interfaces import FileSpan
from raftka.runtime.real.files import RealFiles
from raftka.security.tls_connection import (
    PIECE_BYTES,
    TURN_BYTES,
    RefusedByName,
    Side,
    TlsConnection,
)
from raftka.security.tls_context import (
    TlsContexts,
    read_material,
    server_context,
)
from raftka.security.tls_settings import StoreSettings, TlsSettings
from tests.security.tls_pair import (
    AUTHORITY,
    CLIENT,
    FILES,
    SERVER,
    STRANGER,
    End,
    Inner,
    Pair,
    settings,
)


def pair(**others: Any) -> Pair:
    return Pair(settings(SERVER.key_store), settings(trusted=AUTHORITY.trusted), **others)


def test_what_is_said_before_the_end_arrives_also_behind_much_else() -> None:
    """The last words come while the encryption of what was before is under way."""
    both = pair()
    server = both.server
    server.inner.send(bytes(TURN_BYTES + 1))
    first = b"".join(server.tls.take_output())  # type: ignore[arg-type]
    server.inner.send(b"last words")
    server.tls.close("all is said")
    both._deliver(first, both.client)
    both.run()
    assert bytes(both.client.inner.come) == bytes(TURN_BYTES + 1) + b"last words"


def test_the_end_is_said_once() -> None:
    """A network that takes output until there is none comes to an end."""
    both = pair()
    both.server.inner.send(b"x")
    both.server.tls.close("all is said")
    taken = [both.server.tls.take_output() for _ in range(3)]
    assert [bool(b"".join(each)) for each in taken] == [True, False, False]  # type: ignore[arg-type]
    assert not taken[2]
    assert both.server.closing == "all is said"


@given(
    # or so many zeros
    drawn_pieces=st.lists(st.binary(max_size=300) | st.integers(0, 200_000), max_size=6),
    drawn_answers=st.lists(st.binary(max_size=300) | st.integers(0, 200_000), max_size=6),
    rooms=st.lists(st.integers(1, 100_000), max_size=10),
    seed=st.integers(0, 1 << 32),
)
def test_what_one_end_sends_is_what_the_other_gets(
    drawn_pieces: list[bytes | int], drawn_answers: list[bytes | int], rooms: list[int], seed: int
) -> None:
    random = Random(seed)
    pieces, answers = ([bytes(each) for each in drawn] for drawn in (drawn_pieces, drawn_answers))
    both = pair(
        cut=lambda: (
            random.choice((1, 5, 100, 20_000, 1 << 20)) if random.random() < 0.9 else 1 << 20
        )
    )
    both.server.inner.rooms.extend(rooms)

    both.client.inner.send(*pieces)
    both.server.inner.send(*answers)
    both.run()

    assert bytes(both.server.inner.come) == b"".join(pieces)
    assert bytes(both.client.inner.come) == b"".join(answers)
    assert both.failures == []


def test_files_leave_encrypted_and_stay_readable_until_then(tmp_path: Path) -> None:
    files = RealFiles(lambda action: action())
    content = Random(1).randbytes(TURN_BYTES + PIECE_BYTES + 1)
    file = files.open(str(tmp_path / "segment"), create=True)
    file.append([content])
    both = pair()
    file.pin()  # as a connection does

    both.server.inner.send(b"header", FileSpan(file, 0, len(content)), b"tail")
    first = both.server.tls.take_output()
    file.close()  # its segment was deleted while it leaves
    both.server.sent += b"".join(first)  # type: ignore[arg-type]
    both._deliver(b"".join(first), both.client)  # type: ignore[arg-type]
    both.run()

    assert bytes(both.client.inner.come) == b"header" + content + b"tail"
    assert content[:1000] not in both.server.sent
    assert file.pins == 0
    assert file.fd < 0


def test_no_turn_encrypts_more_of_one_connection_than_its_share() -> None:
    both = pair()
    both.server.inner.send(bytes(10 * TURN_BYTES))

    taken = sum(map(len, both.server.tls.take_output()))  # type: ignore[arg-type]

    assert TURN_BYTES <= taken < TURN_BYTES + 2 * PIECE_BYTES
    assert both.later == [both.server.tls.wake], "the rest has a turn of its own"


def test_a_closing_end_sends_all_it_has_before() -> None:
    both = pair()
    both.server.inner.send(bytes(3 * TURN_BYTES))
    both.server.inner.transport.close("done")

    assert both.server.closing is None
    both.run()

    assert both.server.closing == "done"
    assert len(both.client.inner.come) == 3 * TURN_BYTES


def test_goodbye_of_the_other_end_is_the_end_of_what_it_sends() -> None:
    """Some clients wait for ours before they close."""
    both = pair()
    both.client.inner.transport.close("done")
    both.run()
    assert both.server.inner.ended
    assert both.server.closing is None

    both.server.inner.send(b"an answer that was under way")
    both.server.inner.transport.close("closed by the other side")
    both.run()

    assert both.server.closing == "closed by the other side"
    assert both.client.inner.come == b"", "the client has closed"


@pytest.mark.parametrize(
    ("server", "client", "host", "reason"),
    [
        (
            settings(SERVER.key_store),
            settings(trusted=STRANGER.trusted),
            "n1",
            "certificate verify failed: self-signed certificate in certificate chain",
        ),
        (
            settings(SERVER.key_store),
            settings(trusted=AUTHORITY.trusted),
            "n2",
            "certificate verify failed: .*n2",
        ),
        (
            settings(AUTHORITY.issue("node", ["n1"], days=-1).key_store),
            settings(trusted=AUTHORITY.trusted),
            "n1",
            "certificate has expired",
        ),
        (
            settings(SERVER.key_store, protocols=("TLSv1.2",)),
            settings(trusted=AUTHORITY.trusted, protocols=("TLSv1.3",)),
            "n1",
            "protocol version",
        ),
        (
            settings(SERVER.key_store, AUTHORITY.trusted, client_auth="required"),
            settings(trusted=AUTHORITY.trusted),
            "n1",
            "did not return a certificate",
        ),
        (
            settings(SERVER.key_store, AUTHORITY.trusted, client_auth="requested"),
            settings(STRANGER.issue("alice").key_store, AUTHORITY.trusted),
            "n1",
            "certificate verify failed",
        ),
        (
            settings(SERVER.key_store, AUTHORITY.trusted, client_auth="required"),
            settings(AUTHORITY.issue("alice", days=-1).key_store, AUTHORITY.trusted),
            "n1",
            "certificate has expired",
        ),
    ],
)
def test_a_handshake_that_must_fail_fails_on_both_sides(
    server: TlsSettings, client: TlsSettings, host: str, reason: str
) -> None:
    both = Pair(server, client, host=host)
    both.client.inner.send(b"too early")
    both.run()

    assert any(search(reason, each) for each in both.failures), both.failures
    assert not both.server.inner.come
    assert all(end.closing is not None and end.closing.startswith("TLS: ") for end in both.ends), [
        end.closing for end in both.ends
    ]


def test_without_verification_of_hostnames_any_name_will_do() -> None:
    both = Pair(
        settings(SERVER.key_store),
        settings(trusted=AUTHORITY.trusted, verifies_hostnames=False),
        host="n2",
    )
    both.client.inner.send(b"hello")
    both.run()

    assert both.server.inner.come == b"hello"


def test_the_certificate_that_was_shown() -> None:
    server = settings(SERVER.key_store, AUTHORITY.trusted, client_auth="required")
    client = settings(CLIENT.key_store, AUTHORITY.trusted)
    assert Pair(server, client).server.tls.certificate
    assert pair().server.tls.certificate is None


def test_a_valid_certificate_of_nobody_ends_the_connection() -> None:
    def established(tls: TlsConnection) -> None:
        raise RefusedByName("no rule matches")

    both = pair(established=established)
    both.client.inner.send(b"hello")
    both.run()

    assert (both.server.closing, bytes(both.server.inner.come)) == ("TLS: no rule matches", b"")


def test_certificate_that_cannot_be_read_ends_its_connection_alone() -> None:
    def established(tls: TlsConnection) -> None:
        raise IndexError("an attribute of its name is cut off")

    both = pair(established=established)

    assert both.server.closing == "TLS: what the certificate says cannot be read"


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x20" + bytes(32),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x17\x03\x03\x00\x10" + bytes(16),
    ],
)
def test_what_is_no_handshake_is_refused(data: bytes) -> None:
    context = server_context(
        settings(SERVER.key_store), read_material(settings(SERVER.key_store), FILES), FILES
    )
    later: list[Callable[[], None]] = []
    end = End(Inner(), context, Side(None), later)
    end.tls.opened(end)
    end.tls.receive(memoryview(bytearray(data)))

    assert end.closing is not None
    assert not end.inner.come


def test_bytes_before_the_handshake_is_over_are_bounded() -> None:
    """Of a ClientHello that has no end; nothing more is read while a step waits for its turn."""
    context = server_context(
        settings(SERVER.key_store), read_material(settings(SERVER.key_store), FILES), FILES
    )
    steps: list[Callable[[], None]] = []
    end = End(Inner(), context, Side(None, step=steps.append), [])
    end.tls.opened(end)
    room = end.tls.room()
    assert room is not None
    assert len(room) <= LOGIN_BYTES.value // 4
    for number in range(LOGIN_BYTES.value // 4096):
        assert end.closing is None
        end.tls.receive(
            memoryview(
                bytearray(
                    b"\x16\x03\x01\x10\x00"
                    + (bytes(4096) if number else b"\x01\x01\xff\xff" + bytes(4092))
                )
            )
        )
        assert end.held
        steps.pop()()
        assert not end.held

    assert end.closing == "TLS: more bytes than a TLS handshake has"


def test_a_record_that_was_changed_on_its_way_ends_the_connection() -> None:
    both = pair()
    both.client.inner.send(b"a secret order")
    record = bytearray(b"".join(both.client.tls.take_output()))  # type: ignore[arg-type]
    record[-1] ^= 1
    both.server.tls.receive(memoryview(record))

    assert both.server.closing is not None
    assert not both.server.inner.come
    assert both.failures


def test_new_files_make_new_contexts_and_bad_ones_leave_the_old(tmp_path: Path) -> None:
    now = [0.0]
    path = tmp_path / "server.pem"
    path.write_text(SERVER.key_store)
    given = TlsSettings(StoreSettings(str(path)))
    contexts = TlsContexts(lambda: given, server_context, FILES, lambda: now[0])
    told: list[str] = []
    contexts.on_refused = told.append
    first = contexts.current()

    path.write_text(AUTHORITY.issue("node", ["n1"], days=1).key_store)
    assert contexts.current() is first, "not looked at before some seconds have passed"
    now[0] += 60
    second = contexts.current()
    assert second is not first
    path.write_text(SERVER.key + AUTHORITY.issue("other").chain)  # the key is not the certificate's
    now[0] += 60
    assert contexts.current() is second
    path.unlink()
    now[0] += 60
    assert contexts.current() is second

    assert len(told) == 2
    assert "does not take the key" in told[0]
    assert "cannot be read" in told[1]
