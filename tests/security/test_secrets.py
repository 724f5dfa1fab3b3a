"""Rules for all secrets: their comparison takes constant time, and no setting fetches one from
elsewhere.
"""

import hmac
from pathlib import Path

import pytest

from raftka.metadata.configs.settings import NodeSettings
from raftka.security.mechanism import AuthenticationFailed
from raftka.security.plain import PlainServer
from raftka.security.scram import SHA_256, ScramClient, ScramServer, make_credential


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, object]]:
    """The pairs that were compared in constant time."""
    pairs: list[tuple[object, object]] = []
    compare = hmac.compare_digest

    def recording(left: bytes, right: bytes) -> bool:
        pairs.append((left, right))
        return compare(left, right)

    monkeypatch.setattr(hmac, "compare_digest", recording)
    return pairs


@pytest.mark.parametrize("user", ["alice", "nobody"])
@pytest.mark.parametrize("password", ["right", "wrong"])
def test_secrets_are_compared_in_constant_time(
    compared: list[tuple[object, object]], user: str, password: str
) -> None:
    try:
        PlainServer({"alice": "right"}).step(f"\0{user}\0{password}".encode())
    except AuthenticationFailed:
        pass
    assert [left for left, _ in compared] == [password.encode()]


@pytest.mark.parametrize("password", ["right", "wrong"])
def test_proofs_of_scram_are_compared_in_constant_time(
    compared: list[tuple[object, object]], password: str
) -> None:
    credential = make_credential(SHA_256, "right", b"salt")
    server = ScramServer(SHA_256, lambda user: credential, "nonce", b"secret")
    client = ScramClient(SHA_256, "alice", password, "abc")
    final = client.step(server.step(client.first()))
    assert final is not None
    try:
        server.step(final)
    except AuthenticationFailed:
        assert password == "wrong"
    assert compared[-1][1] == credential.stored_key


def test_value_of_a_setting_names_no_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password=found\n")
    properties = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://h:9092,CONTROLLER://h:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@h:9093",
        "config.providers": "file",
        "ssl.key.password": f"${{file:{secret}:password}}",
    }
    settings = NodeSettings.from_properties(properties)

    assert settings["ssl.key.password"] == f"${{file:{secret}:password}}"
    assert "config.providers" in settings.unused
